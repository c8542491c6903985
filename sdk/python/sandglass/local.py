"""A server of one's own, for as long as the program runs."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from ._wire import parse_url
from .aclient import AsyncSandglass
from .client import Sandglass
from .errors import SandglassError

# The server ends when its standard input does, so that it cannot outlive us however we end. If others use it, too, each holds
# a lock on the file `users`: then it ends when the last of them has let go, and whoever comes meanwhile waits until it is over.
WATCH = r"""
exec 3<&0
users=$1
shift
"$@" </dev/null 3<&- &
server=$!
(cat <&3 >/dev/null
if [ -n "$users" ] && command -v flock >/dev/null; then
    flock -x "$users" sh -c 'kill $0; while kill -0 $0; do sleep 0.05; done' $server 2>/dev/null
else
    kill $server 2>/dev/null
fi) &
watch=$!
exec 3<&-
wait $server
code=$?
kill $watch 2>/dev/null
exit $code
"""
HOME_MAX = 60
START_SECONDS = 120.0


def find_binary() -> str:
    """$SANDGLASS_BINARY, `sandglass` on the PATH, or what was built in the checkout that we are part of."""
    named = os.environ.get("SANDGLASS_BINARY")
    if named:
        return named
    on_path = shutil.which("sandglass")
    if on_path:
        return on_path
    for base in (pathlib.Path(__file__).resolve().parent, pathlib.Path.cwd().resolve()):
        for parent in (base, *base.parents):
            if (parent / "build" / "sandglass").is_file() and (parent / "src" / "surface").is_dir():
                return str(parent / "build" / "sandglass")
    raise SandglassError("no program 'sandglass' on the PATH; build it with 'make' and name it in SANDGLASS_BINARY")


class _Users:
    """The programs that use one server: each holds a shared lock on a file for as long as it runs, forks of it included."""

    def __init__(self, home: str) -> None:
        self.path = os.path.join(home, "users")
        self._fd: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def leave(self) -> bool:
        """Whether there are others."""
        fd, self._fd = self._fd, None
        if fd is None:
            return False
        os.close(fd)
        with open(self.path, "rb") as probe:
            try:
                fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return False
            except OSError:
                return True


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """One program at a time."""
    with open(path, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Server:
    """A private server, on a unix socket unless `listen` is an address (`http://127.0.0.1:18890`). `url` is where."""

    def __init__(self, home: str | None = None, *options: str, listen: str | None = None,
                 env: dict[str, str] | None = None, users: _Users | None = None) -> None:
        self._users, self._owner = users, os.getpid()
        self._temporary = None if home else tempfile.mkdtemp(prefix="sgl-", dir="/tmp")
        self.home = home or str(self._temporary)
        if len(self.home) > HOME_MAX:
            raise SandglassError(f"home: {self.home!r} is longer than {HOME_MAX} bytes, too long for unix sockets")
        os.makedirs(self.home, exist_ok=True)
        if self._temporary:
            os.chmod(self.home, 0o755)  # the server's unprivileged roles must reach it
        self.socket = os.path.join(self.home, "local.sock")
        self.url = listen or "unix:" + self.socket
        where = parse_url(self.url)
        address = self.url if where.path else f"{'127.0.0.1' if where.host == 'localhost' else where.host}:{where.port}"
        self.log = os.path.join(self.home, "server.log")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        name = f"sgl-{os.getpid()}-{os.path.basename(self.home)[-12:]}"
        command = [find_binary(), "serve", "--listen", address, "--home", self.home, "--cgroup-name", name,
                   "--shutdown-kill=true", *options]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("SANDGLASS_")}
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(["/bin/sh", "-c", WATCH, "sandglass-local", users.path if users else "", *command],
                                             stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                                             env={**clean, **(env or {})})
        atexit.register(self.stop)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float = START_SECONDS) -> None:
        """Until it answers."""
        end = time.monotonic() + seconds
        with Sandglass(self.url, retries=0, timeout=5) as client:
            while True:
                if self._process.poll() is not None:
                    raise SandglassError(f"the server ended with {self._process.returncode}: {self.log_tail()}")
                try:
                    client.request("GET", "/ready")
                    return
                except SandglassError as e:
                    if time.monotonic() > end:
                        self.stop()
                        raise SandglassError(f"the server did not come up within {seconds} s: {e}") from e
                time.sleep(0.02)

    def log_tail(self, lines: int = 20) -> str:
        try:
            return "\n".join(pathlib.Path(self.log).read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def stop(self) -> None:
        """Ends the server and its boxes; one that others use, too, as soon as they have ended."""
        atexit.unregister(self.stop)
        if os.getpid() != self._owner:  # a fork of us: it is not its to end
            return
        others = self._users is not None and self._users.leave()
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        if others:
            return
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(OSError):
            os.unlink(self.socket)
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)


_started: Server | None = None
_users: _Users | None = None
_lock = threading.Lock()


def _home() -> str:
    """$SANDGLASS_LOCAL_HOME, else where such things are kept. Root's server has roles without rights: not in /root."""
    named = os.environ.get("SANDGLASS_LOCAL_HOME")
    if named:
        return named
    if os.geteuid() == 0:
        return "/var/lib/sandglass-local"
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    home = os.path.join(base, "sandglass-local")
    return home if len(home) <= HOME_MAX else f"/tmp/sandglass-local-{os.getuid()}"


