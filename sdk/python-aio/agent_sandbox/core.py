"""What the groups share: answers as objects, errors, and the adaptation of names between the documentation and the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any


class ApiError(Exception):
    """The server refused."""

    def __init__(self, status_code: int | None = None, headers: Mapping[str, str] | None = None, body: Any = None) -> None:
        self.status_code, self.headers, self.body = status_code, dict(headers or {}), body
        message = body.get("message") or body.get("detail") if isinstance(body, Mapping) else body
        super().__init__(f"status_code: {status_code}, {message}")


class UnprocessableEntityError(ApiError):
    pass


class ConflictError(ApiError):
    pass


def error_of(status: int, headers: Mapping[str, str], body: Any) -> ApiError:
    return {422: UnprocessableEntityError, 409: ConflictError}.get(status, ApiError)(status, headers, body)


class Model:
    """An object of an answer. Its members are attributes; those that are null or that this server does not send are None only
    if they were sent: a member that is not there is an AttributeError, so that getattr(x, name, default) works."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update({k: model(v) for k, v in values.items()})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def __getitem__(self, name: str) -> Any:
        try:
            return self.__dict__[name]
        except KeyError:
            raise KeyError(name) from None

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.__dict__.get(name, otherwise)

    def __eq__(self, other: Any) -> bool:
        return self.dict() == (other.dict() if isinstance(other, Model) else other)

    def __repr__(self) -> str:
        return f"Model({', '.join(f'{k}={v!r}' for k, v in self.__dict__.items())})"

    def dict(self) -> dict[str, Any]:
        """As plain values."""
        return {k: plain(v) for k, v in self.__dict__.items()}

    model_dump = dict


def model(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Model(value)
    return [model(v) for v in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    if isinstance(value, Model):
        return value.dict()
    return [plain(v) for v in value] if isinstance(value, list) else value


class Content:
    """Bytes of an answer. The documentation reads `.data`, the API's own package iterates over pieces: both work."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __iter__(self) -> Iterator[bytes]:
        yield self.data

    def __bytes__(self) -> bytes:
        return self.data

    def __len__(self) -> int:
        return len(self.data)


class Line(str):
    """A line that was found: a text, as the API has it, with the members that the documentation reads."""

    line: str
    line_number: int

    @classmethod
    def of(cls, text: str, number: int) -> Line:
        made = cls(text)
        made.line, made.line_number = text, number
        return made


class _Text(str):
    pass


class _Whole(int):
    pass


class _Real(float):
    pass


class _Rows(list):  # type: ignore[type-arg]
    pass


def named(value: Any, name: str) -> Any:
    """A bare value, as the API has it, that is its own member of this name, as the documentation reads it. True, False and None
    have none: nothing can stand for them."""
    for kind, wrap in ((str, _Text), (list, _Rows), (bool, None), (int, _Whole), (float, _Real)):
        if isinstance(value, kind):
            if wrap is None:
                return value
            made = wrap(value)
            setattr(made, name, value)
            return made
    if isinstance(value, Model) and name not in value:
        setattr(value, name, Model(value.dict()))
    return value


def _lines(data: Model) -> None:
    numbers = data.get("line_numbers") or []
    data.matches = [Line.of(m, n) if isinstance(m, str) else m for m, n in zip(data.get("matches") or [], numbers)]


def _outputs(data: Model) -> None:
    """Everything that ran has `outputs` with a `text`, whatever it printed."""
    rows = data.get("outputs") or []
    for row in rows:
        if isinstance(row, Model) and "text" not in row:
            values = row.get("data")
            text = values.get("text/plain") if isinstance(values, Model) else None
            row.text = text if text is not None else "\n".join(row.get("traceback") or []) or row.get("evalue")
    if not rows and (data.get("stdout") or data.get("stderr")):
        rows = [Model({"output_type": "stream", "name": name, "text": data.get(name)})
                for name in ("stdout", "stderr") if data.get(name)]
    data.outputs = rows


def _also(**names: str) -> Any:
    def adapt(data: Model) -> None:
        for wanted, sent in names.items():
            if wanted not in data and sent in data:
                setattr(data, wanted, data[sent])
    return adapt


ANSWERS: dict[str, Any] = {
    "file.search_in_file": _lines,
    "file.grep_files": lambda d: [_also(line="line_content")(m) for m in d.get("matches") or []],
    "file.str_replace_editor": _also(content="output"),
    "jupyter.execute_code": _outputs,
    "nodejs.execute_code": _outputs,
    "code.execute_code": _outputs,
}

# What the documentation calls an answer that is no object.
MEMBERS: dict[str, str] = {
    "browser_page.get_text": "text",
    "browser_page.evaluate": "result",
    "browser_tabs.list": "tabs",
    "browser_cookies.get_cookies": "cookies",
    "browser_network.get_requests": "requests",
}


def _cookies(p: dict[str, Any]) -> None:
    if "url" in p:
        p["urls"] = p.pop("url")


def _resolution(p: dict[str, Any]) -> None:
    text = p.get("resolution")
    if isinstance(text, str) and "x" in text:
        width, _, height = text.partition("x")
        p["resolution"] = {"width": int(width), "height": int(height)}


def _route(p: dict[str, Any]) -> None:
    if "pattern" in p:
        p["url_pattern"] = p.pop("pattern")
    response = {meant: p.pop(said) for said, meant in (("response_body", "body"), ("response_status", "status")) if said in p}
    if response:
        p["response"] = response


def _script(p: dict[str, Any]) -> None:
    if "script" in p:
        p["expression"] = p.pop("script")


REQUESTS: dict[str, Any] = {
    "browser_cookies.get_cookies": _cookies,
    "browser.set_config": _resolution,
    "browser_page.evaluate": _script,
    "browser_network.add_route": _route,
    "browser_network.remove_route": _route,
}
