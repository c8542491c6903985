"""Python in a box: contexts, and the server that forks them.

    python.py serve WHAT MODULES...    listens on descriptor 0, imports MODULES, forks a context or a kernel per connection
    python.py context MODULES...       one context, without a server: control on descriptor 3
    python.py kernel FILE MODULES...   one kernel, without a server: FILE says where it listens

A context reads requests from its control descriptor and answers each once: a line with the number of bytes, then so
many bytes of JSON, both ways. What code prints goes to descriptors 1 and 2 as it is.
"""
import os
import sys


# --- a context ---

class Context:
    def __init__(self, control, forked, stamps):
        import builtins
        import types

        self.control = control
        self.pid = os.getpid()
        self.stamps = [Stamps(package_places(), 0 if forked else BEGUN), *stamps]
        self.main = types.ModuleType("__main__")
        self.main.__builtins__ = builtins
        self.space = self.main.__dict__
        sys.modules["__main__"] = self.main
        self.count = 0
        self.loop = None
        self.busy = False
        sys.argv = [""]
        if "" not in sys.path:
            sys.path[0:1] = [""]
        add_user_site(forked)
        os.environ.setdefault("MPLBACKEND", "agg")
        self.environment = dict(os.environ)

    # The protocol

    def read(self):
        size = self.control.readline()
        if not size:
            os._exit(0)
        return json.loads(self.control.read(int(size)))

    def answer(self, reply):
        text = json.dumps(reply, ensure_ascii=True).encode()
        self.control.write(b"%d\n%s" % (len(text), text))
        self.control.flush()

    def serve(self):
        signal.signal(signal.SIGINT, self.on_interrupt)
        while True:
            request = self.read()
            if request.get("unused") and any(s.stale() for s in self.stamps):
                self.answer({"status": "stale"})
                continue
            try:
                reply = getattr(self, "do_" + request["op"])(request)
            except BaseException as e:  # our own mistake must not end the context
                reply = {"status": "error", "ename": type(e).__name__, "evalue": str(e), "traceback": []}
            if os.getpid() != self.pid:  # code has forked, and this is not the one that was asked
                os._exit(reply.get("exit_code", 1))
            self.answer(reply)

    def on_interrupt(self, number, frame):
        if self.busy:
            raise KeyboardInterrupt

    # Running

    def compile(self, code, name):
        tree = compile(code, name, "exec", ast.PyCF_ONLY_AST)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(";"):
            last = ast.Expression(tree.body.pop().value)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        parts = [(compile(tree, name, "exec", flags), False)] if tree.body else []
        if last:
            parts.append((compile(last, name, "eval", flags), True))
        return parts

    def step(self, part):
        value = eval(part, self.space)
        if part.co_flags & inspect_CO_COROUTINE:
            import asyncio

            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            value = self.loop.run_until_complete(value)
        return value

    def limit(self, request):
        memory = request.get("memory_bytes")
        if memory:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))

    def unlimit(self, request):
        if request.get("memory_bytes"):
            import resource

            hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
            resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))

    def stdin(self, request):
        text = request.get("stdin")
        fd = os.open("/dev/null", os.O_RDONLY)
        if text is not None:
            os.close(fd)
            fd = os.memfd_create("stdin")
            os.write(fd, text.encode())
            os.lseek(fd, 0, 0)
        os.dup2(fd, 0)
        os.close(fd)
        sys.stdin = open(0, closefd=False)

    def reopen(self):
        for name, fd in (("stdout", 1), ("stderr", 2)):
            if getattr(getattr(sys, name), "closed", True):  # an earlier cell's doing
                setattr(sys, name, open(fd, "w", buffering=1, closefd=False, errors="backslashreplace"))

    def do_warm(self, request):
        """What a first cell would do for the first time is done before there is one."""
        import traceback  # noqa: F401

        self.do_run({"code": "0"})
        self.space.pop("_")
        linecache.cache.pop("<cell 1>")
        self.count = 0
        return {"status": "ok"}

    def do_run(self, request):
        self.count += 1
        code, name = request["code"], f"<cell {self.count}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        reply = {"status": "ok", "exit_code": 0}
        try:
            self.reopen()
            importlib.invalidate_caches()  # what pip has installed meanwhile is found
            self.stdin(request)
            if request.get("cwd"):
                os.chdir(request["cwd"])
                os.environ["PWD"] = self.environment["PWD"] = request["cwd"]
            self.limit(request)
            self.busy = True
            for part, wanted in self.compile(code, name):
                value = self.step(part)
                if wanted and value is not None:
                    self.space["_"] = value
                    reply["result"] = cut(repr(value))
        except SystemExit as e:
            self.busy = False
            reply["exit_code"] = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
            if e.code is not None and not isinstance(e.code, int):
                print(e.code, file=sys.stderr)
            reply["status"] = "error" if reply["exit_code"] else "ok"
        except BaseException as e:
            self.busy = False
            self.fail(e, reply)
        finally:
            self.busy = False
            self.unlimit(request)
        try:
            self.busy = True  # drawing can take long, too
            reply["figures"] = self.figures()
        except BaseException as e:
            self.busy = False
            self.fail(e, reply)
        self.busy = False
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        reply["memory_bytes"] = peak_memory()
        reply["count"] = self.count
        try:
            reply["cwd"] = os.getcwd()
        except OSError:
            pass  # somebody has deleted it
        return reply

    def fail(self, e, reply):
        import traceback

        tb = e.__traceback__
        while tb and tb.tb_frame.f_code.co_filename == __file__:
            tb = tb.tb_next
        lines = traceback.format_exception(type(e), e, tb)
        reply.update(status="interrupted" if isinstance(e, KeyboardInterrupt) else "error", exit_code=1,
                     ename=type(e).__name__, evalue=cut(str(e)), traceback=[cut(line.rstrip("\n")) for line in lines])
        try:
            sys.stderr.write("".join(lines))
        except Exception:
            pass

    def figures(self):
        plt = sys.modules.get("matplotlib.pyplot")
        if not plt:
            return []
        import base64
        import io

        found, size, numbers = [], 0, plt.get_fignums()
        try:
            for i, number in enumerate(numbers):
                out = io.BytesIO()
                try:
                    plt.figure(number).savefig(out, format="png", bbox_inches="tight")
                except Exception as e:
                    print(f"figure {number} cannot be drawn: {e}", file=sys.stderr)
                    continue
                size += out.tell()
                if len(found) == FIGURES_MAX or size > FIGURE_BYTES_MAX:
                    print(f"[{len(numbers) - i} more figures left out]", file=sys.stderr)
                    break
                found.append(base64.b64encode(out.getvalue()).decode())
        finally:
            plt.close("all")
        return found

    # What a fork of the box begins with

    def do_save(self, request):
        carry = carrier()
        carry.started = self.environment
        self.busy = True  # it may be interrupted
        try:
            return {"status": "ok", "lost": carry.save(self.space, request["path"], count=self.count)}
        finally:
            self.busy = False

    def do_load(self, request):
        self.busy = True
        try:
            lost, self.count = carrier().load(self.space, request["path"])
        finally:
            self.busy = False
        return {"status": "ok", "lost": lost}


    # A copy within the box

    def do_branch(self, request):
        """Forks this very process. The copy belongs to nobody here: it waits at a socket for whoever will drive it."""
        import socket

        listener = socket.socket(socket.AF_UNIX)
        listener.bind(request["path"])
        listener.listen(1)
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            try:
                if os.fork() == 0:
                    self.go_on_elsewhere(listener, request["path"])
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        listener.close()
        return {"status": "ok"}

    def do_where(self, request):
        return {"status": "ok", "result": os.getcwd()}

    def go_on_elsewhere(self, listener, path):
        import socket

        os.setsid()
        with open(os.devnull, "r+b", buffering=0) as nothing:
            for fd in (0, 1, 2, 3):  # whoever reads the original's output must not wait for this one
                os.dup2(nothing.fileno(), fd)
        listener.settimeout(30)
        connection, _ = listener.accept()
        os.unlink(path)
        _, fds, _, _ = socket.recv_fds(connection, 1 << 16, 4)
        for fd, to in zip(fds, (0, 1, 2, 3)):
            os.dup2(fd, to)
            os.close(fd)
        listener.close()
        connection.sendall(b"pid %d\n" % os.getpid())
        reseed()
        self.control, self.loop, self.pid = Pipe(3), None, os.getpid()
        self.connection = connection  # open as long as this process lives
        self.serve()


