"""What operators see and set: metrics, request log, audit log, traces, quotas."""

import http.server
import json
import os
import pathlib
import re
import subprocess
import threading

import pytest

import sg

ADMIN = {"Authorization": "Bearer an-operators-token"}


class Collector(http.server.BaseHTTPRequestHandler):
    """An OpenTelemetry collector of our own, which takes nothing that the specification does not know."""

    spans = []
    answer = 200

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json"
        if Collector.answer == 200:
            for r in body["resourceSpans"]:
                names = {a["key"]: a["value"]["stringValue"] for a in r["resource"]["attributes"]}
                assert names["service.name"] == "sandglass"
                for s in r["scopeSpans"]:
                    Collector.spans += s["spans"]
        self.send_response(Collector.answer)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *words):
        pass


@pytest.fixture(scope="module")
def collector():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    yield s
    s.shutdown()


@pytest.fixture(scope="module")
def server(collector):
    s = sg.Server("--pool-size", "1", "--auth", "required", "--log-requests",
                  "--trace-otlp-url", f"http://127.0.0.1:{collector.server_port}/v1/traces", env={"BEARER_TOKEN": "an-operators-token"})
    s.quotas = pathlib.Path(s.home, "quotas.json")
    s.quotas.write_text(json.dumps({
        "few": {"boxes": 2, "memory_bytes": 1 << 40}, "small": {"memory_bytes": 100 << 20, "cpu": 1, "disk_bytes": 64 << 20},
        "slow": {"calls_per_second": 2}, "short": {"trajectories": 2}}))
    s.flags += ["--quota-file", str(s.quotas)]
    try:
        s.start()
        s.headers = ADMIN
        yield s
    finally:
        s.headers = ADMIN
        s.end()


def tenant(server, name, role="operator"):
    server.headers = ADMIN
    server.headers = {"Authorization": "Bearer " + server.post("/sg/v1/keys", {"role": role, "tenant": name}, 201)["key"]}


@pytest.fixture(autouse=True)
def as_admin(server):
    yield
    server.headers = ADMIN


# ---- metrics ----

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')


def parse(text):
    """The text format, strictly: every family has its HELP and TYPE once and before its samples, and all its samples
    together; histograms have growing buckets that end with +Inf, and a sum and a count that fit."""
    assert text.endswith("\n")
    types, samples, family, helped = {}, {}, None, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name = line.split()[2]
            assert name not in helped and len(line.split(" ", 3)) == 4
            helped.add(name)
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            assert name in helped and name not in types and kind in ("counter", "gauge", "histogram")
            types[name], family = kind, name
            continue
        m = SAMPLE.fullmatch(line)
        assert m, line
        name, labels = m[1], tuple(sorted(LABEL.findall(m[2] or "")))
        base = re.sub(r"_(bucket|sum|count)$", "", name) if types.get(family) == "histogram" else name
        assert base == family, f"{line} is not under {family}"
        assert (name, labels) not in samples, line
        assert types[family] != "counter" or name.endswith(("_total", "_bytes")), line
        samples[name, labels] = float(m[3])
    for name, kind in types.items():
        if kind != "histogram":
            continue
        series = {}
        for (n, labels), v in samples.items():
            if n == name + "_bucket":
                rest = tuple(x for x in labels if x[0] != "le")
                series.setdefault(rest, []).append((float(dict(labels)["le"]), v))
        for rest, buckets in series.items():
            buckets.sort()
            assert buckets[-1][0] == float("inf") and [b[1] for b in buckets] == sorted(b[1] for b in buckets)
            assert samples[name + "_count", rest] == buckets[-1][1] and samples[name + "_sum", rest] >= 0
    return samples


def metrics(server):
    r = server.request("GET", "/metrics")
    assert r.status == 200 and r.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    return parse(r.body.decode())


