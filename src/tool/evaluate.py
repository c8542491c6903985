"""vm:evaluate, inside the box: getters fetch what is there, metrics compare it with what is expected. Reads
{"evaluator": {...}, "failed": bool} and writes {"score", "results", "details"} or {"error"}. What is not in the two tables
below is an error that names it: no score is made up."""
import json
import os
import re
import subprocess
import sys
import time


class Wrong(Exception):
    pass


def need(config, key, where):
    if not isinstance(config, dict) or key not in config:
        raise Wrong(f"{where}: {key}: required")
    return config[key]


# --- getters: what is there ---

def run(config, where):
    command = need(config, "command", where)
    shell = config.get("shell", isinstance(command, str))
    return subprocess.run(command, shell=shell, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=config.get("timeout", 120))


def vm_file(config, where):
    path = need(config, "path", where)
    if isinstance(path, list):
        raise Wrong(f"{where}: path: one file at a time")
    return path if os.path.isfile(path) else None


def list_directory(config, where):
    def node(path):
        entry = {"type": "directory" if os.path.isdir(path) else "file", "name": os.path.basename(path)}
        if entry["type"] == "directory" and not os.path.islink(path):
            entry["children"] = [node(os.path.join(path, n)) for n in sorted(os.listdir(path))]
        return entry
    path = need(config, "path", where)
    return node(path.rstrip("/")) if os.path.isdir(path) else None


GETTERS = {
    "vm_command_line": lambda c, w: run(c, w).stdout,
    "vm_command_error": lambda c, w: run(c, w).stderr,
    "vm_file": vm_file,
    "list_directory": list_directory,
    "rule": lambda c, w: need(c, "rules", w),
}


def get(config, where):
    if config is None:
        return None
    kind = need(config, "type", where)
    if kind not in GETTERS:
        raise Wrong(f"{where}: there is no getter '{kind}' (there are: {', '.join(sorted(GETTERS))})")
    return GETTERS[kind](config, where)


# --- metrics: how well it is what it should be ---

def text_of(path):
    if path is None:
        return None
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def compare_text_file(result, expected, ignore_blanks=False, ignore_case=False, **_):
    a, b = text_of(result), text_of(expected)
    if a is None or b is None:
        return 0.0
    if ignore_blanks:
        a, b = (re.sub(r"\s+", " ", re.sub(r"[\t\n]", " ", t).strip()) for t in (a, b))
    if ignore_case:
        a, b = a.lower(), b.lower()
    return float(a == b)


def check_include_exclude(result, rules, **_):
    if result is None:
        return 0.0
    return float(all(t in result for t in rules.get("include", [])) and not any(t in result for t in rules.get("exclude", [])))


def literal_match(result, expected, type="str", ignore_case=False, **_):
    if type == "list":
        if not isinstance(result, list) or not isinstance(expected, list):
            return 0.0
        low = (lambda v: [str(x).lower() for x in v]) if ignore_case else list
        return float(low(result) == low(expected))
    a, b = str(result), str(expected)
    return float(a.lower() == b.lower() if ignore_case else a == b)


def check_list(result, rules, **_):
    text = text_of(result)
    if text is None:
        return 0.0
    lines = text.splitlines()
    found = all(any(re.search(p, line) for line in lines) for p in rules.get("expect", []))
    return float(found and not any(re.search(p, line) for p in rules.get("unexpect", []) for line in lines))


def file_contains(result, rules, **_):
    text = text_of(result)
    return 0.0 if text is None else float(all(t in text for t in rules["expected"]))


METRICS = {
    "exact_match": lambda r, rules, **_: float(r == rules["expected"]),
    "match_in_list": lambda r, rules, **_: float(r in rules["expected"]),
    "is_in_list": lambda r, rules, **_: float(r is not None and rules["expected"] in r),
    "literal_match": literal_match,
    "check_include_exclude": check_include_exclude,
    "compare_text_file": compare_text_file,
    "check_list": check_list,
    "file_contains": file_contains,
}


# --- what is done before ---

def prepare(steps):
    for i, step in enumerate(steps or []):
        where = f"postconfig[{i}]"
        kind, p = need(step, "type", where), step.get("parameters") or {}
        if kind == "sleep":
            time.sleep(need(p, "seconds", where))
        elif kind in ("execute", "command"):
            run(p, where)
        elif kind == "launch":
            command = need(p, "command", where)
            subprocess.Popen(command, shell=isinstance(command, str), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, start_new_session=True)
        else:
            raise Wrong(f"{where}: there is no step '{kind}' (there are: command, execute, launch, sleep)")


def listed(value, n, name):
    """As many as there are metrics: one may stand for a list of one."""
    if not isinstance(value, list):
        value = [value] if n == 1 else [value] * n if value in (None, {}) else None
    if value is None or len(value) != n:
        raise Wrong(f"{name}: as many are needed as there are in func ({n})")
    return value


def evaluate(evaluator, failed):
    funcs = need(evaluator, "func", "evaluator")
    if funcs == "infeasible" or funcs == ["infeasible"]:
        score = float(failed)
        return {"score": score, "results": [score], "details": [{"func": "infeasible", "score": score, "result": None, "expected": None}]}
    funcs = funcs if isinstance(funcs, list) else [funcs]
    for f in funcs:
        if f not in METRICS:
            raise Wrong(f"func: there is no metric '{f}' (there are: infeasible, {', '.join(sorted(METRICS))})")
    conj = evaluator.get("conj", "and")
    if conj not in ("and", "or"):
        raise Wrong("conj: must be 'and' or 'or'")
    n = len(funcs)
    results = listed(evaluator.get("result"), n, "result")
    expected = listed(evaluator.get("expected"), n, "expected")
    options = listed(evaluator.get("options") or {}, n, "options")
    if failed:
        return {"score": 0.0, "results": [], "details": []}
    prepare(evaluator.get("postconfig"))
    details = []
    for i, f in enumerate(funcs):
        have, want = get(results[i], f"result[{i}]"), get(expected[i], f"expected[{i}]")
        try:
            score = float(METRICS[f](have, want, **(options[i] or {})))
        except (KeyError, TypeError, AttributeError, OSError, re.error) as e:
            raise Wrong(f"{f}: {type(e).__name__}: {e}") from e
        details.append({"func": f, "score": score, "result": have, "expected": want})
        if (conj == "and" and score == 0) or (conj == "or" and score == 1):
            break
    scores = [d["score"] for d in details]
    total = max(scores, default=0.0) if conj == "or" else 0.0 if 0 in scores or not scores else sum(scores) / n
    return {"score": total, "results": scores, "details": details}


def main():
    ask = json.load(sys.stdin)
    try:
        answer = evaluate(ask["evaluator"], ask["failed"])
    except Wrong as e:
        answer = {"error": str(e)}
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, AttributeError) as e:
        answer = {"error": f"{type(e).__name__}: {e}"}
    json.dump(answer, sys.stdout)


main()
