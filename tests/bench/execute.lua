-- POST /api/v1/execute, 32 workers in turn: as many requests are under way as there are connections, so each worker has
-- one. BENCH_CALL chooses the tool; the baseline is sent the same bytes.
local calls = {
    echo = '"action":"probe:echo","params":{"text":"hello"}',
    read = '"action":"file:read","params":{"path":"k.txt"}',
    private = '"action":"file:read","params":{"path":"private.txt"}', -- only the box may read it: its init is asked
    mcp = '"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe_echo","arguments":{"text":"hello"}}',
}
local call = calls[os.getenv("BENCH_CALL") or "echo"]
local requests, turn = {}, 0

function init()
    for i = 1, 32 do
        local worker = os.getenv("BENCH_CALL") == "mcp" and "" or string.format('"worker_id":"wrk-%02d",', i)
        local body = "{" .. worker .. call .. "}" -- a message of MCP has no other keys
        local headers = { ["Content-Type"] = "application/json", ["Accept"] = "application/json, text/event-stream" }
        local key, path = os.getenv("BENCH_AUTH"), os.getenv("BENCH_PATH")
        if key and key ~= "" then headers["Authorization"] = "Bearer " .. key end
        requests[i] = wrk.format("POST", path and path ~= "" and path or "/api/v1/execute", headers, body)
    end
end

function request()
    turn = turn % 32 + 1
    return requests[turn]
end

function done(summary, latency)
    local e = summary.errors
    io.write(string.format("RESULT %d %d %d %.0f %.0f\n", summary.requests, summary.duration,
        e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