def test_metrics_are_valid_and_count_what_happened(server):
    before = metrics(server)
    with server.box() as box:
        for _ in range(3):
            box.run("true")
        box.run("false")
        after = metrics(server)
        assert after["sandglass_boxes", (("state", "running"),)] == before["sandglass_boxes", (("state", "running"),)] + 1
    tool = ("tool", "bash:run")
    calls = lambda m, o: m.get(("sandglass_tool_calls_total", tuple(sorted([tool, ("outcome", o)]))), 0)
    assert calls(after, "ok") - calls(before, "ok") == 3
    assert calls(after, "task_error") - calls(before, "task_error") == 1
    count = lambda m: m.get(("sandglass_tool_call_seconds_count", (tool,)), 0)
    assert count(after) - count(before) == 4
    for name in ("sandglass_seats_ready", "sandglass_log_bytes", "sandglass_log_lag_bytes", "sandglass_http_sent_bytes_total",
                 "sandglass_http_received_bytes_total", "sandglass_up_seconds"):
        assert (name, ()) in after
    assert after["sandglass_log_bytes", ()] > before["sandglass_log_bytes", ()]
    assert after["sandglass_http_requests_total", (("status", "200"),)] > before["sandglass_http_requests_total", (("status", "200"),)]


def test_metrics_are_the_servers_own_business(server):
    tenant(server, "nosy", "admin")
    assert server.request("GET", "/metrics").status == 403


# ---- logs ----

def test_a_request_has_an_id_that_its_step_its_log_line_and_its_audit_line_carry(server):
    with server.box() as box:
        body = {"tool": "bash:run", "params": {"command": "true"}}
        r = server.request("POST", f"/sg/v1/boxes/{box.id}/execute", body, headers={"X-Request-Id": "my-request.1"})
        assert r.headers["X-Request-Id"] == "my-request.1"
        step = server.steps(r["trajectory_id"])[-1]
        assert step["request"] == "my-request.1"
        r = server.request("POST", f"/sg/v1/boxes/{box.id}/execute", body, headers={"X-Request-Id": "bad id\t"})
        made = r.headers["X-Request-Id"]
        assert re.fullmatch(r"[0-9a-f-]{36}", made) and server.steps(r["trajectory_id"])[-1]["request"] == made
    log = [json.loads(x) for x in sg.read(server.log_path).splitlines() if x.startswith("{")]
    line = next(x for x in log if x["request"] == "my-request.1")
    assert (line["method"], line["status"], line["tenant"], line["how"]) == ("POST", 200, "default", "token")
    assert line["us"] > 0 and line["bytes"] > 0 and line["path"] == f"/sg/v1/boxes/{box.id}/execute"


def audit(server):
    return [json.loads(x) for x in sg.read(server.home + "/audit.log").splitlines()]


def test_the_audit_log_says_who_did_what_when_and_whether_it_was_allowed(server):
    tenant(server, "audited", "viewer")
    assert server.request("POST", "/sg/v1/boxes", {}, headers={"X-Request-Id": "denied-1"}).status == 403
    server.headers = {}
    assert server.request("GET", "/sg/v1/boxes?api_key=sg_secret_in_url", headers={"X-Request-Id": "denied-2"}).status == 401
    server.headers = ADMIN
    made = server.request("POST", "/sg/v1/keys", {"role": "viewer", "name": "x"}, headers={"X-Request-Id": "made-1"})
    server.request("DELETE", f"/sg/v1/keys/{made['id']}", headers={"X-Request-Id": "gone-1"})
    server.request("GET", "/sg/v1/boxes", headers={"X-Request-Id": "looked-1"})
    rows = {x["request"]: x for x in audit(server)}
    assert (rows["denied-1"]["outcome"], rows["denied-1"]["tenant"], rows["denied-1"]["role"]) == ("denied", "audited", "viewer")
    assert rows["denied-1"]["key"].startswith("k-")
    assert rows["denied-2"]["outcome"] == "denied" and rows["denied-2"]["path"] == "/sg/v1/boxes"
    assert rows["made-1"]["outcome"] == "allowed" and rows["made-1"]["subject"] == "BEARER_TOKEN"
    assert rows["gone-1"]["path"].endswith(made["id"]) and re.match(r"\d{4}-\d\d-\d\dT", rows["gone-1"]["time"])
    assert "looked-1" not in rows
    text = sg.read(server.home + "/audit.log") + sg.read(server.log_path)
    assert "sg_secret_in_url" not in text and "an-operators-token" not in text and made["key"] not in text
    assert os.stat(server.home + "/audit.log").st_mode & 0o77 == 0


