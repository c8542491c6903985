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

# A suite that ends badly without having counted a failure counts as one. Its parts, if it has some, have logs of their own.
add() { # suite, exit code, parts
    local suite=$1 code=$2 part p=0 f=0 s=0
    shift 2
    for part in "${@:-$suite}"; do
        local log=build/test-$part.log
        p=$((p + $(count "$log" passed))) s=$((s + $(count "$log" skipped)))
        f=$((f + $(count "$log" failed) + $(count "$log" 'errors?\b')))
    done
    [ "$code" -eq 0 ] || [ "$f" -gt 0 ] || f=1
    total_passed=$((total_passed + p)) total_failed=$((total_failed + f)) total_skipped=$((total_skipped + s))
    printf '%-12s %5d passed, %d failed, %d skipped\n' "$suite" "$p" "$f" "$s"
    [ "$f" -eq 0 ] || for part in "${@:-$suite}"; do
        log=build/test-$part.log
        [ $# -gt 0 ] && [ "$(cat "build/test-$part.code")" -eq 0 ] || { echo "---- the end of $log"; tail -n 60 "$log"; echo "----"; }
    done
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

# The files of a directory in parts, a line each, of five: a lane takes the next one when it has done one.
parts() { # directory
    compgen -G "tests/$1/test_*.py" | sort | xargs -r -n 5 | nl -w1 -s' ' | sed "s|^|$1-|"
}

run_pytest() { # part, files or options
    local part=$1
    shift
    "$python" -m pytest -q --maxfail=20 -o "cache_dir=$PWD/build/pytest-$part" "$@"
}

run_part() { # part, files
    local part=$1
    if [ "$part" = fuzz ]; then
        tests/fuzz/run.sh
    else
        rm -rf "build/pytest-$part"
        run_pytest "$@"
    fi >"build/test-$part.log" 2>&1 </dev/null
    echo $? >"build/test-$part.code"
}

failures() { # parts: what failed in them
    local part
    for part in "$@"; do
        grep -E '^(FAILED|ERROR) ' "build/test-$part.log" | cut -c1-300 | sed 's/^[A-Z]* //'
    done
}

# A test that needs a moment which a busy machine did not give it may pass when it runs again, when nothing else runs. It is
# then named in the log and on the screen as unsteady; one that fails again has failed, and so has a suite in which more than
# four files have such.
again() { # part that has failed
    local log=build/test-$1.log failed passed skipped
    failed=$(failures "$1" | wc -l) passed=$(count "$log" passed) skipped=$(count "$log" skipped)
    [ "$failed" -gt 0 ] || return 1
    failures "$1" | sed 's/^/runs again: /'
    cp "$log" "build/test-$1.first.log"
    run_pytest "$1" --last-failed $(sed -n "s/^$1 //p" build/test-parts) >>"$log" 2>&1 </dev/null || return 1
    failures "$1.first" | sed 's/^/unsteady: passed the second time: /' | tee -a "$log"
    echo "$((passed + failed)) passed, 0 failed, 0 errors, $skipped skipped" >>"$log"
    echo 0 >"build/test-$1.code"
}

close_suite() { # suite
    local part parts code=0
    parts=$(grep -oE "^$1(-[0-9]+)?( |\$)" build/test-parts)
    if [ "$(failures $parts | sed 's/:.*//' | sort -u | wc -l)" -le 4 ]; then
        for part in $parts; do
            [ "$(cat "build/test-$part.code")" -eq 0 ] || again "$part"
        done
    fi
    for part in $parts; do
        [ "$(cat "build/test-$part.code")" -eq 0 ] || code=1
    done
    add "$1" $code $parts
}

tools/deps.sh test
jobs=$(nproc)
step build make --no-print-directory -j"$jobs" CI=1 all
step build-asan make --no-print-directory -j"$jobs" V=asan build/asan/unit
suite unit unit
# Two lanes, because most tests wait more than they work; suites are counted when all have ended.
rm -f build/test-*-[0-9]*.log build/test-*.code
{ parts compat; echo fuzz; parts api; parts escape; } >build/test-parts
export python
export -f run_part run_pytest
xargs -P 2 -L 1 bash -c 'run_part "$@"' part <build/test-parts
for name in api compat escape fuzz; do
    close_suite "$name"
done
suite lint tools/lint.sh

line="$total_passed passed, $total_failed failed"
[ "$total_skipped" -eq 0 ] || line="$line, $total_skipped skipped"
echo "$line"
[ "$total_failed" -eq 0 ]