class Stamps:
    """What files and directories were, to tell later whether pip has changed one of them since, or while they were read."""

    def __init__(self, places, begun):
        self.states = {place: self.state(place) for place in places}
        self.late = begun and any(state and state[0] >= begun for state in self.states.values())

    def state(self, place):
        try:
            s = os.stat(place)
            return s.st_ctime_ns, s.st_ino, s.st_size
        except OSError:
            return None

    def stale(self):
        return self.late or any(self.state(place) != state for place, state in self.states.items())


def now():
    """As files have it, whatever the box's clock says."""
    fd = os.memfd_create("now")
    try:
        return os.fstat(fd).st_ctime_ns
    finally:
        os.close(fd)


def package_places():
    import site

    return [site.getusersitepackages()] + site.getsitepackages()


def imported_files():
    """Of all that does not come with Python."""
    files = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
    return [f for name, f in files if f and "." not in name and not f.startswith("/usr/lib/python3.")]


def reseed():
    """After a fork: random numbers of its own."""
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def carrier():
    """carry.py, which lies beside this file; pickles name it."""
    name = "_sandglass_carry"
    if name not in sys.modules:
        from importlib import util

        spec = util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), "carry.py"))
        sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


inspect_CO_COROUTINE = 0x80
FIGURES_MAX, FIGURE_BYTES_MAX, TEXT_END = 16, 16 << 20, 64 << 10