def test_a_full_audit_log_becomes_the_old_one_and_the_oldest_goes():
    s = sg.Server("--pool-size", "0")
    s.start()
    try:
        path = s.home + "/audit.log"
        for round in range(2):
            s.stop()
            os.truncate(path, 64 << 20)  # its size is looked at when it is opened
            s.start()
            echo = {"worker_id": "w", "action": "probe:echo", "params": {"text": "x"}}
            assert s.request("POST", "/execute", echo, headers={"X-Request-Id": f"last-{round}"}).status == 200
            sg.wait_for(lambda: f"last-{round}" in sg.read(path + ".1"), every=.2)
        sg.wait_for(lambda: not os.path.exists(path + ".2"))
        assert s.request("POST", "/execute", echo, headers={"X-Request-Id": "first"}).status == 200
        sg.wait_for(lambda: "first" in sg.read(path))
    finally:
        s.end()


# ---- a full disk ----

def test_a_full_disk_refuses_new_calls_and_keeps_the_results_of_running_ones():
    s = sg.Server("--pool-size", "0")
    log = pathlib.Path(s.home, "log")
    log.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m,mode=700,uid=65534,gid=65534", "log", log], check=True)
    try:
        s.start()
        with s.box() as box:
            late, began = [], f"/proc/{s.init_pid(box.id)}/root/home/gem/began"
            running = threading.Thread(target=lambda: late.append(box.run("touch began; while [ -e began ]; do sleep 0.1; done; echo late")))
            running.start()
            sg.wait_for(lambda: os.path.exists(began))
            with open(log / "filler", "wb") as f:
                while f.write(bytes(1 << 16)) and os.statvfs(log).f_bavail:
                    f.flush()
            for size in 1000000, 10000, 1:  # what was reserved already is used up first
                sg.wait_for(lambda: box.tool("file:write", {"path": "x", "content": "x" * size}, status=None)["outcome"] == "infra_error", every=0)
            r = s.request("GET", "/ready")
            assert r.status == 503 and "No space left on device" in r["error"]["message"]
            for _ in range(3):
                r = box.tool("file:list", {"path": "."}, status=None)
                assert r["outcome"] == "infra_error" and r["retry_safe"] and not r["trainable"] and "No space left" in r["message"]
            sg.wait_for(lambda: "log full" in s.log_tail())
            os.unlink(began)
            running.join(60)
            assert late[0]["outcome"] == "ok" and late[0]["data"]["stdout"] == "late\n"
            assert s.request("GET", "/ready").status == 503 and s.log_tail().count("log full") == 1

            os.unlink(log / "filler")
            sg.wait_for(lambda: s.request("GET", "/ready").status == 200)
            assert box.out("echo on") == "on\n"
            sg.wait_for(lambda: "log has room" in s.log_tail())
            steps = s.get(f"/sg/v1/trajectories/{late[0]['trajectory_id']}/steps")["steps"]
            assert [x["observation"]["stdout"] for x in steps if x["tool"] == "bash:run"] == ["late\n", "on\n"]
    finally:
        s.stop()
        subprocess.run(["umount", log], check=True)
        s.end()


# ---- traces ----

def test_every_call_is_a_span_under_the_callers_trace(server):
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with server.box() as box:
        r = server.request("POST", f"/sg/v1/boxes/{box.id}/execute", {"tool": "bash:run", "params": {"command": "false"}},
                           headers={"traceparent": f"00-{trace}-{parent}-01", "X-Request-Id": "traced-1"})
        assert r.status == 200
    span = sg.wait_for(lambda: next((s for s in Collector.spans if s["traceId"] == trace), None))
    attributes = {a["key"]: a["value"]["stringValue"] for a in span["attributes"]}
    assert span["parentSpanId"] == parent and span["name"] == "bash:run" and len(span["spanId"]) == 16
    assert attributes["sandglass.request_id"] == "traced-1" and attributes["sandglass.box"] == box.id
    assert attributes["sandglass.outcome"] == "task_error" and span["status"]["code"] == 2
    assert int(span["endTimeUnixNano"]) > int(span["startTimeUnixNano"]) > 1.7e18


def test_a_collector_that_refuses_costs_spans_and_no_calls(server):
    before = metrics(server)["sandglass_trace_spans_dropped_total", ()]
    Collector.answer = 503
    try:
        with server.box() as box:
            assert box.out("echo fine") == "fine\n"
        sg.wait_for(lambda: metrics(server)["sandglass_trace_spans_dropped_total", ()] > before)
    finally:
        Collector.answer = 200


