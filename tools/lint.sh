#!/bin/bash
# What a reviewer should not have to look for. Each check prints what it found; the exit code is their sum.
set -u
cd "$(dirname "$0")/.." || exit 2
failed=0
passed=0
mkdir -p build

check() { # name, then a command whose output are findings
    local name=$1 found
    shift
    found=$("$@" 2>&1)
    if [ -n "$found" ]; then
        echo "lint: $name:"
        echo "$found" | head -40 | sed 's/^/  /'
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

sources() { git ls-files --cached --others --exclude-standard -- "$@"; }

long_files() {
    sources 'src/*.c' 'src/*.h' 'tests/*.c' | while read -r f; do
        n=$(wc -l <"$f")
        [ "$n" -le 1000 ] || echo "$f: $n lines (at most 1000)"
    done
}

# Paths of somebody's own machine in what is published. Tests may speak of /root: it is what boxes must not reach.
home_paths() {
    sources | grep -v '^tools/lint\.sh$' | xargs -r grep -nIE '/(home|Users)/[A-Za-z0-9]' 2>/dev/null | grep -vE '/home/(gem|user|me)\b'
    sources | grep -vE '^(tools/lint\.sh$|tests/)' | xargs -r grep -nIE '(^|[^A-Za-z0-9_.~}/])/root/[A-Za-z0-9._-]' 2>/dev/null
}

leftovers() { sources 'src/*' | xargs -r grep -nE '\b(TODO|FIXME|XXX)\b' 2>/dev/null; }

scripts() {
    local f
    for f in tools/*.sh .ci/run tests/*/*.sh; do
        [ -f "$f" ] && { bash -n "$f"; [ -x "$f" ] || echo "$f is not executable"; }
    done
}

current_docs() {
    make --no-print-directory -s all >build/lint-build.log 2>&1 ||
        { echo "the program does not build, so docs/configuration.md cannot be checked: build/lint-build.log"; return; }
    build/sandglass config --markdown | diff -u docs/configuration.md - |
        sed '1i docs/configuration.md is old; run: build/sandglass config --markdown > docs/configuration.md'
}

# Routes of our own API and their scopes, as docs/api.md has them (<) and as the server does (>).
api_docs() {
    diff <(sed -nE 's/^\| `([A-Z]+ \/sg\/v1[^`]*)` \|.*\| ([a-z ]+) \|$/\1 \2/p' docs/api.md | sort) \
        <(build/sandglass routes | sed -nE 's/.*"method":"([A-Z]+)","path":"(\/sg\/v1[^"]*)","access":"([^"]*)".*/\1 \2 \3/p' | sort) |
        grep '^[<>]'
}

# As clang-format 14 has it, which is Debian 12's; others differ in details, and without it nothing is said.
format() {
    clang-format --version 2>/dev/null | grep -q 'version 14' || return
    sources 'src/*.c' 'src/*.h' | xargs -r clang-format --dry-run 2>&1 | grep 'warning:' |
        sed '$a run: git ls-files "src/*.[ch]" | xargs clang-format -i'
}

check layers tools/check_layers.sh
check "file length" long_files
check "home paths" home_paths
check "leftovers" leftovers
check "scripts" scripts
check "format" format
check "generated docs" current_docs
check "docs/api.md" api_docs

echo "lint: $passed passed, $failed failed"
exit $((failed != 0))
