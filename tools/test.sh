#!/bin/bash
# Builds and runs every suite; each writes build/test-<suite>.log. The last line is the sum: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 2
mkdir -p build
total_passed=0 total_failed=0 total_skipped=0
python=/usr/bin/python3
FUZZ_SECONDS=${FUZZ_SECONDS:-5} FUZZ_SEED=${FUZZ_SEED:-1}
export FUZZ_SECONDS FUZZ_SEED

# The last "N <word>" of a log, 0 if there is none.
count() { grep -oE "[0-9]+ $2" "$1" | tail -1 | grep -oE '^[0-9]+' || echo 0; }

# A suite that ends badly without having counted a failure counts as one.
add() { # suite, exit code
    local log=build/test-$1.log p f s
    p=$(count "$log" passed) f=$(count "$log" failed) s=$(count "$log" skipped)
    f=$((f + $(count "$log" 'errors?\b')))
    [ "$2" -eq 0 ] || [ "$f" -gt 0 ] || f=1
    total_passed=$((total_passed + p)) total_failed=$((total_failed + f)) total_skipped=$((total_skipped + s))
    printf '%-12s %5d passed, %d failed, %d skipped\n' "$1" "$p" "$f" "$s"
    [ "$f" -eq 0 ] || { echo "---- the end of $log"; tail -n 60 "$log"; echo "----"; }
}

suite() { # name, command
    local name=$1 code
    shift
    "$@" >"build/test-$name.log" 2>&1 </dev/null
    code=$?
    add "$name" $code
    return $code
}

# A step without a count of its own: done is one passed, not done is one failed.
step() {
    local name=$1
    shift
    if "$@" >"build/test-$name.log" 2>&1 </dev/null; then
        echo "$name: 1 passed" >>"build/test-$name.log"
    else
        echo "$name: 0 passed, 1 failed" >>"build/test-$name.log"
    fi
    add "$name" 0
}

unit() { make --no-print-directory V=asan build/asan/unit && build/asan/unit; }

run_pytest() { # directory, options
    local dir=$1
    shift
    "$python" -m pytest -q --maxfail=20 -o "cache_dir=$PWD/build/pytest-$dir" "$@" "tests/$dir"
}
pytests() { # directory
    rm -rf "build/pytest-$1"
    run_pytest "$1"
}

# A test that needs a moment which a busy machine did not give it may pass when it runs again, when nothing else runs. It is
# then named in the log and on the screen as unsteady; one that fails again has failed, and so has a suite in which more than
# four files have such.
again() { # suite that has failed
    local log=build/test-$1.log failed passed skipped files
    failed=$(grep -cE '^(FAILED|ERROR) ' "$log") passed=$(count "$log" passed) skipped=$(count "$log" skipped)
    files=$(grep -oE '^(FAILED|ERROR) [^: ]+' "$log" | sort -u | wc -l)
    { [ "$failed" -gt 0 ] && [ "$files" -le 4 ]; } || return 1
    grep -E '^(FAILED|ERROR) ' "$log" | cut -c1-300 | sed 's/^[A-Z]* /runs again: /'
    cp "$log" "build/test-$1.first.log"
    run_pytest "$1" --last-failed >>"$log" 2>&1 </dev/null || return 1
    grep -E '^(FAILED|ERROR) ' "build/test-$1.first.log" | cut -c1-300 | sed 's/^[A-Z]* /unsteady: passed the second time: /' | tee -a "$log"
    echo "$((passed + failed)) passed, 0 failed, 0 errors, $skipped skipped" >>"$log"
}

has_tests() { compgen -G "tests/$1/test_*.py" >/dev/null; }

tools/deps.sh test
jobs=$(nproc)
step build make --no-print-directory -j"$jobs" CI=1 all
step build-asan make --no-print-directory -j"$jobs" V=asan build/asan/unit
suite unit unit
# Two lanes, because most tests wait more than they work; each suite is counted when both have ended.
lane() { # suites in order
    local name
    for name in "$@"; do
        case $name in
        fuzz) tests/fuzz/run.sh ;;
        *) has_tests "$name" && pytests "$name" ;;
        esac >"build/test-$name.log" 2>&1 </dev/null
        echo $? >"build/test-$name.code"
    done
}
set -m # without job control what runs in the background ignores SIGINT, and so would every server that a test starts
lane compat escape fuzz &
set +m
lane api
wait $!
for name in api compat escape fuzz; do
    code=$(cat "build/test-$name.code")
    [ "$code" -eq 0 ] || { again "$name" && code=0; }
    add "$name" "$code"
done
suite lint tools/lint.sh

line="$total_passed passed, $total_failed failed"
[ "$total_skipped" -eq 0 ] || line="$line, $total_skipped skipped"
echo "$line"
[ "$total_failed" -eq 0 ]
