# Files up and down against a plain Node server.
measure_streams() {
    local their_port their_pid i
    command -v node >/dev/null || { say "streams: node is missing"; return 1; }
    their_port=$("$out/bench" port) || return 1
    mkdir -p "$work/node"
    node tests/bench/files.mjs "$their_port" "$work/node" >"$out/files.log" 2>&1 </dev/null &
    their_pid=$!
    for ((i = 0; i < 100; i++)); do grep -q ready "$out/files.log" && break; sleep .1; done
    "$python" tests/bench/streams.py "$port" "$their_port" "$samples" >>"$out/rows.tsv"
    i=$?
    kill "$their_pid"
    wait "$their_pid" 2>/dev/null
    return $i
}
