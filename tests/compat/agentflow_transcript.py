#!/usr/bin/python3
"""Replays what the original AgentFlow server answered, and compares.

data/agentflow_transcript.jsonl holds request and answer of the calls that were recorded from the original code (its
tracebacks, its list of tools and one configuration file are shortened). Its toy backends are replaced by ours where the
meaning is the same:

    toy:echo {text, delay}   bash:run   a session tool that takes a while and gives its text back
    toy:boom                 file:read  of a file that is not there: a tool that fails
    bad                      bash, on a second server whose boxes cannot be reached: a session that does not start
    echo (two backends)      count (probe_shared:count, probe_session:count): a simple name that is ambiguous

Ids, times and traces are normalised; then status, code, message, data and the envelope's keys must be equal, except
for the deliberate differences below, each of which docs/compat.md explains under its name.

Run alone, it prints one line per call.
"""

import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "api"))

import sg  # noqa: E402

ROWS = [json.loads(x) for x in (HERE / "data" / "agentflow_transcript.jsonl").read_text().splitlines()]
RECORDED = 81  # calls of the whole transcript

SKIPPED = {
    "simple name, legacy format": "a Python tool that returns no envelope; a table's tool cannot",
    "NaN result": "a Python tool that returns NaN; a table's tool cannot (our writer has no NaN)",
    "sql list": "text2sql: a later issue", "sql schema": "text2sql: a later issue", "sql exec": "text2sql: a later issue",
    "sql delete": "text2sql: a later issue", "sql WITH delete (ro db)": "text2sql: a later issue",
    "sql blob": "text2sql: a later issue", "sql missing param": "text2sql: a later issue",
    "web:search no key": "web search: a later issue", "ds_read_csv no pandas": "a server without pandas; ours runs in the box, and says what it lacks as an outcome",
    "doc:search": "document tools: a later issue",
}

# Rows for the server whose boxes cannot be reached.
BROKEN = {"create init error", "create again after error -> exists/0", "list shows error session",
          "temp session init fails", "again: sticky error", "leaked error session", "disconnect", "init resource fail",
          "init batch partial", "init batch all fail"}

# Keys that only we have: place -> keys. Every one of them stands in docs/compat.md.
ADDED = {
    r"": {"session_id", "session_name", "version", "error"},
    r"meta|data\.results\.\d+\.meta": {
        "outcome", "retry_safe", "trainable", "trajectory_id", "step", "box_id", "queued_us", "run_us", "total_us",
        "cpu_us", "peak_bytes", "pids_peak", "disk_used_bytes", "temporary_session", "ignored", "dropped_bytes", "blobs", "replayed", "unenforced"},
    r"data": {"session_status", "error", "trajectory_id"},
    r"data\.sessions\.\d+": {"box_id"},
    r"tools\.\d+|": {"title", "kind", "flags", "parameters", "result"},
}
# Where the original has null although it knows (a tool that fills meta with null keeps it): ours has the value.
FILLED = {"execution_time_ms", "resource_type", "session_id"}

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$")
UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
SESSION = re.compile(r"^([a-z_]+)_(w\w*)_\d{3}(_[A-Za-z-]+)?(_[0-9a-f]{8})?$")
NUMBERS = {"execution_time_ms", "tools_count", "active_workers", "total_sessions", "tools_available"}


# ---- their words in ours ----

def command(params):
    wait = f"sleep {params['delay']}; " if "delay" in params else ""
    rest = {k: v for k, v in params.items() if k not in ("text", "delay")}
    return {"command": wait + "printf %s " + params["text"], **rest} if "text" in params else params


def translate_action(a):
    action, params = a.get("action"), a.get("params")
    if action and re.match(r"toy[:._-]echo$", action):
        return {**a, "action": "bash" + action[3] + "run", **({"params": command(params)} if params is not None else {})}
    if action == "toy:boom":
        return {**a, "action": "file:read", "params": {"path": "/no/such/file"}}
    if action == "bad:run":
        return {**a, "action": "bash:run", "params": {"command": "true"}}
    if action == "echo":
        return {**a, "action": "count", "params": {}}
    return a


