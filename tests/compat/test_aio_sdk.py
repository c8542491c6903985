"""The real SDKs against our server. They come from the package indexes into build/; where they cannot be had, the tests
say so and are skipped."""

import os
import pathlib
import subprocess
import sys
import venv

import pytest

import sg

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build"
FORMS = HERE / "data" / "aio_forms.json"  # each operation with defaults only, with every parameter set, and wrong


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "2") as s:
        yield s


@pytest.fixture(scope="module")
def python_sdk():
    home = BUILD / "sdk"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check", "install"]
    try:
        if subprocess.run([python, "-c", "import agent_sandbox"], capture_output=True).returncode:
            # its dependency on a cloud provider's SDK is a hundred packages, which the sandbox's client does not use
            subprocess.run([*pip, "--no-deps", "agent-sandbox"], capture_output=True, timeout=300, check=True)
            subprocess.run([*pip, "httpx", "pydantic"], capture_output=True, timeout=300, check=True)
    except subprocess.SubprocessError as e:
        pytest.skip(f"the Python SDK cannot be had here: {e}")
    return python


@pytest.fixture(scope="module")
def node_sdk():
    """The package, or AIO_TS_SDK: the directory sdk/js of a checkout of its source."""
    home = BUILD / "sdk-ts"
    package = home / "node_modules" / "@agent-infra" / "sandbox"
    home.mkdir(parents=True, exist_ok=True)
    source = os.environ.get("AIO_TS_SDK")
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
    try:
        if source and not package.exists():
            subprocess.run([*npm, "esbuild"], cwd=home, capture_output=True, timeout=300, check=True)
            subprocess.run(["npx", "esbuild", source + "/src/index.ts", "--bundle", "--platform=node", "--format=esm",
                            f"--outfile={package}/index.mjs"], cwd=home, capture_output=True, timeout=300, check=True)
            (package / "package.json").write_text('{"name": "@agent-infra/sandbox", "exports": "./index.mjs"}')
        elif not package.exists():
            subprocess.run([*npm, "@agent-infra/sandbox"], cwd=home, capture_output=True, timeout=300, check=True)
    except (OSError, subprocess.SubprocessError) as e:
        pytest.skip(f"the TypeScript SDK cannot be had here: {e}")
    script = home / "aio_sdk.mjs"
    script.write_text((HERE / "aio_sdk.mjs").read_text())
    return script


@pytest.fixture(scope="module")
def go_sdk():
    """The module, or AIO_GO_SDK: a checkout of its source; AIO_GO_UUID the same for what it needs, github.com/google/uuid."""
    home = BUILD / "sdk-go"
    home.mkdir(parents=True, exist_ok=True)
    (home / "main.go").write_text((HERE / "aio_sdk.go").read_text())
    mod = ["module sandglass.test/aio", "go 1.18"]
    for name, variable, version in (("github.com/agent-infra/sandbox-sdk-go", "AIO_GO_SDK", "v0.0.0"),
                                    ("github.com/google/uuid", "AIO_GO_UUID", "v1.4.0")):
        if variable in os.environ:
            mod += [f"require {name} {version}", f"replace {name} => {os.environ[variable]}"]
    (home / "go.mod").write_text("\n".join(mod) + "\n")
    env = {**os.environ, "GOFLAGS": "-mod=mod"}
    try:
        if "AIO_GO_SDK" not in os.environ:
            subprocess.run(["go", "get", "github.com/agent-infra/sandbox-sdk-go"], cwd=home, env=env, capture_output=True, timeout=60,
                           check=True)
        subprocess.run(["go", "build", "-o", "aio_sdk", "main.go"], cwd=home, env=env, capture_output=True, timeout=400, check=True)
    except (OSError, subprocess.SubprocessError) as e:
        pytest.skip(f"the Go SDK cannot be had here: {e} {getattr(e, 'stderr', b'') or b''!r:.300}")
    return home / "aio_sdk"


@pytest.fixture(scope="module")
def browser_server():
    with sg.running("--pool-size", "1", "--box-memory", "2g") as s:
        if s.post("/v1/bash/exec", {"command": "test -x /usr/lib/chromium/chromium -o -x /usr/lib/chromium/chromium-headless-shell"})["data"]["exit_code"]:
            pytest.skip("Debian's chromium is not installed")
        yield s


def run(*command):
    got = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert got.returncode == 0, got.stdout + got.stderr


def test_every_operation_answers_the_python_sdk(server, python_sdk):
    run(python_sdk, HERE / "aio_sdk.py", f"http://127.0.0.1:{server.port}")


def test_a_box_of_its_own_needs_only_another_base_url(server, python_sdk):
    box = server.create()
    run(python_sdk, HERE / "aio_sdk.py", f"http://127.0.0.1:{server.port}/box/{box}")
    assert server.get(f"/sg/v1/boxes/{box}")["id"] == box


def test_every_browser_operation_answers_the_python_sdk(browser_server, python_sdk):
    box = browser_server.create()
    run(python_sdk, HERE / "aio_sdk_browser.py", f"{browser_server.url}/box/{box}")


def test_every_operation_answers_the_typescript_sdk(server, node_sdk):
    run("node", node_sdk, f"{server.url}/box/{server.create()}")


def test_every_form_of_every_operation_answers_the_python_sdk(server, python_sdk):
    run(python_sdk, HERE / "aio_forms.py", f"{server.url}/box/{server.create()}")


def test_every_form_of_every_operation_answers_the_typescript_sdk(server, node_sdk):
    run("node", node_sdk, f"{server.url}/box/{server.create()}", "forms", FORMS)


def test_every_form_of_every_operation_answers_the_go_sdk(server, go_sdk):
    run(go_sdk, f"{server.url}/box/{server.create()}", "forms", FORMS)


def test_every_browser_operation_answers_the_typescript_sdk(browser_server, node_sdk):
    run("node", node_sdk, f"{browser_server.url}/box/{browser_server.create()}", "browser")


def test_every_operation_answers_the_go_sdk(browser_server, go_sdk):
    run(go_sdk, f"{browser_server.url}/box/{browser_server.create()}", "browser")
