"""knowlyr's MCP server on stdin and stdout: the server's own at /mcp, with knowlyr's tools.

    python -m agentsandbox.mcp_server
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from .client import Client


def _answers(reply: Any) -> Iterator[str]:
    """The messages of an answer: one JSON, or a stream of events."""
    if reply.headers.get("Content-Type", "").startswith("text/event-stream"):
        for line in reply:
            if line.startswith(b"data: {"):
                yield line[6:].decode().strip()
        return
    text = reply.read().decode().strip()
    if text:
        yield text


def serve(lines: Iterable[str] = sys.stdin, out: TextIO = sys.stdout, url: str | None = None) -> None:
    client, session = Client(url), None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for line in lines:
        if not line.strip():
            continue
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if session:
            headers["Mcp-Session-Id"] = session
        if client.token:
            headers["Authorization"] = "Bearer " + client.token
        request = urllib.request.Request(client.url + "/mcp?profile=knowlyr", data=line.encode(), headers=headers)
        try:
            with opener.open(request) as reply:
                session = reply.headers.get("Mcp-Session-Id") or session
                for message in _answers(reply):
                    print(message, file=out, flush=True)
        except urllib.error.HTTPError as e:
            print(e.read().decode(errors="replace").replace("\n", " "), file=out, flush=True)
        except OSError as e:
            text = f"no server at {client.url}: {getattr(e, 'reason', e)}; start one with 'sandglass serve', or set SANDGLASS_URL"
            print(json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": text}}), file=out, flush=True)


if __name__ == "__main__":
    serve()