def words(label):
    """Names that answers repeat, theirs -> ours. On the broken server only what needs no box can start."""
    toy = "probe_shared" if label in BROKEN or label.startswith("warmup") else "bash"
    return {"toy:echo": "bash:run", "toy:boom": "file:read", "bad:run": "bash:run", "echo": "count", "toy": toy, "bad": "bash"}


def rename(x, names):
    if isinstance(x, dict):
        return {names.get(k, k) if k in ("toy", "bad") else k: rename(v, names) for k, v in x.items()}
    if isinstance(x, list):
        return [rename(v, names) for v in x]
    if isinstance(x, str):
        m = re.match(r"(toy|bad)(_w\w*_\d{3}.*)$", x)
        x = names[m[1]] + m[2] if m else names.get(x, x)
        return re.sub(r"\b(No session found|Session \w+) for (toy|bad)$", lambda m: f"{m[1]} for {names[m[2]]}", x)
    return x


def request_of(row):
    body, path = row["request"], row["path"].replace("toy:echo", "bash:run")
    if not isinstance(body, dict):
        return path, body, None
    if "_raw" in body:
        return path, None, body["_raw"]
    if "actions" in body:
        body = {**body, "actions": [translate_action(a) for a in body["actions"]]}
    names = {k: v for k, v in words(row["label"]).items() if k in ("toy", "bad")}
    body = rename(translate_action(body), names)
    if row["label"] == "warmup errors":  # none of ours fails to warm up
        body["backends"] = ["probe_shared", "ghost"]
    return path, body, None


# ---- what must be equal ----

def normal(x, key=None):
    if isinstance(x, dict):
        return {k: normal(v, k) for k, v in x.items()}
    if isinstance(x, list):
        return [normal(v) for v in x]
    if key in NUMBERS and isinstance(x, (int, float)) and not isinstance(x, bool):
        return "<number>"
    if isinstance(x, str):
        if TIME.match(x):
            return "<time>"
        if UUID.match(x):
            return "<uuid>"
        m = SESSION.match(x)
        if m:
            return f"<{m[1]} {m[2]}{m[3] or ''}{' id' if m[4] else ''}>"
    return x


def may_add(place, key):
    return any(re.fullmatch(p, place) and key in keys for p, keys in ADDED.items())


def compare(want, got, place=""):
    """Differences as lines of text. A function in place of a wanted value says whether it is right."""
    if callable(want):
        return [] if want(got) else [f"{place}: {got!r} is not as wanted"]
    if isinstance(want, dict) and isinstance(got, dict):
        lines = []
        for k in want:
            here = f"{place}.{k}".lstrip(".")
            if k not in got:
                lines.append(f"{here}: missing")
            elif want[k] is None and k in FILLED and place.endswith("meta"):
                pass
            else:
                lines += compare(want[k], got[k], here)
        return lines + [f"{place}.{k}: added and not documented" for k in got if k not in want and not may_add(place, k)]
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return [f"{place}: {len(got)} entries, not {len(want)}"]
        return [x for i in range(len(want)) for x in compare(want[i], got[i], f"{place}.{i}".lstrip("."))]
    return [] if want == got and type(want) is type(got) else [f"{place}: {got!r}, not {want!r}"]


def has(text):
    return lambda got: isinstance(got, str) and text in got


def has_no_box(before=""):
    """A seat that waits cannot be reached, a new one not be made: it depends on what the pool had at that moment."""
    return lambda got: isinstance(got, str) and re.match(re.escape(before) + "(connect to the init|create box: )", got)


def anything(_):
    return True


def an_int(x):
    return type(x) is int


# ---- adaptations: the same meaning, other words ----

def tool_data(text):
    """data of a tool is the tool's own; the text must be in it."""
    return lambda got: got["stdout"] == text and got["exit_code"] == 0


