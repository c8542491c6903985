"""A backend of one's own: a todo list for each session. Name it in the file of the setting `extensions`:

    {"extensions": {"todo": {"command": ["python3", "/path/of/backend.py"]}}}

Its tools are then tools like all others: `todo:add`, `todo:list`, over every API, recorded as steps.
"""

from __future__ import annotations

from sandglass.extend import Backend, InvalidParameter, run, tool


class Todo(Backend):
    """Things to do, kept for as long as the session lasts."""

    name, kind = "todo", "session"

    def initialize(self, worker: str, config: dict) -> list[str]:
        return list(config.get("items", []))

    @tool
    def add(self, session: list[str], text: str) -> dict:
        """Adds something to do.

        text: what is to be done
        """
        if not text.strip():
            raise InvalidParameter("text: must not be empty")
        session.append(text)
        return {"count": len(session)}

    @tool(name="list", read_only=True)
    def all(self, session: list[str]) -> dict:
        """Lists what is to be done."""
        return {"items": session}


if __name__ == "__main__":
    run(Todo())
