"""What the README and docs/python.md show, run as it is printed; the examples; packages in clean environments without a network;
ruff and mypy where they can be had."""

import ast
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import sg

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["python", "python-agentflow", "python-aio", "python-agentsandbox"]


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "4") as s:
        yield s


def env(server, **more):
    return {**os.environ, "SANDGLASS_URL": server.url, "SANDGLASS_BINARY": sg.BINARY, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}


def alone(command):
    """In a network namespace of its own, where nothing can be fetched."""
    return ["unshare", "-n", *command] if os.geteuid() == 0 else command


def test_the_readmes_tour_by_copy_and_paste_with_pip_offline(server, tmp_path):
    tour = re.search(r"in five minutes\n.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    shutil.copytree(ROOT / "sdk", tmp_path / "sdk", symlinks=True)
    (tmp_path / "build").mkdir()
    (tmp_path / "Makefile").write_text("all:;\n")  # the program is there already
    install, run = tour.split("cat > build/tour.py", 1)
    done = subprocess.run(alone(["bash", "-e", "-c", install]), cwd=tmp_path, env=env(server, PATH="/usr/bin:/bin"), capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # As for a first user: no server runs (none of others is seen here), so a private one is started.
    home = sg.open_place("tour")
    first = {k: v for k, v in env(server, PATH="/usr/bin:/bin", SANDGLASS_LOCAL_HOME=str(home)).items() if k != "SANDGLASS_URL"}
    done = subprocess.run(alone(["bash", "-e", "-c", "cat > build/tour.py" + run]), cwd=tmp_path, env=first, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("1\n2\n3\n/home/gem/work\n") and "task_error True" in done.stdout
    assert "1\n2\n3\n lost" in done.stdout and '"messages"' in done.stdout


def test_the_readmes_other_commands_by_copy_and_paste(server, tmp_path):
    """In one shell, as somebody types them; the server is at another port."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    text = "".join(b for b in blocks if "make " not in b).replace("http://127.0.0.1:8080", server.url)
    assert len(blocks) >= 6 and server.url in text
    (tmp_path / "build").mkdir()
    (tmp_path / "build/sandglass").symlink_to(sg.BINARY)
    done = subprocess.run(["bash", "-e", "-c", text], cwd=tmp_path, env=env(server), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exit status 1" in done.stdout and '"stdout":"hello' in done.stdout and "-rw-r--r-- 1 gem gem" in done.stdout
    assert "one\n/tmp\ncurious\n" in done.stdout and "2 of 2 steps: 2 identical" in done.stdout
    assert '"messages"' in (tmp_path / "build/run.jsonl").read_text()
    for b in server.get("/sg/v1/boxes")["boxes"]:
        server.destroy(b["id"])


def test_the_packages_are_built_by_one_and_the_same_program():
    """A copy in each: pip takes none from outside of a package's directory, and links do not survive every way of copying."""
    assert len({(ROOT / "sdk" / p / "wheelwright.py").read_bytes() for p in PACKAGES}) == 1


def test_all_packages_install_without_a_network_and_shadow_nothing_else(tmp_path):
    subprocess.run(["/usr/bin/python3", "-m", "venv", str(tmp_path / "v")], check=True)
    pip = [str(tmp_path / "v/bin/pip"), "install", "--quiet", "--no-index", "--no-build-isolation"]
    subprocess.run(alone([*pip, str(ROOT / "sdk/python")]), check=True, capture_output=True)
    probe = "import importlib.util as u; print([bool(u.find_spec(n)) for n in ('sandglass', 'sandbox', 'agent_sandbox', 'agentsandbox')])"
    python = [str(tmp_path / "v/bin/python"), "-c", probe]
    assert subprocess.run(python, capture_output=True, text=True, cwd=tmp_path).stdout == "[True, False, False, False]\n"
    subprocess.run(alone([*pip, *[str(ROOT / "sdk" / p) for p in PACKAGES[1:]]]), check=True, capture_output=True)
    assert subprocess.run(python, capture_output=True, text=True, cwd=tmp_path).stdout == "[True, True, True, True]\n"
    for package in ("sandglass", "sandbox", "agent_sandbox", "agentsandbox"):
        assert list((tmp_path / "v").glob(f"lib/*/site-packages/{package}/py.typed")), package


def test_every_snippet_of_the_python_page_runs(server):
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)
    assert len(snippets) >= 6
    for text in snippets:
        done = subprocess.run([sys.executable, "-c", text], env=env(server, PYTHONPATH=str(ROOT / "sdk/python")),
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, text + done.stdout + done.stderr


@pytest.mark.parametrize("name,says", [("first_trajectory", "#3 bash:run task_error"), ("best_of_8", "best: 8"),
                                       ("replay_in_ci", "match: 1.0"), ("rollouts", "64 episodes in 32 boxes"),
                                       ("agent", "The answer is 5050")])
def test_examples_run(server, name, says):
    done = subprocess.run([sys.executable, str(ROOT / f"examples/python/{name}.py")], capture_output=True, text=True, timeout=300,
                          env=env(server, PYTHONPATH=str(ROOT / "sdk/python")))
    assert done.returncode == 0 and says in done.stdout, done.stdout + done.stderr
    assert server.get("/sg/v1/boxes")["boxes"] == [], "an example leaves no box"


def evaluated_unions(tree):
    """Annotations `A | B` that the interpreter itself would read, which one of version 3.9 cannot."""
    if any(isinstance(n, ast.ImportFrom) and n.module == "__future__" and any(a.name == "annotations" for a in n.names) for n in tree.body):
        return []
    notes = [n.annotation for n in ast.walk(tree) if isinstance(n, (ast.arg, ast.AnnAssign)) and n.annotation]
    notes += [n.returns for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.returns]
    return [b.lineno for n in notes for b in ast.walk(n) if isinstance(b, ast.BinOp) and isinstance(b.op, ast.BitOr)]


def test_everything_is_python_3_9():
    """The grammar of 3.9, wherever no older interpreter can be had; mypy, below, knows its library."""
    files = [f for d in [*(ROOT / "sdk" / p for p in PACKAGES), ROOT / "examples/python"] for f in d.rglob("*.py") if "build" not in f.parts]
    assert len(files) > 30
    for f in files:
        tree = ast.parse(f.read_text(), str(f), feature_version=(3, 9))
        assert not [n for n in ast.walk(tree) if type(n).__name__ in ("Match", "TryStar", "TypeAlias")], f
        assert not evaluated_unions(tree), f"{f}: needs from __future__ import annotations"
    for p in PACKAGES:
        assert 'requires-python = ">=3.9"' in (ROOT / "sdk" / p / "pyproject.toml").read_text()
    assert evaluated_unions(ast.parse("def f(a: int | None) -> str: ...")), "the check itself"


def test_ruff_and_mypy_have_nothing_to_say():
    tools = ROOT / "build" / "lint-venv"
    if not (tools / "bin" / "mypy").exists():
        subprocess.run(["/usr/bin/python3", "-m", "venv", str(tools)], check=True)
        got = subprocess.run([str(tools / "bin/pip"), "install", "-q", "ruff==0.14.5", "mypy==1.18.2"], capture_output=True, text=True)
        if got.returncode:
            shutil.rmtree(tools)
            pytest.skip("ruff and mypy cannot be installed here: " + got.stderr.strip()[-200:])
    done = subprocess.run([str(tools / "bin/ruff"), "check", "--no-cache", *[f"sdk/{p}" for p in PACKAGES], "examples/python"],
                          cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    for where, package in (("python", "sandglass"), ("python-agentflow", "sandbox"), ("python-aio", "agent_sandbox"),
                           ("python-agentsandbox", "agentsandbox")):
        done = subprocess.run([str(tools / "bin/mypy"), "--strict", "--python-version", "3.9", "--config-file=", "--cache-dir",
                               str(ROOT / "build/mypy"), "-p", package],
                              cwd=ROOT / "sdk" / where, env={**os.environ, "MYPYPATH": "../python"}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
