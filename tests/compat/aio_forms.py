"""data/aio_forms.json through the real Python SDK: each operation with defaults only, with every parameter set, and wrong. What
counts as every operation and every parameter is asked of the SDK itself."""

import base64
import inspect
import json
import pathlib
import sys

from agent_sandbox import Sandbox
from agent_sandbox.core.api_error import ApiError

GROUPS = ("sandbox", "shell", "bash", "file", "util", "skills", "proxy")
client = Sandbox(base_url=sys.argv[1], timeout=60)
rows = json.loads((pathlib.Path(__file__).parent / "data" / "aio_forms.json").read_text())
kept, forms, failed = {}, {}, []


def value(v):
    if isinstance(v, str) and v.startswith("$"):
        return kept[v[1:]]
    return ("up.bin", base64.b64decode(v["$file"])) if isinstance(v, dict) and "$file" in v else v


def parameters(method):
    """The names, and which of them may be left out."""
    all = [p for p in inspect.signature(method).parameters.values() if p.name != "request_options"]
    return {p.name for p in all}, {p.name for p in all if p.default is not inspect.Parameter.empty}


def call(method, path, given):
    names = [p.name for p in inspect.signature(method).parameters.values()]
    try:
        answer = method(*path, **{k: v for k, v in given.items() if k in names})
        if inspect.isgenerator(answer):
            answer = b"".join(answer)
    except ApiError as e:
        assert e.body is not None
        return e.status_code, None
    except Exception as e:  # an answer that failed and that this version of the SDK has no model for
        assert "validation" in str(e).lower(), e
        return "failed", None
    body = answer if isinstance(answer, dict) else answer.dict() if hasattr(answer, "dict") else {}
    return ("failed" if body.get("success") is False else 200), body


for form, name, path, given, expected, *keep in rows:
    group, _, op = name.partition(".")
    method = getattr(getattr(client, group), op, None)
    if not method:
        continue  # newer than this SDK
    by_position = list(inspect.signature(method).parameters)[:len(path)]
    forms.setdefault(name, {}).setdefault(form, set()).update(given, by_position)
    status, body = call(method, [value(v) for v in path], {k: value(v) for k, v in given.items()})
    if status != expected:
        failed.append(f"{form} {name} {given}: {status}, not {expected}; {body}")
    for key, place in (keep[0] if keep else {}).items():
        for part in place.split("."):
            body = body.get(part) if isinstance(body, dict) else getattr(body, part, None)
        kept[key] = body

for group in GROUPS:
    for op, method in inspect.getmembers(getattr(client, group), inspect.ismethod):
        if op.startswith("_"):
            continue
        every, optional = parameters(method)
        here = forms.get(f"{group}.{op}", {})
        if "default" not in here and op != "register_skills":  # of which the server can make nothing
            failed.append(f"{group}.{op} is not called with defaults")
        if optional and every - here.get("full", set()):
            failed.append(f"{group}.{op} is not called with {every - here.get('full', set())}")
        if every and "wrong" not in here and op not in ("list_metadata", "list_hooks"):  # any name may be asked for
            failed.append(f"{group}.{op} is not called wrong")
assert not failed, "\n".join(failed)
print("sdk: every form answered")