def _answers(url: str) -> bool:
    """Whether a server of ours is there, not one of others."""
    try:
        with Sandglass(url, retries=0, timeout=2) as client:
            answer = client.request("GET", "/health")
    except SandglassError:
        return False
    return isinstance(answer, dict) and answer.get("status") == "healthy" and "version" in answer


def local_url(*options: str) -> str:
    """Where a server of this machine is: the one that $SANDGLASS_URL names, the one at the default address, or a private one,
    which is started if it does not run and stopped when the last program ends that uses it. What it recorded stays in its
    home."""
    global _started, _users
    named = os.environ.get("SANDGLASS_URL")
    if named:
        return named
    with _lock:
        if _started is not None and _started.alive:
            return _started.url
        if not options and _answers("http://127.0.0.1:8080"):
            return "http://127.0.0.1:8080"
        home = _home()
        os.makedirs(home, exist_ok=True)
        other = "unix:" + os.path.join(home, "local.sock")
        with _alone(os.path.join(home, "start")):
            if _users is None or _users.path != os.path.join(home, "users"):
                _users = _Users(home)
            if os.path.exists(other[5:]) and _answers(other):
                return other
            _started = Server(home, *options, users=_users)
            _started.wait()
        return _started.url


def started(url: str) -> Server | None:
    """The server that local_url() started, if that is it."""
    return _started if _started is not None and _started.url == url else None


class _Private(Sandglass):
    """A client whose server ends with it."""

    def __init__(self, server: Server, **more: Any) -> None:
        super().__init__(server.url, **more)
        self.server = server

    def close(self) -> None:
        super().close()
        self.server.stop()


class _AsyncPrivate(AsyncSandglass):
    """The same for asyncio."""

    def __init__(self, server: Server, **more: Any) -> None:
        super().__init__(server.url, **more)
        self.server = server

    async def close(self) -> None:
        await super().close()
        await asyncio.get_running_loop().run_in_executor(None, self.server.stop)


def local(*options: str, private: bool = False, home: str | None = None, **more: Any) -> Sandglass:
    """A client of a server of this machine, which is started if none runs: see local_url(). options: flags for the server,
    such as "--pool-size", "8".

    private  a server for this client alone, in `home` or a temporary directory; it ends with close()
    """
    if private or home:
        server = Server(home, *options)
        server.wait()
        return _Private(server, **more)
    return Sandglass(local_url(*options), **more)


def alocal(*options: str, private: bool = False, home: str | None = None, **more: Any) -> AsyncSandglass:
    """The same for asyncio. It blocks while a server starts."""
    if private or home:
        server = Server(home, *options)
        server.wait()
        return _AsyncPrivate(server, **more)
    return AsyncSandglass(local_url(*options), **more)
