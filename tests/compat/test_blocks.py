"""The Python code of three systems' documentation, block by block, from blocks/: unchanged but for what each test replaces; docs/compat.md
has the table. test_blocks_browser.py and test_one_file_system.py have those that need a browser."""

import ast
import asyncio
import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import types

import pytest

import sg

HERE = pathlib.Path(__file__).resolve().parent
BLOCKS = HERE / "blocks"
sys.path.insert(0, str(HERE.parents[1] / "sdk" / "python-agentsandbox"))



@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with sg.running("--pool-size", "2") as s:
        s.repo = tmp_path_factory.mktemp("repo")
        (s.repo / "src").mkdir()
        (s.repo / "src" / "main.py").write_text("print('hi')\n")
        (s.repo / "tests").mkdir()
        (s.repo / "tests" / "test_it.py").write_text("def test_it():\n    assert True\n")
        git = ["git", "-C", str(s.repo), "-c", "user.name=t", "-c", "user.email=t@example.org"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
            subprocess.run([*git, *command], check=True)
        yield s


def run(server, name, changed=None, also=None):
    """The block as it is in its file, with these texts replaced; what it printed."""
    text = (BLOCKS / f"{name}.py").read_text()
    for old, new in {"http://localhost:8080": server.url, "Sandbox()": f'Sandbox("{server.url}")', **(changed or {})}.items():
        text = text.replace(old, new)
    names = {"__name__": "__main__", **(also or {})}
    out = io.StringIO()
    code = compile(text, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(out):
        made = eval(code, names)
        if made is not None:
            asyncio.run(made)
    return out.getvalue()


def test_every_block_of_the_documents_is_here_word_for_word():
    """But for its line breaks, which one of the documents lost."""
    seeds = HERE.parents[2] / "shared" / "seeds"
    if not seeds.exists():
        pytest.skip("the documents are not beside this checkout")
    squeeze = lambda text: re.sub(r"\s+", "", text)  # noqa: E731
    for name, document in (("aio", "aio-documentation.txt"), ("agentflow", "agentflow-introduction.md"), ("knowlyr", "knowlyr-readme.txt")):
        whole = (seeds / document).read_text()
        for block in BLOCKS.glob(f"{name}_*.py"):
            assert squeeze(block.read_text()) in squeeze(whole), block.name
    have = {squeeze(b.read_text()) for b in BLOCKS.glob("*.py")}
    for document in ("aio-documentation.txt", "agentflow-introduction.md"):
        for text in re.findall(r"```python\s(.*?)```", (seeds / document).read_text(), re.S):
            assert squeeze(text) in have or text.lstrip().startswith("# Execute tool\nPOST /execute"), text[:200]


def write(server, **files):
    for path, text in files.items():
        server.post("/v1/file/write", {"file": f"/home/gem/{path.replace('__', '/').replace('_py', '.py')}", "content": text})


def test_aio_client_and_context(server):
    assert run(server, "aio_00_client", {"Bearer <jwt>": "Bearer none"}) == "/home/gem\n"
    home, version, packages = run(server, "aio_01_context").split("\n", 2)
    assert home == "/home/gem" and version[0].isdigit() and "pip" in packages


def test_aio_shell(server):
    out = run(server, "aio_02_shell").splitlines()
    assert out[0] == "Hello World" and out[-1] == "/home/gem"
    out = run(server, "aio_03_sessions").splitlines()
    assert out[0] == "hello" and "sessions" in out[1]


def test_aio_files(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pathlib.Path("image.png").write_bytes(bytes(range(256)))
    assert run(server, "aio_04_write") == "34\n"
    out = run(server, "aio_05_read")
    assert out.startswith("Hello from AIO Sandbox!\nLine two.\nAppended line.\n") and out.endswith("Hello from AIO Sandbox!\n\n")
    out = run(server, "aio_06_list")
    assert out.startswith("Total items: ") and "[FILE] notes.txt (49 bytes)" in out and "[FILE] image.png (256 bytes)" in out
    write(server, app_py="import os\ndef one():\n    pass\n", project__a_py="x = 1\n# todo: more\n", config_py="DEBUG = False\n")
    assert run(server, "aio_07_search") == "Line 1: def one():\n"
    assert run(server, "aio_08_grep") == "/home/gem/project/a.py:2 # todo: more\n"
    assert set(run(server, "aio_09_find").split()) >= {"/home/gem/app.py", "/home/gem/project/a.py"}
    run(server, "aio_10_replace")
    assert server.post("/v1/file/read", {"file": "/home/gem/config.py"})["data"]["content"] == "DEBUG = True\n"


def test_aio_editor(server):
    server.post("/v1/shell/exec", {"command": "rm -f /home/gem/hello.py"})
    assert "def greet(name):" in run(server, "aio_11_editor")
    text = server.post("/v1/file/read", {"file": "/home/gem/hello.py"})["data"]["content"]
    assert "Hi, {name}!" in text and "Greet a user" not in text, "the insertion was undone"


def test_aio_jupyter(server):
    out = run(server, "aio_12_jupyter")
    assert "mean" in out and "count" in out and out.strip().splitlines()[-1][0].isdigit(), out


def test_aio_nodejs(server):
    assert "Sum 1-100: 5050" in run(server, "aio_13_nodejs")


def test_aio_code(server):
    assert json.loads(run(server, "aio_14_code"))["sum"] == 4950


def scripted_openai():
    """Stands in for the outside service: a model that asks for one call."""
    code = "a, b = 0, 1\nfor _ in range(10):\n    print(a, end=' ')\n    a, b = b, a + b"
    call = types.SimpleNamespace(function=types.SimpleNamespace(name="run_code", arguments=json.dumps({"code": code})))
    reply = types.SimpleNamespace(choices=[types.SimpleNamespace(message=types.SimpleNamespace(tool_calls=[call]))])
    completions = types.SimpleNamespace(create=lambda **request: reply)
    module = types.ModuleType("openai")
    module.OpenAI = lambda: types.SimpleNamespace(chat=types.SimpleNamespace(completions=completions))
    return module


def test_aio_tool_calling(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", scripted_openai())
    assert "0 1 1 2 3 5 8 13 21 34" in run(server, "aio_24_openai")


def scripted_autogen(said):
    """Stands in for AG2 and its models: each function that was registered is called once."""
    tools = []

    class Agent:
        def __init__(self, **more):
            pass

        def register_for_execution(self):
            return lambda f: tools.append(f) or f

        def register_for_llm(self, description):
            return lambda f: f

        def run(self, manager, message):
            return self

        def process(self):
            for f in tools:
                said.append(f("print(6 * 7)") if f.__name__ == "run_python" else f("echo done"))

    module = types.ModuleType("autogen")
    for name in ("AssistantAgent", "UserProxyAgent"):
        setattr(module, name, Agent)
    module.GroupChat = module.GroupChatManager = lambda **more: None
    module.LLMConfig = dict
    return module


def test_aio_multi_agent(server, monkeypatch):
    said = []
    monkeypatch.setitem(sys.modules, "autogen", scripted_autogen(said))
    run(server, "aio_25_ag2")
    assert sorted(s.strip() for s in said) == ["42", "done"]


def test_agentflow_introduction(server):
    import sandbox

    trajectory = []
    run(server, "agentflow_0_workflow", also={"Sandbox": sandbox.Sandbox, "trajectory": trajectory})
    seen = trajectory[0]["observation"]
    assert seen["image"].startswith("iVBORw0KGgo") and seen["size"] == [1280, 800]
    assert trajectory[0]["metadata"]["outcome"] == "ok" and trajectory[0]["metadata"]["engine"] == "desktop"
    assert "'image': 'iVBORw0KGgo" in run(server, "agentflow_1_quick_start")


def test_knowlyr_readme(server, monkeypatch):
    monkeypatch.setenv("SANDGLASS_URL", server.url)
    changed = {"https://github.com/user/repo": str(server.repo), "abc123": "HEAD", "python:3.11-slim": "host",
               "python -m pytest": "ls tests"}
    out = run(server, "knowlyr_0_api", changed)
    assert "Exit code: 0" in out and "test_it.py" in out
    from agentsandbox import Sandbox, SandboxConfig
    from agentsandbox.config import TaskConfig

    sandbox = Sandbox.create(SandboxConfig(image="host"), TaskConfig(repo_url=str(server.repo), base_commit="HEAD"))
    try:
        out = run(server, "knowlyr_1_replay", {'"pytest"': '"cat src/main.py"'}, {"sandbox": sandbox})
        assert "成功: True" in out and "偏离步骤: -1" in out
        run(server, "knowlyr_2_snapshot", None, {"sandbox": sandbox})
        assert sandbox.execute_tool("file_read", {"path": "src/main.py"}).output.strip().endswith("print('hi')")
    finally:
        sandbox.close()