def cut(text):
    """Both ends of a long text, as of a long output."""
    more = len(text) - 2 * TEXT_END
    return text if more <= 0 else f"{text[:TEXT_END]}\n[... {more} characters omitted ...]\n{text[-TEXT_END:]}"


def add_user_site(forked=False):
    """Where pip installs; Python leaves it out if it is not there yet when it starts."""
    import site

    place = site.getusersitepackages()
    if forked or place not in sys.path:
        site.addsitedir(place)


def peak_memory():
    try:
        with open("/proc/self/status") as f:
            for line in f:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def preload(modules, backend):
    """Imports what can be, and says what these modules were."""
    os.environ.setdefault("MPLBACKEND", backend)
    for name in modules + (["matplotlib.pyplot"] if "matplotlib" in modules else []):
        try:
            importlib.import_module(name)
        except Exception as e:
            sys.stderr.write(f"{name} is not preloaded: {e}\n")
    return Stamps(imported_files(), BEGUN)


def run_context(fd, forked, stamps):
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    Context(Pipe(fd), forked, stamps).serve()


class Pipe:
    """Both ends of the control socket; io's own classes will not read and write one that cannot seek."""

    def __init__(self, fd):
        self.input = os.fdopen(fd, "rb", closefd=False)
        self.output = os.fdopen(fd, "wb", closefd=False)
        self.readline, self.read = self.input.readline, self.input.read
        self.write, self.flush = self.output.write, self.output.flush


# --- a kernel ---

def run_kernel(file, forked=False):
    if sys.path[0] == os.path.dirname(__file__):
        del sys.path[0]  # ours; the app puts the directory of the box's user there
    begun = now() if forked else BEGUN
    add_user_site(forked)
    from ipykernel.kernelapp import IPKernelApp

    sys.argv = ["ipykernel_launcher.py", "-f", file]
    app = IPKernelApp.instance()
    app.initialize(sys.argv[1:] + KERNEL_OPTIONS)
    carrier().begin()
    carrier().stale = Stamps(imported_files() + package_places() + settings(), begun).stale
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline:  # it was imported before there was a shell to attach itself to
        inline._enable_matplotlib_integration()
    app.start()


def settings():
    """What the user has told IPython, and where there could be more of it."""
    import glob

    top = os.path.expanduser("~/.ipython/profile_default")
    return [f"{top}/startup", f"{top}/ipython_config.py", f"{top}/ipython_kernel_config.py", *glob.glob(f"{top}/startup/*")]