# ---- quotas ----

def test_a_tenant_has_its_boxes_and_not_more(server):
    tenant(server, "few")
    first, second = server.create(), server.create()
    r = server.request("POST", "/sg/v1/boxes", {})
    assert r.status == 429 and int(r.headers["Retry-After"]) >= 1 and "boxes (2)" in r["error"]["message"]
    r = server.request("POST", "/api/v1/execute", {"worker_id": "w", "action": "bash:run", "params": {"command": "true"}})
    assert r.json["code"] == 5011, "nor a temporary one"
    assert server.request("POST", f"/sg/v1/boxes/{first}/fork", {"n": 1}).status != 201 or \
        "quota" in json.dumps(server.request("POST", f"/sg/v1/boxes/{first}/fork", {"n": 1}).json)
    server.destroy(first)
    third = server.create()
    server.kill_role("serve")
    server.wait_ready()
    assert server.request("POST", "/sg/v1/boxes", {}).status == 429, "what is there is counted again after a restart"
    for box in (second, third):
        server.destroy(box)
    tenant(server, "others")
    server.destroy(server.create())


def test_memory_disk_and_cpu_are_sums_over_all_boxes(server):
    tenant(server, "small")
    small = {"memory": "40m", "disk": "16m", "cpu": 0.4}
    boxes = [server.create(**small), server.create(**small)]
    r = server.request("POST", "/sg/v1/boxes", small)
    assert r.status == 429 and "memory_bytes" in r["error"]["message"]
    server.destroy(boxes.pop())
    for more, what in (({"cpu": 0.7}, "cpu"), ({"disk": "60m"}, "disk_bytes")):
        r = server.request("POST", "/sg/v1/boxes", {**small, **more})
        assert r.status == 429 and what in r["error"]["message"], r
    server.destroy(boxes.pop())


def test_calls_per_second_say_when_to_come_back(server):
    tenant(server, "slow")
    answers = [server.request("POST", "/sg/v1/execute", {"tool": "probe:echo", "params": {}, "worker_id": "w"}) for _ in range(12)]
    refused = [a for a in answers if a.status == 429]
    assert refused and answers[0].status != 429
    assert "calls_per_second (2); come back in" in refused[0]["message"] and refused[0].headers["Retry-After"] == "1"
    assert refused[0]["retry_safe"] is True
    sg.wait_for(lambda: server.request("POST", "/sg/v1/execute", {"tool": "probe:echo", "params": {}, "worker_id": "w"}).status != 429)


def test_trajectories_are_counted_over_restarts_and_quotas_change_while_it_runs(server):
    tenant(server, "short")
    run = lambda name: server.request("POST", "/sg/v1/execute", {"tool": "probe:echo", "params": {}, "worker_id": "w", "trajectory_id": name})
    assert run("one").status != 429 and run("two").status != 429
    r = run("three")
    assert r.status == 429 and "trajectories (2)" in r["message"]
    assert run("one").status != 429, "those that are there go on"
    more = lambda name: server.request("POST", f"/sg/v1/trajectories/{name}/steps", {"steps": [{"tool": "x:y", "params": {}, "observation": {}}]})
    assert more("from-elsewhere").status == 429, "nor one from elsewhere"
    assert run("two").status != 429 and server.delete("/sg/v1/trajectories/one")["state"] == "forgotten"
    r = more("from-elsewhere")
    assert r.status == 201 and more("another").status == 429 and run("three").status == 429, r
    server.kill_role("serve")
    server.wait_ready()
    assert run("three").status == 429
    rules = json.loads(server.quotas.read_text())
    server.quotas.write_text("{ broken")
    rules["short"]["trajectories"] = 3
    server.quotas.write_text(json.dumps(rules))
    sg.wait_for(lambda: run("three").status != 429)


def test_a_bad_quota_file_does_not_start():
    s = sg.Server("--pool-size", "0")
    path = pathlib.Path(s.home, "q.json")
    path.write_text('{"*": {"boxen": 3}}')
    try:
        s.start("--quota-file", str(path), wait=False)
        assert s.guard.wait(30) == 2 and "boxen" in s.log_tail()
    finally:
        s.end()