def adapt(label, want):
    """The tools' own data, and lists whose members are other backends than theirs."""
    if isinstance(want.get("data"), dict):
        for r in want["data"].get("results", []):
            if isinstance(r, dict) and "echo" in (r.get("data") or {}):
                r["data"] = tool_data(r["data"]["echo"])
        if "echo" in want["data"]:
            want["data"] = tool_data(want["data"]["echo"])
    if label == "ambiguous simple name":
        want["data"] = {"candidates": ["probe_shared:count", "probe_session:count"]}
        want["message"] = ("Ambiguous tool name 'count'. Multiple matches: ['probe_shared:count', 'probe_session:count']. "
                           "Please use full name with prefix.")
    if label in ("tools", "tools hidden"):
        shape = {k: type(v) for k, v in want["tools"][0].items()}
        want["count"] = an_int
        want["tools"] = lambda got: all(type(t.get(k)) is c for t in got for k, c in shape.items()) and any(
            t["name"] == "run" and t["full_name"] == "bash:run" and t["resource_type"] == "bash" for t in got)
    if label == "schema ok":
        want.update(name="run", description=anything)
    if label == "warmup status":
        want["backends"] = lambda got: {"bash", "file"} <= set(got) and all(
            b["loaded"] is True and type(b["warmed_up"]) is bool for b in got.values())
    if label.startswith("warmup"):
        want["summary"] = {"total": an_int, "warmed_up": an_int, "pending": an_int}
    if label == "warmup errors":
        want["results"] = {"probe_shared": True, "ghost": False}
        want["errors"] = {"ghost": has("Backend not found: ghost. Available backends: ['bash', ")}
    if label == "warmup empty body":
        want.update(status="success", results=lambda got: "bash" in got and all(got.values()))
        want.pop("errors")
    return want


# ---- deliberate differences: label -> (name in docs/compat.md, what changes in the wanted answer) ----
# A change may return another HTTP status.

def failed_tool(want):
    want.update(code=4001, data=None, message=has("/no/such/file"))
    want["meta"].update(resource_type="file", session_id=want["meta"]["session_id"].replace("bash", "file"))


def failed_items(want):
    for r in want["data"]["results"]:
        if r["code"] == 5005:
            failed_tool(r)


def unkept_list(want):
    want["data"].update(sessions=[], count=0)


def not_started(want):
    want["data"]["error"] = has_no_box()


def not_started_items(want):
    for r in want["data"]["results"].values():
        if r["status"] == "error":
            r["error"] = has_no_box()


def not_started_call(want):
    want.update(message=has_no_box("Resource initialization failed: "))
    want["data"]["details"] = has_no_box()


def again_fails(want):
    want.update(code=4007, message="Session creation failed")
    want["data"] = {"session_id": "<bash w2 id>", "session_name": "<bash w2>", "resource_type": "bash",
                    "session_status": "error", "error": has_no_box()}
    return 500


def refused(http, **fields):
    """Refused before there was a session."""
    def change(want):
        want.update(fields)
        want["meta"]["session_id"] = lambda x: x is None
        want["meta"].pop("temporary_session", None)
        return http
    return change


def no_zzz(want):
    """The session of the unknown type was not made, so it is in no list."""
    d = want["data"]
    if isinstance(d.get("sessions"), dict):
        d["sessions"].pop("zzz")
    elif "sessions" in d:
        d.update(sessions=[s for s in d["sessions"] if s["resource_type"] != "zzz"], count=1)
    if "details" in d:
        d["details"].pop("zzz")
        d.update(refreshed_count=1, message="Refreshed 1 sessions")
    for k in ("active_sessions", "active_resources"):
        if k in d:
            d[k].remove("zzz")


def parallel_race(want):
    for r in want["data"]["results"]:
        r["meta"]["temporary_session"] = True


def bad_json_place(want):
    want["detail"][0].update(loc=["body"], ctx={"error": has("byte 1")})


def raw_bad(want):
    want.clear()
    want.update(detail=lambda d: d[0]["type"] == "json_invalid")
    return 422


def raw_null(want):
    want.clear()
    want.update(code=4002, message="worker_id required", data={"worker_id": None}, meta=anything)
    return 400


