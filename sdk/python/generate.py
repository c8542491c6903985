#!/usr/bin/env python3
"""Writes the generated parts of the package: the tools as methods, from the server's own table; and the client for threads,
from the one for asyncio.

    generate.py [--url URL]           writes them; without a URL a private server is asked
    generate.py --check [--url URL]   writes nothing; fails if something is not as it would be written
"""

from __future__ import annotations

import argparse
import difflib
import json
import keyword
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE / "sandglass"
sys.path.insert(0, str(HERE))

NOTE = "# Written by generate.py from {}; not to be edited.\n"
AGENTFLOW = HERE.parent / "python-agentflow"
TEST_BACKENDS = ("probe", "pipe")
ATTRIBUTE = {"box": "own", "trajectory": "recorded"}  # box.box would be odd, box.trajectory() is a method
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def shown(tool):
    """Tools for agents; not what tests alone are given (--test-backends), nor what came from outside."""
    return "hidden" not in (tool.get("flags") or ()) and tool["backend"].split("_")[0] not in TEST_BACKENDS


def annotation(schema):
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), None)
    if kind == "array":
        return f"Sequence[{annotation(schema.get('items') or {})}]"
    if kind == "object":
        return "Mapping[str, Any]"
    return TYPES.get(kind, "Any")


def wrapped(text, indent, first=""):
    return textwrap.fill(text, 118, initial_indent=indent + first, subsequent_indent=indent + " " * len(first))


def docstring(tool, names):
    lines = [wrapped(tool["description"] or tool["title"], " " * 8).lstrip()]
    parameters = tool["parameters"].get("properties", {})
    if parameters:
        lines += ["", "        Parameters:"]
        for name, schema in parameters.items():
            text = schema.get("description") or ""
            if schema.get("enum"):
                text += f" ({', '.join(map(str, schema['enum']))})"
            lines.append(wrapped(f"{names[name]}: {text}", " " * 12))
    results = (tool.get("result") or {}).get("properties", {})
    if results:
        lines += ["", wrapped("Fields of the result: " + ", ".join(results) + ".", " " * 8)]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return f'        """{text}\n        """' if "\n" in text else f'        """{text}"""'


def method(tool):
    properties = tool["parameters"].get("properties", {})
    required = [p for p in properties if p in (tool["parameters"].get("required") or [])]
    names = {p: p + "_" if keyword.iskeyword(p) or p == "self" else p for p in properties}
    args = [f"{names[p]}: {annotation(properties[p])}" for p in required]
    rest = [f"{names[p]}: {annotation(properties[p])} | None = None" for p in properties if p not in required]
    place = max(0, 2 - len(required))  # the first two need not be named
    args += rest[:place] + (["*", *rest[place:]] if rest[place:] else [])
    args += [] if tool["parameters"].get("additionalProperties") is False else ["**more: Any"]
    name = tool["name"].split(":", 1)[1].replace("-", "_").replace(".", "_")
    name = name + "_" if keyword.iskeyword(name) else name
    head = f"    async def {name}(self{''.join(', ' + a for a in args)}) -> Result:"
    if len(head) > 120:
        inner = textwrap.fill(", ".join(["self", *args]), 112, break_long_words=False, break_on_hyphens=False)
        head = f"    async def {name}(\n{textwrap.indent(inner, ' ' * 8)}\n    ) -> Result:"
    pairs = ", ".join(f'"{p}": {names[p]}' for p in properties)
    more = "" if tool["parameters"].get("additionalProperties") is False else ", **more"
    body = f'        return await self._call("{tool["name"]}", {{{pairs}{more}}})'
    if len(body) > 120:
        inner = textwrap.fill(pairs + more, 108, break_long_words=False, break_on_hyphens=False)
        body = f'        return await self._call("{tool["name"]}", {{\n{textwrap.indent(inner, " " * 12)}\n        }})'
    return f"{head}\n{docstring(tool, names)}\n{body}\n"


