# Written by generate.py from aclient.py; not to be edited.
"""The client: a server, its boxes, its trajectories."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Callable, TypeVar

from ._fan import fan, sleep
from ._tar import pack, pieces, unpack
from ._transport import Body, Stream, Transport
from ._wire import EventReader, parse_url, query, quote
from .errors import ApiError, ConnectError, NotFound, SandglassError, TaskError, api_error
from .result import Report, Result, Step
from .schema import ToolCall, choose, function_name, schemas
from .tools import Backends, Namespace

T = TypeVar("T")
R = TypeVar("R")
BATCH_AT_ONCE = 16
EXPORT_FILTERS = ("outcome", "tool", "trainable", "since", "until", "shown_max", "bare", "images")
EXPORT_ALL_FILTERS = ("worker", "tag", "min_reward", "max_reward")
LOOK = 0.1  # seconds between two looks at a job


class Sandglass:
    """A Sandglass server.

    url      `http://host:port`, `https://...` or `unix:/path`; without it $SANDGLASS_URL, else http://127.0.0.1:8080
    api_key  sent as a bearer token; without it $SANDGLASS_API_KEY
    check    True: a call that does not end as `ok` raises the exception of its outcome; False: it is a value
    retries  how often a request is repeated if the server was not reached, went away or was busy. Calls carry an
             idempotency key, so that they run once; what could happen twice is never repeated. 0: no repeats, no keys
    timeout  seconds for connecting, and for requests that run nothing; a call may take as long as its own timeout
    verify   of TLS: False accepts any certificate; an ssl.SSLContext is used as it is
    """

    def __init__(self, url: str | None = None, *, api_key: str | None = None, check: bool = False, retries: int = 6,
                 timeout: float = 60.0, headers: Mapping[str, str] | None = None, verify: Any = True) -> None:
        key = api_key or os.environ.get("SANDGLASS_API_KEY")
        all_headers = {"Accept": "application/json", "User-Agent": "sandglass-python"}
        if key:
            all_headers["Authorization"] = "Bearer " + key
        self._transport = Transport(parse_url(url), {**all_headers, **(headers or {})}, timeout, retries, verify)
        self._check, self._timeout, self._retries = check, timeout, retries
        self._tools: list[dict[str, Any]] | None = None

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._transport.address.text

    def __repr__(self) -> str:
        return f"<Sandglass {self.url}>"

    def close(self) -> None:
        """Lets go of the connections. Boxes stay."""
        self._transport.close()

    def __enter__(self) -> Sandglass:
        return self

    def __exit__(self, *why: Any) -> None:
        self.close()

    # ---- requests ----

    def request(self, method: str, path: str, body: Any = None, *, params: Mapping[str, Any] | None = None,
                      safe: bool | None = None, timeout: float | None = None) -> Any:
        """Any request of the API, as JSON. safe: it may be repeated; without it, what only reads or deletes may."""
        data = b"" if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"Content-Type": "application/json"}
        if safe is None:
            safe = method in ("GET", "HEAD", "DELETE")
        answer = self._transport.request(method, query(path, params), headers, data, safe=safe,
                                               timeout=self._timeout if timeout is None else timeout)
        if answer.status >= 400:
            raise api_error(answer.status, answer.json())
        return answer.json()

    def _stream(self, method: str, path: str, params: Mapping[str, Any] | None = None, body: Body = b"",
                      headers: Mapping[str, str] | None = None) -> Stream:
        stream = self._transport.stream(method, query(path, params), headers or {}, body)
        if stream.status >= 400:
            text = stream.read()
            try:
                raise api_error(stream.status, json.loads(text))
            except ValueError:
                raise api_error(stream.status, text.decode("utf-8", "replace")) from None
        return stream

    def _execute(self, path: str, body: dict[str, Any], check: bool | None, key: str | None) -> Result:
        if key is None and self._retries:
            key = uuid.uuid4().hex
        if key is not None:
            body["idempotency_key"] = key
        timeout = body.get("timeout")
        if timeout is not None and not isinstance(timeout, (int, float)):
            raise TypeError(f"timeout: expected seconds, got {timeout!r}")
        answer = self._transport.request(
            "POST", path, {"Content-Type": "application/json"}, json.dumps(body).encode(), safe=key is not None,
            timeout=timeout + self._timeout if timeout else None)
        value = answer.json()
        if not isinstance(value, dict) or "outcome" not in value:
            raise api_error(answer.status, value)
        result = Result.from_json(value)
        return result.check() if (self._check if check is None else check) else result

    # ---- the server ----

    def status(self) -> dict[str, Any]:
        """Version, number of boxes, pool."""
        return dict(self.request("GET", "/sg/v1/status"))

    def tool_table(self, refresh: bool = False) -> list[dict[str, Any]]:
        """All tools with their schemas."""
        if self._tools is None or refresh:
            self._tools = list((self.request("GET", "/sg/v1/tools"))["tools"])
        return self._tools

    def call(self, action: str, params: Mapping[str, Any] | None = None, /, *, worker: str = "python",
                   timeout: float | None = None, check: bool | None = None, key: str | None = None,
                   trajectory: str | None = None, **more: Any) -> Result:
        """One call outside of any box of yours: a tool that needs one gets a temporary box."""
        body: dict[str, Any] = {"tool": action, "params": {**(params or {}), **more}, "worker_id": worker}
        if timeout is not None:
            body["timeout"] = timeout
        if trajectory is not None:
            body["trajectory_id"] = trajectory
        return self._execute("/sg/v1/execute", body, check, key)

    # ---- boxes ----

    def create(self, **spec: Any) -> Box:
        """A new box. Use it as a context manager, and it is destroyed at the end.

        image             "host", or an absolute directory of the server's machine
        memory, disk, shm sizes such as "512m"; cpu (1.5: one and a half processors), pids, open_files: numbers
        network           "none" or "full"
        ttl               seconds without a call after which it ends
        labels            a dict, for boxes("NAME=VALUE")
        state             "step": a state after every step that may have changed something
        repo, task        a box from a repository (docs/knowlyr.md)
        determinism       True or a dict: the same machine in every run (docs/replay.md)
        secrets           {"VARIABLE": "NAME"}, of the server's store (docs/access.md)
        sudo, user_namespaces, mounts, display, allow_unenforced, cold: as the settings `box.*` (docs/configuration.md)
        idempotency_key   of your own: the same key and spec is the same box, as long as there is one
        """
        body = {k: v for k, v in spec.items() if v is not None}
        if self._retries:
            body.setdefault("idempotency_key", uuid.uuid4().hex)
        answer = self.request("POST", "/sg/v1/boxes", body, safe="idempotency_key" in body, timeout=900)
        return Box(self, answer["id"], answer)

    def get(self, box: str) -> Box:
        """A box that is there already. Leaving it as a context manager does not destroy it."""
        answer = self.request("GET", f"/sg/v1/boxes/{quote(box)}")
        return Box(self, answer["id"], answer, owned=False)

    def boxes(self, label: str | None = None) -> list[Box]:
        """All boxes that you may see; label: only those with this `NAME=VALUE`."""
        answer = self.request("GET", "/sg/v1/boxes", params={"label": label})
        return [Box(self, b["id"], b, owned=False) for b in answer["boxes"]]

    def map(self, function: Callable[[Box, T], R], items: Iterable[T], *, concurrency: int = 8,
                  progress: bool | None = None, return_exceptions: bool = False, **spec: Any) -> list[R]:
        """function(box, item) for all items, each in a fresh box, so many boxes at once; results in the items' order.

        progress           a bar on standard error; without a word, if that is a terminal
        return_exceptions  an exception takes the place of its item's result; without it, the first one ends the rest
        The remaining arguments describe the boxes, as for create().
        """

        def one(item: T) -> R:
            with self.create(**spec) as box:
                return function(box, item)

        return fan(one, items, concurrency, progress, return_exceptions)

    # ---- states ----

    def states(self, *, box: str | None = None, trajectory: str | None = None) -> Iterator[dict[str, Any]]:
        """The states that were kept, newest first."""
        after = None
        while True:
            page = self.request("GET", "/sg/v1/states", params={"box": box, "trajectory": trajectory, "after": after})
            for row in page["states"]:
                yield row
            after = page.get("next")
            if after is None:
                return

    def diff(self, a: str, b: str, *, text: bool = False) -> dict[str, Any]:
        """What differs between two states: `added`, `changed`, `removed`, and `rows` with the paths."""
        return dict(self.request("GET", "/sg/v1/diff", params={"a": a, "b": b, "text": text}, timeout=300))

    def fork(self, state: str, n: int = 1) -> list[Box]:
        """New boxes that begin with a recorded state."""
        return self._forked(f"/sg/v1/states/{quote(state)}/fork", {"n": n})

    def _forked(self, path: str, body: dict[str, Any]) -> list[Box]:
        answer = self.request("POST", path, body, timeout=900)
        made = [Box(self, row["id"], row) for row in answer["boxes"] if "id" in row]
        if len(made) < answer["requested"]:
            for box in made:
                with suppress(SandglassError):
                    box.destroy()
            why: dict[str, Any] = next((row["error"] for row in answer["boxes"] if "error" in row), {})
            raise ApiError(207, str(why.get("code", "")), f"{len(made)} of {answer['requested']} boxes could be made: "
                           f"{why.get('message', 'no reason given')}", answer)
        return made

    def checkout(self, state: str, path: str | os.PathLike[str]) -> str:
        """The files of a state that differ from the image, as a tar on this machine. Returns the path."""
        with self._stream("GET", f"/sg/v1/states/{quote(state)}/files") as stream:
            return _save(stream, path)

    # ---- trajectories ----

    def trajectory(self, id: str) -> Trajectory:
        """A trajectory by its id."""
        return Trajectory(self, id)

    def trajectories(self, *, worker: str | None = None, box: str | None = None, tool: str | None = None,
                           outcome: str | None = None, tag: str | None = None, min_reward: float | None = None,
                           max_reward: float | None = None) -> Iterator[Trajectory]:
        """All trajectories, or those of a worker, a box, with a tool, an outcome, a tag, or a reward of that size."""
        after: Any = None
        while True:
            page = self.request("GET", "/sg/v1/trajectories", params={
                "worker": worker, "box": box, "tool": tool, "outcome": outcome, "tag": tag, "min_reward": min_reward,
                "max_reward": max_reward, "after": after})
            for row in page["trajectories"]:
                yield Trajectory(self, row["id"], row)
            after = page.get("next")
            if after is None:
                return

    def export(self, format: str = "sandglass", **filters: Any) -> bytes:
        """All trajectories in one file. Formats and filters are those of Trajectory.export(), and also worker, tag,
        min_reward, max_reward."""
        return self._export("/sg/v1/trajectories/export", format, filters, EXPORT_FILTERS + EXPORT_ALL_FILTERS)

    def _export(self, path: str, format: str, filters: Mapping[str, Any], known: tuple[str, ...]) -> bytes:
        for name in filters:
            if name not in known:
                raise TypeError(f"export: no filter {name!r} (known: {', '.join(known)})")
        params = {"format": format, **{k.replace("_", "-"): v for k, v in filters.items()}}
        with self._stream("GET", path, params) as stream:
            return stream.read()

    def import_trajectories(self, data: bytes | str, *, format: str | None = None) -> dict[str, Any]:
        """Stores trajectories of a file that this or another system wrote (docs/export.md). Returns which they are."""
        body = data.encode() if isinstance(data, str) else data
        headers = {"Content-Type": "application/octet-stream"}
        with self._stream("POST", "/sg/v1/trajectories/import", {"format": format}, body, headers) as stream:
            return dict(json.loads(stream.read()))


class Trajectory:
    """The recorded steps of one worker or box, in order. `info` is what is known of it as a whole."""

    def __init__(self, client: Sandglass, id: str, info: Mapping[str, Any] | None = None) -> None:
        self._client, self.id, self.info = client, id, dict(info or {})
        self._path = f"/sg/v1/trajectories/{quote(id)}"

    def __repr__(self) -> str:
        return f"<trajectory {self.id}>"

    def refresh(self) -> dict[str, Any]:
        """How many steps, how they ended, which boxes and tools."""
        self.info = dict(self._client.request("GET", self._path))
        return self.info

    def steps(self, *, after: int = 0, tool: str | None = None, outcome: str | None = None, box: str | None = None,
                    session: str | None = None) -> Iterator[Step]:
        """Its steps after that one; with a filter, only those of a tool, an outcome, a box or a session."""
        place: Any = after
        while True:
            page = self._client.request("GET", self._path + "/steps", params={
                "after": place, "limit": 500, "tool": tool, "outcome": outcome, "box": box, "session": session})
            for row in page["steps"]:
                yield Step.from_json(row)
            place = page.get("next")
            if place is None:
                return

    def follow(self, *, after: int = 0) -> Iterator[Step]:
        """Its steps, those to come as well, for as long as you ask. A connection that ends is taken up again after the
        last step that was seen."""
        seen, failed = after, 0
        while True:
            reader = EventReader()
            try:
                with self._client._stream("GET", self._path + "/events", {"after": seen}) as stream:
                    for line in stream.lines():
                        event = reader.feed(line)
                        if event and event[0] == "step":
                            step = Step.from_json(json.loads(event[1]))
                            seen, failed = step.step, 0
                            yield step
            except NotFound:
                raise
            except Exception as e:
                failed += 1
                if failed > self._client._retries:
                    raise ConnectError(f"following {self.id}: {e}") from e
            sleep(min(0.05 * 2**failed, 2.0))

    def annotate(self, *, step: int | None = None, **note: Any) -> dict[str, Any]:
        """Says something about it, or about one of its steps, after the fact: tags (a list), reward (a number), note (a text),
        metadata (a dict), pinned. Returns what is known now."""
        path = self._path if step is None else f"{self._path}/steps/{step}"
        return dict(self._client.request("PATCH", path, note, safe=True))

    def replay(self, **options: Any) -> Report:
        """Runs it again in a fresh box and compares. Options: on (a box), verify, min_match, ignore (a list), rules,
        no_rules, once, keep."""
        job = self._client.request("POST", self._path + "/replay", options, timeout=60)
        while job["state"] == "running":
            sleep(LOOK)
            job = self._client.request("GET", f"/sg/v1/jobs/{quote(job['job'])}")
        if job["state"] != "done" or not job.get("report"):
            raise SandglassError(f"the replay of {self.id} failed: {job.get('error') or job.get('message') or job}")
        return Report.from_json(job["report"])

    def export(self, format: str = "sandglass", **filters: Any) -> bytes:
        """In another format: atif, openai, sharegpt, agentflow, agentflow-rollout, knowlyr, knowlyr-recorder, swe-agent,
        preferences, grpo, parquet. Filters: outcome, tool, trainable, since, until, shown_max ("8k": of each observation),
        bare, images; docs/export.md says what they do."""
        return self._client._export(self._path + "/export", format, filters, EXPORT_FILTERS)

    def delete(self) -> None:
        """Takes it out of the record, for ever."""
        self._client.request("DELETE", self._path)


class Box(Backends):
    """An isolated computer. Its tools are methods of its backends, such as `box.bash.run("ls")`; any tool goes by `call`."""

    def __init__(self, client: Sandglass, id: str, info: Mapping[str, Any] | None = None, owned: bool = True) -> None:
        self.client, self.id, self.info = client, id, dict(info or {})
        self.trajectory_id: str | None = None  # of the calls to come; None: the box's own
        self._own_trajectory: str | None = None
        self._owned = owned
        self._path = f"/sg/v1/boxes/{quote(id)}"

    def __repr__(self) -> str:
        return f"<box {self.id}>"

    def __getattr__(self, name: str) -> Namespace:
        """A backend that this package did not know when it was made: of an extension, of an MCP server."""
        if name.startswith("_"):
            raise AttributeError(name)
        return Namespace(self, name)

    # ---- life ----

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *why: Any) -> None:
        if self._owned:
            with suppress(SandglassError):
                self.destroy()

    def refresh(self) -> dict[str, Any]:
        """State, limits, use, sessions, trajectory."""
        self.info = dict(self.client.request("GET", self._path))
        return self.info

    def destroy(self) -> None:
        """The box goes; what was recorded stays."""
        with suppress(NotFound):
            self.client.request("DELETE", self._path)

    def pause(self) -> None:
        """Its processes stand still, and calls are refused, until resume()."""
        self.client.request("POST", self._path + "/pause", safe=True)

    def resume(self) -> None:
        """Its processes go on."""
        self.client.request("POST", self._path + "/resume", safe=True)

    # ---- calls ----

    def call(self, action: str, params: Mapping[str, Any] | None = None, /, *, timeout: float | None = None,
                   check: bool | None = None, key: str | None = None, trajectory: str | None = None, **more: Any) -> Result:
        """Any tool by its name: `call("bash:run", command="ls")`.

        timeout     seconds that it may take
        check       True: raise the exception of an outcome that is not `ok`; without it, what the client says
        key         an idempotency key of your own: calls with the same key and parameters run once, for ever
        trajectory  the episode that this step belongs to
        Parameters with these names go into the dictionary `params`.
        """
        body: dict[str, Any] = {"tool": action, "params": {**(params or {}), **more}}
        if timeout is not None:
            body["timeout"] = timeout
        episode = trajectory or self.trajectory_id
        if episode:
            body["trajectory_id"] = episode
        result = self.client._execute(self._path + "/execute", body, False, key)
        if not episode:
            self._own_trajectory = result.trajectory_id
        return result.check() if (self.client._check if check is None else check) else result

    def run(self, command: str, *, timeout: float | None = None, check: bool | None = None, cwd: str | None = None,
                  env: Mapping[str, str] | None = None, stdin: str | None = None) -> Result:
        """A command in the box's shell, which keeps its directory and variables; short for `bash:run`."""
        params = {"command": command, "cwd": cwd, "env": env, "stdin": stdin}
        return self.call("bash:run", {k: v for k, v in params.items() if v is not None}, timeout=timeout, check=check)

    def batch(self, calls: Iterable[tuple[str, Mapping[str, Any]]], *, parallel: bool = False,
                    stop_on_error: bool = False) -> list[Result]:
        """Several calls, one after the other or at most 16 at once; results in their order. stop_on_error: those after
        one that is not `ok` are left out."""
        wanted = [_pair(call) for call in calls]
        if parallel:

            def one(item: tuple[str, Mapping[str, Any]]) -> Result:
                return self.call(item[0], item[1], check=False)

            return fan(one, wanted, BATCH_AT_ONCE, False, False)
        results = []
        for action, params in wanted:
            results.append(self.call(action, params, check=False))
            if stop_on_error and not results[-1]:
                break
        return results

    def stream(self, command: str, *, cwd: str | None = None, env: Mapping[str, str] | None = None,
               check: bool | None = None, wait_ms: int = 5000) -> Output:
        """Starts a program and gives what it writes while it runs; iterate over it. Afterwards its `exit_code` is there;
        check: one that is not 0 raises TaskError at the end. The program is killed if you stop reading."""
        params = {"command": command, "cwd": cwd, "env": env}
        strict = self.client._check if check is None else check
        return Output(self, {k: v for k, v in params.items() if v is not None}, strict, wait_ms)

    # ---- files ----

    def write(self, path: str, data: bytes | str, *, mode: int | str | None = None) -> None:
        """A file in the box, of any size; it appears when it is whole. mode: 0o755 or "755"."""
        if isinstance(data, str):
            data = data.encode()
        elif not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data: expected bytes or str, got {type(data).__name__}")
        if isinstance(mode, int):
            mode = f"{mode:o}"
        self._put("/files", {"path": path, "mode": mode}, bytes(data))

    def read(self, path: str) -> bytes:
        """A file of the box."""
        with self.client._stream("GET", self._path + "/files", {"path": path}) as stream:
            return stream.read()

    def upload(self, source: str | os.PathLike[str], path: str) -> None:
        """A file of this machine to `path`, or what is in a directory of this machine into the directory `path`."""
        if os.path.isdir(source):
            self._put("/tree", {"path": path}, pack(source))
        else:
            with open(source, "rb") as file:
                mode = f"{os.fstat(file.fileno()).st_mode & 0o777:04o}"
                self._put("/files", {"path": path, "mode": mode}, pieces(file))

    def download(self, path: str, target: str | os.PathLike[str]) -> str:
        """A file of the box to the file `target`, or what is in a directory of the box into the directory `target`.
        Nothing is written outside of it, whatever links the box has made. Returns target."""
        there = self.call("file:stat", {"path": path}, check=False)
        if there.get("type") != "directory":
            with self.client._stream("GET", self._path + "/files", {"path": path}) as stream:
                return _save(stream, target)
        with tempfile.TemporaryFile() as spool:
            with self.client._stream("GET", self._path + "/tree", {"path": path}) as stream:
                for piece in stream:
                    spool.write(piece)
            spool.seek(0)
            unpack(spool, target)
        return os.fspath(target)

    def _put(self, where: str, params: Mapping[str, Any], data: Body) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        with self.client._stream("PUT", self._path + where, params, data, headers) as stream:
            stream.read()

    # ---- time ----

    def snapshot(self, name: str | None = None) -> str:
        """Keeps the files as they are now. Returns the id of the state."""
        answer = self.client.request("POST", self._path + "/snapshot", {"name": name} if name else {}, timeout=300)
        return str(answer["state"])

    def fork(self, n: int = 1, *, state: str | None = None, step: int | None = None) -> list[Box]:
        """More boxes as this one is now, or as it was in a state or after a step."""
        body = {"n": n, "state": state, "step": step}
        return self.client._forked(self._path + "/fork", {k: v for k, v in body.items() if v is not None})

    def restore(self, state: str | None = None, *, step: int | None = None) -> None:
        """Back to a state, or to how it was after a step. It keeps its id; its processes end."""
        body = {"state": state, "step": step}
        self.client.request("POST", self._path + "/restore", {k: v for k, v in body.items() if v is not None},
                                  safe=True, timeout=300)

    def reset(self, state: str | None = None) -> dict[str, Any]:
        """Back to the commit of its repository or the bare image, or to a state that first proves itself (`proved`)."""
        return dict(self.client.request("POST", self._path + "/reset", {"state": state} if state else {}, timeout=900))

    def diff(self, a: str, b: str | None = None, *, text: bool = False) -> dict[str, Any]:
        """What differs between two states, or between a state and now."""
        return self.client.diff(a, b or self.snapshot(), text=text)

    def states(self) -> Iterator[dict[str, Any]]:
        """Its states, newest first."""
        for row in self.client.states(box=self.id):
            yield row

    # ---- what was recorded ----

    def trajectory(self) -> Trajectory:
        """The trajectory of its calls; also when the box is gone."""
        id = self.trajectory_id or self._own_trajectory or (self.refresh()).get("trajectory")
        if not id:
            raise SandglassError(f"{self.id} has no trajectory yet: it was not called")
        return Trajectory(self.client, id)

    # ---- for models ----

    def tools(self, format: str = "openai", only: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The tools for a request to a model: format `openai`, `anthropic` or `mcp`; only: names or patterns such as
        `file:*`. All of them are more than some model APIs take (128)."""
        return schemas(choose(self.client.tool_table(), only), format)

    def handle(self, tool_call: Any) -> dict[str, Any]:
        """Runs a call that a model made (OpenAI's, Anthropic's, MCP's; as a dictionary or an object) and returns the message
        that goes back. What the model got wrong is told to it, not raised."""
        call = ToolCall(tool_call)
        return call.answer(self.answer(call))

    def answer(self, tool_call: Any) -> Result:
        """The same, as a Result."""
        call = tool_call if isinstance(tool_call, ToolCall) else ToolCall(tool_call)
        if call.error:
            return call.refuse(call.error)
        names = {function_name(t["name"]): t["name"] for t in self.client.tool_table()}
        return self.call(names.get(call.name, call.name), call.arguments, check=False)


class Output:
    """What a program writes, while it runs: standard output, and errors in between as they come."""

    def __init__(self, box: Box, params: Mapping[str, Any], check: bool, wait_ms: int) -> None:
        self._box, self._params, self._check, self._wait_ms = box, params, check, wait_ms
        self.exit_code: int | None = None  # None: it has not ended, or a signal ended it

    def __iter__(self) -> Iterator[str]:
        job = (self._box.call("bash:start", self._params, check=True))["job_id"]
        running = True
        try:
            while running:
                got = self._box.call("bash:output", {"job_id": job, "wait_ms": self._wait_ms}, check=True)
                running = got.get("status") == "running"
                for name in ("stdout", "stderr"):
                    text = got.get(name)
                    if text:
                        yield str(text)
            self.exit_code = got.exit_code
        finally:
            if running:
                with suppress(SandglassError):
                    self._box.call("bash:kill", {"job_id": job}, check=False)
        if self._check and self.exit_code != 0:
            got.outcome, got.message = "task_error", f"exit status {self.exit_code}"
            raise TaskError(got)


def _pair(call: Any) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(call, (tuple, list)) or len(call) != 2 or not isinstance(call[1], Mapping):
        raise TypeError(f"batch: expected pairs of a tool and its parameters, got {call!r}")
    return call[0], call[1]


def _save(stream: Stream, path: str | os.PathLike[str]) -> str:
    """A file that appears when it is whole."""
    part = f"{os.fspath(path)}.part-{uuid.uuid4().hex[:8]}"
    try:
        with open(part, "wb") as out:
            for piece in stream:
                out.write(piece)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    return os.fspath(path)
