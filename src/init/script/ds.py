"""AgentFlow's data-science tools: one request as JSON on stdin, one answer as JSON on stdout. A failure of the data or of
the code is a text, as there."""
import base64
import contextlib
import io
import json
import os
import sys
import traceback

SUMMARY_MAX, OUTPUT_MAX, FILES_MAX, VALUE_MAX = 12000, 5000, 100, 2000


def load(folder):
    import pandas as pd

    for name in sorted(n for n in os.listdir(folder) if n.lower().endswith(".csv"))[:FILES_MAX]:
        try:
            yield name, pd.read_csv(os.path.join(folder, name)), None
        except Exception as e:
            yield name, None, f"{type(e).__name__}: {e}"


def inspect_data(request):
    parts = []
    for name, table, error in load(request["seed_path"]):
        if error:
            parts.append(f"{name}: cannot be read: {error}")
            continue
        rows, columns = table.shape
        missing = {c: int(n) for c, n in table.isna().sum().items() if n}
        types = ", ".join(f"{c} ({t})" for c, t in table.dtypes.items())
        parts.append(f"{name}: {rows} rows, {columns} columns. Attributes: {types}. "
                     f"Missing values: {', '.join(f'{c}: {n}' for c, n in missing.items()) or 'none'}. "
                     f"Duplicate rows: {int(table.duplicated().sum())}.")
    text = "\n\n".join(parts) or "Error: no CSV files in " + request["seed_path"]
    return {"result": text if len(text) <= SUMMARY_MAX else text[:SUMMARY_MAX] + f"\n[{len(text) - SUMMARY_MAX} more characters]"}


def read_csv(request):
    import pandas as pd

    name = request["csv_file"]
    path = os.path.realpath(os.path.join(request["seed_path"], name))
    if not path.startswith(os.path.realpath(request["seed_path"]) + os.sep):
        return {"result": f"Error: {name} is not in {request['seed_path']}"}
    table = pd.read_csv(path)
    shown = table.head(request["max_rows"])
    text = f"File: {name}\n{shown.to_csv(index=False)}"
    if len(table) > len(shown):
        text += f"... ({len(table) - len(shown)} more rows of {len(table)})\n"
    return {"result": text}


EXPLORE = """
for _name, _table in tables.items():
    print('==', _name, _table.shape)
    print(_table.describe(include='all').to_string())
"""


def run_python(request):
    os.environ["MPLBACKEND"] = "agg"
    os.chdir(request["seed_path"])
    code = request.get("code") or ""
    space = {"__name__": "__main__"}
    if not code.strip():
        space["tables"] = {n: t for n, t, e in load(".") if e is None}
        code = EXPLORE
    out, parts, images = io.StringIO(), [], []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            exec(compile(code, "<code>", "exec"), space)
        except BaseException:
            kind, value, tb = sys.exc_info()
            parts.append("Execution Error:\n" + "".join(traceback.format_exception(kind, value, tb.tb_next)))
    text = out.getvalue()
    if text:
        more = f"\n[{len(text) - OUTPUT_MAX} more characters]" if len(text) > OUTPUT_MAX else ""
        parts.append("Standard Output:\n" + text[:OUTPUT_MAX] + more)
    wanted = [v for v in request.get("return_vars") or [] if v]
    if wanted:
        shown = [f"{v} = {space[v]!r:.{VALUE_MAX}}" if v in space else f"{v} is not defined" for v in wanted]
        parts.append("Variables Inspection:\n" + "\n".join(shown))
    plt = sys.modules.get("matplotlib.pyplot")
    for number in plt.get_fignums()[:16] if plt else []:
        png = io.BytesIO()
        plt.figure(number).savefig(png, format="png", bbox_inches="tight")
        images.append({"type": "image/png", "base64": base64.b64encode(png.getvalue()).decode(),
                       "description": f"figure {number}"})
    return {"result": "\n\n".join(parts) or "(no output)", "images": images}


def main():
    request = json.load(sys.stdin)
    request["seed_path"] = os.path.abspath(os.path.expanduser(request["seed_path"]))
    try:
        if not os.path.isdir(request["seed_path"]):
            reply = {"result": f"Error: seed_path: {request['seed_path']} is no directory in the box"}
        else:
            reply = {"inspect_data": inspect_data, "read_csv": read_csv, "run_python": run_python}[request["op"]](request)
    except ImportError as e:
        reply = {"result": f"Error: Data Science libraries are not installed: {e}"}
    except Exception as e:
        reply = {"result": f"Error: {type(e).__name__}: {e}"}
    sys.__stdout__.write(json.dumps(reply))


main()