def tools_module(tools):
    backends = {}
    for t in tools:
        if shown(t):
            backends.setdefault(t["backend"], []).append(t)
    out = [NOTE.format("the server's table of tools"), '"""Every tool of the server as a method."""\n', textwrap.dedent("""\
        from __future__ import annotations

        from collections.abc import Awaitable, Mapping, Sequence
        from typing import TYPE_CHECKING, Any, Callable, NoReturn

        from .result import Result
        from .schema import nearest

        if TYPE_CHECKING:
            from .aclient import AsyncBox


        class AsyncNamespace:
            \"\"\"The tools of one backend of a box.\"\"\"

            def __init__(self, box: AsyncBox, backend: str) -> None:
                self._box, self._backend = box, backend

            def __repr__(self) -> str:
                return f"<tools {self._backend}:* of {self._box.id}>"

            def __call__(self, *unused: Any, **unnamed: Any) -> NoReturn:
                raise AttributeError(f"a box has no method {self._backend}()")

            async def _call(self, tool: str, params: Mapping[str, Any]) -> Result:
                return await self._box.call(tool, {k: v for k, v in params.items() if v is not None})

            def __getattr__(self, name: str) -> Callable[..., Awaitable[Result]]:
                if name.startswith("_"):
                    raise AttributeError(name)

                async def tool(*unnamed: Any, **params: Any) -> Result:
                    action = f"{self._backend}:{name}"
                    if unnamed:
                        raise TypeError(f"{action}: this package does not know this tool, so its parameters must be named")
                    result = await self._call(action, params)
                    if result.outcome == "invalid_request" and result.message.startswith("Tool not found"):
                        near = nearest(action, await self._box.client.tool_table())
                        result.message += f"; did you mean {near}?" if near else ""
                    return result

                return tool
        """)]
    properties = []
    for backend, rows in backends.items():
        name = "Async" + "".join(w.capitalize() for w in re.split(r"\W|_", backend)) + "Tools"
        out.append(f"\nclass {name}(AsyncNamespace):\n    \"\"\"Tools `{backend}:*`.\"\"\"\n")
        out += [method(t) for t in rows]
        attribute = ATTRIBUTE.get(backend, backend)
        of_a_box = (PACKAGE / "aclient.py").read_text().partition("class AsyncBox(")[2]
        if re.search(rf"^    (?:async )?def {attribute}\(", of_a_box, re.M):
            raise SystemExit(f"a box has a method {attribute}() of its own: give the backend {backend!r} a name in ATTRIBUTE")
        properties.append(f"    @property\n    def {attribute}(self) -> {name}:\n        \"\"\"Tools `{backend}:*`.\"\"\"\n"
                          f"        return {name}(self, \"{backend}\")  # type: ignore[arg-type]\n")
    out.append("\nclass AsyncBackends:\n    \"\"\"The backends of a box.\"\"\"\n")
    return "\n".join(out + properties)


def for_threads(text, source):
    """The same for threads."""
    for pattern, by in ((r"\bAsync(?=[A-Z])", ""), (r"\basync (?=def|with|for)", ""), (r"\bawait ", ""),
                        (r"\bAwaitable\[(\w+)\]", r"\1"), (r"\b__a(enter|exit|iter|next)__", r"__\1__"),
                        (r"\bafan\b", "fan"), (r"\basleep\b", "sleep"), (r"\b_atransport\b", "_transport"),
                        (r"\batools\b", "tools"), (r"\baclient\b", "client"), (r"\baenv\b", "env"), (r"\bAwaitable, ", ""),
                        (r"AwaitableResult", "Result"), (r", Awaitable\b", ""), (r"asyncio", "threads")):
        text = re.sub(pattern, by, text)
    text = re.sub(r"^# Written by .*\n", "", text)
    return NOTE.format(source) + text.lstrip("\n")


def tidy(text):
    """Imports in their order, whatever the replacements did to the names."""
    def names(m):
        return f"from {m[1]} import {', '.join(sorted({x.strip() for x in m[2].split(',')}, key=rank))}"

    def rank(n):
        return (0 if n.isupper() else 1 if n[:1].isupper() else 2, n)

    text = re.sub(r"^from (\S+) import ([\w, ]+)$", names, text, flags=re.M)
    head, sep, tail = text.partition("\nT = TypeVar")
    lines = head.split("\n")
    local = [i for i, x in enumerate(lines) if x.startswith("from .")]
    if local:
        block = sorted(lines[local[0]:local[-1] + 1], key=lambda x: x.split()[1])
        lines[local[0]:local[-1] + 1] = block
    return "\n".join(lines) + sep + tail


def files(tools):
    made = {"atools.py": tools_module(tools)}
    made["tools.py"] = tidy(for_threads(made["atools.py"], "atools.py"))
    for source, target in (("aclient.py", "client.py"), ("aenv.py", "env.py")):
        made[target] = tidy(for_threads((PACKAGE / source).read_text(), source))
    sys.path.insert(0, str(AGENTFLOW))
    from sandbox.tool_schemas import entry
    rows = [entry(t) for t in tools if shown(t)]
    made[AGENTFLOW / "sandbox/tool_schemas/table.json"] = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    return made


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--url")
    p.add_argument("--tools", help="a file with the answer of /sg/v1/tools instead of a server")
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    if a.tools:
        tools = json.loads(pathlib.Path(a.tools).read_text())["tools"]
    else:
        from sandglass import Sandglass, local
        with Sandglass(a.url) if a.url else local(private=True) as sg:
            tools = sg.tool_table()
    bad = 0
    for name, text in files(tools).items():
        path = PACKAGE / name
        old = path.read_text() if path.exists() else ""
        if old == text:
            continue
        if a.check:
            bad = 1
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), f"{name} as it is",
                                                       f"{name} as it should be", n=0))
            print(f"{path}: not up to date; run sdk/python/generate.py")
        else:
            path.write_text(text)
            print(f"wrote {path}")
    return bad


if __name__ == "__main__":
    sys.exit(main())
