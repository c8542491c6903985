#!/bin/sh
# Builds every tests/fuzz/fuzz_<name>.c with clang and runs it for FUZZ_SECONDS. `run.sh json` runs only that one.
# FUZZ_SEED repeats a run: `make test` uses one, so that it tells what a change broke; to search, leave it out.
# A target is linked with src/base and src/wire; a line of its own, /* needs: src/x/y.c */, adds sources, and
# /* libs: -lfoo */ libraries.
# New inputs gather in build/fuzz/corpus; what is found is left in build/fuzz/<name>-crash-...
cd "$(dirname "$0")/../.." || exit 2
seconds=${FUZZ_SECONDS:-20}
out=build/fuzz
flags="-std=gnu17 -g -O1 -Isrc -D_GNU_SOURCE -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined
       -fno-sanitize-recover=undefined -DSANDGLASS_VERSION=\"fuzz\" -DSANDGLASS_REV=\"fuzz\""
passed=0
failed=0

command -v clang >/dev/null || { echo "fuzz: clang is missing" >&2; exit 2; }

words() { # what the target's line "/* $1: ... */" lists
    sed -n "s|^/\* $1: \(.*\) \*/\$|\1|p" "$2"
}

# Objects are kept, so that the common ones are compiled once for all targets.
compile() {
    for src in "$@"; do
        obj=$out/obj/${src%.c}.o
        mkdir -p "$(dirname "$obj")" || return 1
        if [ ! -f "$obj" ] || [ -n "$(find "$src" src -name '*.h' -newer "$obj" -o -path "$src" -newer "$obj")" ]; then
            clang $flags -c -o "$obj" "$src" || return 1
        fi
        objs="$objs $obj"
    done
}

fuzz() {
    name=$1
    target=tests/fuzz/fuzz_$name.c
    log=$out/$name.log
    objs=
    mkdir -p "$out/corpus/$name" "tests/fuzz/corpus/$name"
    compile "$target" src/base/*.c src/wire/*.c $(words needs "$target") || return 1
    clang -fsanitize=fuzzer,address,undefined -o "$out/fuzz_$name" $objs $(words libs "$target") || return 1
    "$out/fuzz_$name" -max_total_time="$seconds" ${FUZZ_SEED:+-seed="$FUZZ_SEED"} -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$out/$name-" \
        -print_final_stats=1 "$out/corpus/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 ||
        { tail -n 40 "$log"; return 1; }
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
}

for file in tests/fuzz/fuzz_${1:-*}.c; do
    name=${file#tests/fuzz/fuzz_}
    name=${name%.c}
    runs=0
    if fuzz "$name"; then
        echo "ok   fuzz $name ($runs runs)"
        passed=$((passed + 1))
    else
        echo "FAIL fuzz $name"
        failed=$((failed + 1))
    fi
done
echo "fuzz: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