DIFFERENT = {
    "missing param": ("parameters-are-checked", refused(
        400, code=4003, data=None, message="command: required string is missing")),
    "client-forged session_info accepted": ("parameters-are-checked", refused(
        400, code=4002, data=None, message=has("session_info: unknown parameter"))),
    "tool raises": ("failed-tool", lambda w: failed_tool(w) or 400),
    "batch stop_on_error default": ("failed-tool", failed_items),
    "batch continue": ("failed-tool", failed_items),
    "batch first fails -> all failed": ("failed-tool", failed_items),
    "batch parallel partial": ("failed-tool", failed_items),
    "timeout": ("timeout-partial-output", lambda w: w.update(data=lambda d: d["timeout"] == 1 and d["stdout"] == "")),
    "extra fields ignored, trace_id": ("trace-id", lambda w: w["meta"].update(trace_id="T-1")),
    "422 bad json": ("bad-json-place", bad_json_place),
    "empty worker_id": ("empty-worker", refused(400, code=4003, data=None, message=has("worker_id: a non-empty string"))),
    "create unknown type": ("unknown-type", refused(400, code=4002, message=has("resource_type: no backend 'zzz'"), data={
        "session_id": None, "session_name": None, "resource_type": "zzz", "session_status": "error",
        "error": has("no backend 'zzz'")})),
    "list": ("unknown-type", no_zzz),
    "refresh all": ("unknown-type", no_zzz),
    "heartbeat": ("unknown-type", no_zzz),
    "status": ("unknown-type", no_zzz),
    "create init error": ("not-kept", not_started),
    "create again after error -> exists/0": ("not-kept", again_fails),
    "list shows error session": ("not-kept", unkept_list),
    "temp session init fails": ("not-kept", not_started_call),
    "again: sticky error": ("not-kept", not_started_call),
    "leaked error session": ("not-kept", unkept_list),
    "disconnect": ("not-kept", lambda w: w["data"].update(sessions_cleaned=0)),
    "init resource fail": ("not-kept", not_started),
    "init batch partial": ("not-kept", not_started_items),
    "init batch all fail": ("not-kept", not_started_items),
    "batch parallel temp-session race": ("no-shared-temporary", parallel_race),
    "raw json 500": ("raw-json", raw_bad),
    "null body 500": ("raw-json", raw_null),
    "from-config ok (file disclosure)": ("from-config", lambda w: None),
}


# ---- the replay ----

def replay_one(server, row):
    """Lines of differences; none: as documented."""
    label = row["label"]
    path, body, raw = request_of(row)
    got = server.request(row["method"], path, body, raw=raw)
    want = adapt(label, normal(rename(row["response"], words(label))))
    code = row["status"]
    if label in DIFFERENT:
        changed = DIFFERENT[label][1](want)
        code = changed if isinstance(changed, int) else code
    if code == 422 and body is not None and want["detail"][0]["type"] == "missing":
        want["detail"][0]["input"] = body  # it repeats the input, which is in our words
    lines = [] if got.status == code else [f"status: {got.status}, not {code}"]
    try:
        answer = got.json
    except ValueError:
        return lines + [f"not JSON: {got.body[:200]!r}"]
    return lines + compare(want, normal(answer))


@contextlib.contextmanager
def servers():
    with tempfile.TemporaryDirectory(prefix="af-conf-", dir="/tmp") as conf:
        os.chmod(conf, 0o755)
        pathlib.Path(conf, "config.json").write_text(json.dumps({
            "server": {"url": "http://127.0.0.1:18890", "port": 18890},
            "apis": {"websearch": {"visit_method": "jina", "content_limit": 50000}}}))
        with sg.running("--pool-size", "1", "--agentflow-config-dir", conf) as good, sg.running("--pool-size", "0") as broken:
            boxes = pathlib.Path(broken.home, "run", "box")
            away = boxes.rename(boxes.with_name("away"))  # what init listens on cannot be found
            try:
                yield good, broken
            finally:
                away.rename(boxes)


def replay():
    """label -> lines, in the order of the transcript: some calls rest on earlier ones."""
    with servers() as (good, broken):
        return {row["label"]: replay_one(broken if row["label"] in BROKEN else good, row) for row in ROWS}


def main():
    results = replay()
    for label, lines in results.items():
        note = f"  (differs on purpose: {DIFFERENT[label][0]})" if label in DIFFERENT else ""
        print(f"{'ok ' if not lines else 'BAD'} {label}{note}")
        for line in lines:
            print(f"      {line}")
    for label, why in SKIPPED.items():
        print(f"--  {label}: not replayed: {why}")
    bad = sum(1 for x in results.values() if x)
    print(f"{len(results) - bad} as documented, {bad} not, {len(SKIPPED)} of {RECORDED} not replayed")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
