#!/bin/bash
# Measures Sandglass against what it is compared with, in one run, and prints ratios: run.sh [--quick] [MEASURE ...]
#   cold pool live throughput density forward record, and those of tests/bench/parts/*.sh          default: all of them
# A part is a file that defines measure_NAME; it has the functions and variables of this one, and a fresh server.
# BENCH_N samples of each operation (200), BENCH_BOXES boxes (1000), BENCH_SECONDS of load per round (4), BENCH_ROUNDS of
# throughput (5), BENCH_PROGRAM the server's binary (build/sandglass), BENCH_LISTEN_OPTS further flags of `serve`.
# Raw samples stay in build/bench/<date>/, the table is also build/bench/latest.txt. A missed target is no failure:
# this is never a test. It needs root, as the server's boxes do, and leaves nothing behind.
set -u
cd "$(dirname "$0")/../.." || exit 2
top=$PWD

quick=
words=()
for word in "$@"; do
    case $word in
    --quick) quick=yes ;;
    cold | pool | live | throughput | density | forward | record) words+=("$word") ;;
    *)
        [ -f "tests/bench/parts/$word.sh" ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
        words+=("$word")
        ;;
    esac
done
parts=()
for part in tests/bench/parts/*.sh; do parts+=("$(basename "$part" .sh)"); done
[ ${#words[@]} -gt 0 ] || words=(cold pool live throughput density forward "${parts[@]}" record)
samples=${BENCH_N:-${quick:+40}}
boxes=${BENCH_BOXES:-${quick:+100}}
seconds=${BENCH_SECONDS:-${quick:+1}}
rounds=${BENCH_ROUNDS:-${quick:+3}}
samples=${samples:-200} boxes=${boxes:-1000} seconds=${seconds:-4} rounds=${rounds:-5}
program=${BENCH_PROGRAM:-$top/build/sandglass}
python=/usr/bin/python3

out=$top/build/bench/$(date +%Y%m%d-%H%M%S)
mkdir -p "$out" || exit 2
work=$(mktemp -d /tmp/sgb.XXXXXX) || exit 2
chmod 711 "$work"
home=$work/h
guard= echo_pid= port=
say() { echo "bench: $*" >&2; }

# --- what is started here is ended here ---

children() { cat "/proc/$1/task/$1/children" 2>/dev/null; }
tree() { local c; for c in $(children "$1"); do tree "$c"; echo "$c"; done; }
gone() { local i; for ((i = 0; i < $2 * 20; i++)); do kill -0 "$1" 2>/dev/null || return 0; sleep .05; done; return 1; }

stop_server() {
    [ -n "$guard" ] || return 0
    local below
    below=$(tree "$guard")
    "$out/bench" -p "$port" clean 2>/dev/null # boxes outlive a server
    kill -TERM "$guard" 2>/dev/null
    if ! gone "$guard" 40; then
        say "the server does not end; killing it (its log is $out/server.log)"
        # shellcheck disable=SC2086 -- one word per process
        kill -KILL "$guard" $below 2>/dev/null
    fi
    wait "$guard" 2>/dev/null
    guard=
}

stop_echo() {
    [ -n "$echo_pid" ] || return 0
    kill "$echo_pid" 2>/dev/null
    wait "$echo_pid" 2>/dev/null
    echo_pid=
}

# The server leaves its control group; if it died, those of boxes too, which end by themselves (--orphan-timeout).
remove_groups() {
    local i
    for ((i = 0; i < 80; i++)); do
        rmdir /sys/fs/cgroup/"sgbench$$"/b-* /sys/fs/cgroup/*/"sgbench$$"/b-* \
            /sys/fs/cgroup/"sgbench$$" /sys/fs/cgroup/*/"sgbench$$" 2>/dev/null
        [ -n "$(find /sys/fs/cgroup -maxdepth 2 -name "sgbench$$" -print -quit)" ] || return 0
        sleep .1
    done
    say "left: $(find /sys/fs/cgroup -maxdepth 2 -name "sgbench$$" | tr '\n' ' ')"
}

finish() {
    stop_echo
    stop_server
    cp -f "$work/server.log" "$out/server.log" 2>/dev/null
    rm -rf --one-file-system "$work"
    remove_groups
}
trap finish EXIT
trap 'exit 130' INT TERM

start_server() {
    port=$("$out/bench" port) || exit 1
    # shellcheck disable=SC2086 -- flags
    "$program" serve --listen "127.0.0.1:$port" --home "$home" --cgroup-name "sgbench$$" --test-backends=true \
        --durability batch --box-max $((boxes + 100)) --orphan-timeout 5s --log-level warn ${BENCH_LISTEN_OPTS:-} \
        >>"$work/server.log" 2>&1 </dev/null &
    guard=$!
    disown "$guard" # its end by kill -9 is meant, and nothing to report
    if ! "$out/bench" -p "$port" wait; then
        tail -n 20 "$work/server.log" >&2
        exit 1
    fi
}

harness() { "$out/bench" -p "$port" -o "$out" -n "$samples" -b "$boxes" -s "$seconds" -k "sgbench$$" "$@"; }

# --- crun: a private mount namespace without the unified hierarchy, which it does not want beside the others ---

bundle() { # name, arguments as JSON
    mkdir -p "$work/crun/$1"
    cat >"$work/crun/$1/config.json" <<JSON
{"ociVersion":"1.0.0",
 "process":{"terminal":false,"user":{"uid":0,"gid":0},"args":$2,"env":["PATH=/usr/bin:/bin"],"cwd":"/","noNewPrivileges":true},
 "root":{"path":"$work/crun/rootfs","readonly":true},"hostname":"bench",
 "mounts":[{"destination":"/proc","type":"proc","source":"proc"},
           {"destination":"/dev","type":"tmpfs","source":"tmpfs","options":["nosuid","mode=755","size=64k"]}],
 "linux":{"namespaces":[{"type":"pid"},{"type":"network"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"cgroup"}]}}
JSON
}

with_crun() {
    mkdir -p "$work/crun/rootfs" "$work/crun/state"
    bundle true '["/bin/true"]'
    bundle live '["/bin/sleep","3600"]'
    # shellcheck disable=SC2016 -- for the inner shell
    unshare --mount --propagation private sh -c '
        mountpoint -q /sys/fs/cgroup/unified && mountpoint -q /sys/fs/cgroup/memory && umount /sys/fs/cgroup/unified
        mount --bind / "$1/rootfs" && shift && exec "$@"' sh "$work/crun" \
        "$out/bench" -p "$port" -o "$out" -n "$samples" -k "sgbench$$" -c "$work/crun" "$1"
}

# --- throughput ---

start_echo() {
    echo_port=$("$out/bench" port) || exit 1
    (cd tests/bench && exec "$python" -B -m uvicorn --host 127.0.0.1 --port "$echo_port" --loop uvloop --http httptools \
        --no-access-log --log-level warning echo_app:app) >"$out/uvicorn.log" 2>&1 </dev/null &
    echo_pid=$!
    "$out/bench" -p "$echo_port" wait
}

wrk_once() { # name, port, call; appends requests/s to <name>.rps
    local line
    line=$(BENCH_CALL=$3 BENCH_PATH=${BENCH_PATH:-} BENCH_AUTH=${BENCH_AUTH:-} wrk -t1 -c32 -d"${seconds}s" -s tests/bench/execute.lua "http://127.0.0.1:$2" | grep '^RESULT') || return 1
    # shellcheck disable=SC2086 -- fields
    set -- "$1" $line
    [ "$5" -eq 0 ] || say "$1: $5 of $3 requests failed"
    echo "$3 $4 $5 $6 $7" | awk '{ printf "%.0f requests/s, p50 %.3f ms, p99 %.3f ms, %d failed\n", $1 / ($2 / 1e6), $4 / 1e3, $5 / 1e3, $3 }' >>"$out/$1.wrk"
    answered=$((answered + $3))
}

median() { awk '{ print $1 }' "$1" | sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

rate_row() { # what, ours, theirs, target, their name
    awk -v what="$1" -v a="$(median "$out/$2.wrk")" -v b="$(median "$out/$3.wrk")" -v target="$4" -v who="${5:-fastapi}" 'BEGIN {
        verdict = target == "-" ? "" : (a >= target * b) ? "PASS" : "MISS"
        printf("%s\t%d/s\t%s %d/s\t%.3f\t%s\t%s\t%s\n", what, a, who, b, a / b, target == "-" ? "-" : ">=", target, verdict) }' >>"$out/rows.tsv"
}

measure_throughput() {
    local i answered=0 before after
    command -v wrk >/dev/null && "$python" -c 'import fastapi, uvicorn, uvloop, httptools' 2>/dev/null ||
        { say "throughput: wrk, python3-fastapi, python3-uvicorn, python3-uvloop or python3-httptools is missing"; return 1; }
    start_echo || return 1
    harness files || return 1
    before=$(harness steps)
    for ((i = 0; i < rounds; i++)); do
        answered=0
        wrk_once sandglass-echo "$port" echo && noop=$((${noop:-0} + answered))
        wrk_once fastapi-echo "$echo_port" echo
        answered=0
        wrk_once sandglass-read "$port" read && noop=$((noop + answered))
        answered=0
        wrk_once sandglass-private "$port" private && noop=$((noop + answered))
    done
    after=$(harness steps)
    stop_echo
    rate_row "throughput: no-op tool, recorded" sandglass-echo fastapi-echo 4
    rate_row "throughput: file:read 1 KiB, recorded" sandglass-read fastapi-echo 2
    rate_row "throughput: the same, by the box's init" sandglass-private fastapi-echo -
    for i in sandglass-echo sandglass-read sandglass-private fastapi-echo; do
        printf '  %s\t%s\t\t-\t-\t-\t\n' "$i" "$(sort -n "$out/$i.wrk" | sed -n "$(((rounds + 1) / 2))p")" >>"$out/rows.tsv"
    done
    printf '  recorded\t%d steps more in the log\t%d answered\t-\t-\t-\t\n' $((after - before)) "$noop" >>"$out/rows.tsv"
}

measure_record() {
    harness -g "$guard" record || return 1
    wait "$guard" 2>/dev/null
    guard=
    start_server
    harness verify
}

# --- the run ---

[ -n "${BENCH_PROGRAM:-}" ] || make --no-print-directory -s all || exit 1
${CC:-cc} -std=gnu17 -O2 -g -Wall -Wextra -Wno-missing-field-initializers -D_GNU_SOURCE -o "$out/bench" tests/bench/*.c -lutil || exit 1
: >"$out/rows.tsv"
{
    echo "date        $(date -u +%FT%TZ)"
    echo "revision    $("$program" version 2>/dev/null | head -1)"
    echo "kernel      $(uname -r), $(nproc) processors"
    echo "load        $(cut -d' ' -f1-3 /proc/loadavg) before the run"
    echo "compared    $(bwrap --version), $(crun --version | head -1), $(wrk -v 2>&1 | head -1 | cut -d' ' -f1-2)"
    echo "samples     $samples of each, $boxes boxes, $rounds rounds of $seconds s${quick:+ (quick: a sample, not a measurement)}"
} >"$out/about.txt"

failed=0
for word in "${words[@]}"; do
    say "$word"
    printf '# %s\t\t\t\t\t\t\n' "$word" >>"$out/rows.tsv"
    start_server
    case $word in
    cold | live) with_crun "$word" ;;
    pool | density | forward) harness "$word" ;;
    throughput) measure_throughput ;;
    record) measure_record ;;
    *) . "tests/bench/parts/$word.sh" && "measure_$word" ;;
    esac || { say "$word could not be measured"; failed=1; }
    stop_server
    rm -rf --one-file-system "$home"
done

{
    cat "$out/about.txt"
    echo "load        $(cut -d' ' -f1-3 /proc/loadavg) after the run"
    echo
    printf '%-40s  %-42s  %-34s  %7s  %-8s  %s\n' "" ours against ratio target ""
    awk -F'\t' '/^#/ { print ""; next }
        /^  / { printf "%-40s  %-42s  %-34s\n", $1, $2, $3; next }
        { printf "%-40s  %-42s  %-34s  %7s  %-2s %-5s  %s\n", $1, $2, $3, $4, $5, $6, $7 }' "$out/rows.tsv"
} | sed 's/ *$//' >"$out/summary.txt"
cp "$out/summary.txt" "$top/build/bench/latest.txt"
cat "$out/summary.txt"
exit $failed