INLINE = "module://matplotlib_inline.backend_inline"
KERNEL_OPTIONS = ["--HistoryManager.hist_file=:memory:"]
KERNEL_MODULES = ("ipykernel.kernelapp ipykernel.ipkernel ipykernel.zmqshell ipykernel.iostream ipykernel.heartbeat "
                  "ipykernel.parentpoller ipykernel.debugger ipykernel.compiler ipykernel.comm IPython.core.magics "
                  "IPython.core.completer IPython.core.completerlib IPython.core.usage IPython.core.payloadpage "
                  "matplotlib_inline.config jedi zmq.eventloop.zmqstream "
                  "tornado.platform.asyncio asyncio.base_events nest_asyncio pydev_ipython sqlite3 "
                  "jupyter_client.session psutil").split()


# --- the server ---

class Server:
    def __init__(self, what, modules):
        self.what = what
        self.listener = socket.socket(fileno=0)
        self.children = {}  # pid -> connection
        self.stamps = preload(modules, "agg" if what == "context" else INLINE)
        carrier()

    def run(self):
        gc.collect()
        gc.freeze()  # a collection in a child would touch, and so copy, every page
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        os.set_blocking(reader, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(reader, select.POLLIN)
        self.poll, self.fds, self.pipe = poll, {}, (reader, writer)
        while True:
            for fd, _ in poll.poll():
                if fd == 0:
                    self.accept()
                elif fd == reader:
                    with contextlib.suppress(OSError):
                        os.read(reader, 4096)
                    self.reap()
                else:
                    self.hang_up(fd)

    def accept(self):
        connection, _ = self.listener.accept()
        if self.stamps.stale():
            os._exit(0)  # whoever asked starts a kernel or a context by itself; the next one finds a fresh server
        try:
            text, fds, _, _ = socket.recv_fds(connection, 1 << 16, 4)
            request = json.loads(text)
        except (OSError, ValueError):
            connection.close()
            return
        try:
            pid = os.fork()
        except OSError:
            pid = -1
        if pid == 0:
            self.child(connection, request, fds)
        for fd in fds:
            os.close(fd)
        if pid < 0:
            connection.close()
            return
        self.children[pid] = connection
        self.fds[connection.fileno()] = pid
        self.poll.register(connection, select.POLLIN)
        with contextlib.suppress(OSError):
            connection.sendall(b"pid %d\n" % pid)

    def child(self, connection, request, fds):
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            control = os.dup(fds[3]) if len(fds) > 3 else -1
            for i in range(3):
                os.dup2(fds[i], i)
            if control >= 0:
                os.dup2(control, 3)
            os.closerange(4, 64)
            os.environ.clear()
            os.environ.update(request["env"])
            os.chdir(request.get("cwd") or "/")
            reseed()
            if request["what"] == "kernel":
                run_kernel(request["connection_file"], True)
            else:
                run_context(3, True, [self.stamps])
        except SystemExit:
            pass
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if pid <= 0:
                return
            connection = self.children.pop(pid, None)
            if connection:
                with contextlib.suppress(OSError):
                    connection.sendall(b"exit %d\n" % status)
                self.forget(connection)

    def forget(self, connection):
        self.fds.pop(connection.fileno(), None)
        with contextlib.suppress(KeyError, OSError):
            self.poll.unregister(connection)
        connection.close()

    def hang_up(self, fd):
        pid = self.fds.get(fd)
        if pid is None:
            return
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        self.forget(self.children.pop(pid))


import _ast as ast  # without its part in Python, which takes longer to import than all the rest
import importlib
import json
import linecache
import signal

if __name__ == "__main__":
    # Python has read the directories of packages before it came here, and after its driver made the pipe for its output.
    BEGUN = now() if sys.argv[1] == "serve" else os.fstat(1).st_ctime_ns
    if sys.argv[1] == "serve":
        import contextlib
        import gc
        import select
        import socket

        Server(sys.argv[2], (KERNEL_MODULES if sys.argv[2] == "kernel" else []) + sys.argv[3:]).run()
    elif sys.argv[1] == "kernel":
        preload(sys.argv[3:], INLINE)
        run_kernel(sys.argv[2])
    else:
        run_context(3, False, [preload(sys.argv[2:], "agg")] if sys.argv[2:] else [])
