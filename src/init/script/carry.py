"""The variables of a Python interpreter in a file, and back into another one: what states and forks of a box carry.

    save(space, path)   the file: a line of JSON, then a pickle of what can be taken along
    load(space, path)   into the namespace of another interpreter of the same version

Taken along: every variable that can be pickled; modules by name; functions, lambdas, closures and classes of cells by
their code, with what they refer to; the directory, sys.path, changed environment variables, the text of cells (for
tracebacks). Not: what lives outside of the interpreter or is a place in running code (open files, sockets, threads,
locks, devices, processes, generators), and what modules keep for themselves. Each variable left out is named, with why.
"""
import importlib
import io
import json
import linecache
import marshal
import os
import pickle
import sys
import types

MAX = 24 << 20  # bytes of one interpreter's variables
TEXTS_MAX = 1 << 20  # of cells
LOST_MAX = 200
NOT_OURS = {"In", "Out", "exit", "quit", "open", "get_ipython"}
started = None  # the environment as the interpreter found it
helpers = set()  # threads of the interpreter's own
stale = None  # of a kernel: tells whether packages have changed since it began


def begin():
    """A new interpreter: from here on its changes count."""
    global started
    started = dict(os.environ)
    helpers.update(threads())


class TooLarge(Exception):
    pass


class Sink:
    """Counts what is written, keeps it if asked to, and has a limit."""

    def __init__(self, keep, limit):
        self.parts, self.size, self.keep, self.limit = [], 0, keep, limit

    def write(self, data):
        self.size += len(memoryview(data).cast("B")) if not isinstance(data, bytes) else len(data)
        if self.size > self.limit:
            raise TooLarge(f"larger than {self.limit >> 20} MiB")
        if self.keep:
            self.parts.append(bytes(data))
        return len(data)


# --- writing ---

def found(value, module, name):
    """Can another interpreter find it by its name?"""
    place = sys.modules.get(module)
    if module == "__main__" or place is None:
        return False
    try:
        for part in name.split("."):
            place = getattr(place, part)
    except AttributeError:
        return False
    return place is value


class Saver(pickle.Pickler):
    def __init__(self, file, space):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.space = space

    def reducer_override(self, value):
        kind = type(value)
        if kind is types.FunctionType:
            return self.function(value)
        if isinstance(value, type):
            return self.klass(value)
        return self.other(kind, value)

    def other(self, kind, value):
        if kind is types.ModuleType or isinstance(value, types.ModuleType):
            if value.__name__ == "__main__":
                return make_main, ()
            return importlib.import_module, (value.__name__,)
        if kind is types.CodeType:
            return marshal.loads, (marshal.dumps(value),)
        if kind is types.CellType:
            return make_cell, cell_content(value)
        if kind is property:
            return property, (value.fget, value.fset, value.fdel, value.__doc__)
        if kind in (staticmethod, classmethod):
            return kind, (value.__func__,)
        if kind is types.MappingProxyType:
            return make_proxy, (dict(value),)
        if kind.__name__ == "_lru_cache_wrapper" and not found(value, value.__module__, value.__qualname__):
            return make_cached, (value.__wrapped__, value.cache_parameters())
        if kind.__module__ == "dataclasses":
            for name in ("MISSING", "KW_ONLY", "_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR"):
                if value is getattr(sys.modules["dataclasses"], name, None):
                    return take_name, ("dataclasses", name)
        return NotImplemented

    def function(self, f):
        if found(f, f.__module__, f.__qualname__):
            return NotImplemented
        module = sys.modules.get(f.__module__)
        if f.__globals__ is self.space:
            home = "__main__"
        elif module is not None and module.__dict__ is f.__globals__:
            home = f.__module__
        else:  # a namespace of its own: what the function itself asks of it
            home = None
        cells = [cell_content(c) for c in f.__closure__ or ()]
        state = (f.__defaults__, f.__kwdefaults__, f.__dict__, f.__annotations__, cells,
                 (f.__name__, f.__qualname__, f.__module__, f.__doc__),
                 None if home else {n: f.__globals__[n] for n in names_in(f.__code__) if n in f.__globals__})
        return make_function, (marshal.dumps(f.__code__), home, len(cells)), state, None, None, fill_function

    def klass(self, c):
        if c.__module__ == "builtins" or found(c, c.__module__, c.__qualname__):
            return NotImplemented
        enum = sys.modules.get("enum")
        own = dict(c.__dict__)
        for name in ("__dict__", "__weakref__", "_abc_impl"):
            own.pop(name, None)
        if enum and isinstance(c, enum.EnumMeta):
            members = {n: m._value_ for n, m in c.__members__.items()}
            own = {n: v for n, v in own.items() if isinstance(v, (types.FunctionType, property, classmethod, staticmethod))
                   and n not in ("__new__", "_generate_next_value_", "__format__", "__reduce_ex__")}
            return make_enum, (type(c), c.__name__, c.__bases__, members, c.__module__), own, None, None, fill_class
        head = {"__module__": own.pop("__module__", "__main__"), "__qualname__": c.__qualname__}
        slots = own.pop("__slots__", None)
        if slots is not None:
            head["__slots__"] = slots
            for name in [slots] if isinstance(slots, str) else slots:
                own.pop(name, None)
        own = {n: v for n, v in own.items() if not isinstance(v, (types.GetSetDescriptorType, types.MemberDescriptorType))}
        return make_class, (type(c), c.__name__, c.__bases__, head), own, None, None, fill_class


def names_in(code):
    names = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= names_in(inner)
    return names


def cell_content(cell):
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def dump(values, space, keep, limit):
    out = Sink(keep, limit)
    Saver(out, space).dump(values)
    return out


def choose(values, space, lost):
    """Those that go, singly tried; the smallest first, if not all have room."""
    sizes = {}
    for name, value in values.items():
        try:
            sizes[name] = dump(value, space, False, MAX).size
        except KeyboardInterrupt:
            raise
        except BaseException as e:
            lost.append(f"{name}: {reason(e)}")
    total, chosen = 0, {}
    for name in sorted(sizes, key=sizes.get):
        if total + sizes[name] > MAX - 65536:
            lost.append(f"{name}: no room, all variables together may take {MAX >> 20} MiB")
            continue
        total += sizes[name]
        chosen[name] = values[name]
    return {name: values[name] for name in values if name in chosen}


def reason(e):
    return (str(e) or type(e).__name__).splitlines()[0][:200]


def ours(space, hidden):
    names = {}
    for name, value in space.items():
        if name.startswith("__") and name.endswith("__") or name in NOT_OURS and name in hidden:
            continue
        if name in hidden and hidden[name] is value or hidden and name.strip("_i0123456789") == "":
            continue
        names[name] = value
    return names


def texts():
    """Of cells: entries of linecache that no file stands behind."""
    kept, size = {}, 0
    for name, entry in reversed(list(linecache.cache.items())):
        if len(entry) == 4 and entry[1] is None:
            size += entry[0]
            if size > TEXTS_MAX:
                break
            kept[name] = "".join(entry[2])
    return kept


def environment():
    if started is None:
        return {}, []
    now = dict(os.environ)
    return {n: v for n, v in now.items() if started.get(n) != v}, [n for n in started if n not in now]


def threads():
    """Those that run, beside the first."""
    module = sys.modules.get("threading")
    return [t for t in module.enumerate() if t is not module.main_thread()] if module else []


def save(space, path, hidden=(), count=0):
    """Code that runs in a thread is lost whether a variable names the thread or not."""
    values = ours(space, hidden)
    lost = [f"thread {t.name}: it runs in this process only" for t in threads() if t not in helpers]
    try:
        out = dump(values, space, True, MAX)
    except KeyboardInterrupt:
        raise
    except BaseException:
        values = choose(values, space, lost)
        out = dump(values, space, True, MAX)
    set_, unset = environment()
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""
    head = {"lost": lost[:LOST_MAX], "python": list(sys.version_info[:2]), "count": count, "cwd": cwd, "path": sys.path,
            "set": set_, "unset": unset, "texts": texts()}
    with open(path, "wb") as f:
        f.write(json.dumps(head).encode() + b"\n")
        for part in out.parts:
            f.write(part)
    return head["lost"]


# --- reading ---

target = {}  # the namespace that is being filled


class Loader(pickle.Unpickler):
    def __init__(self, file):
        super().__init__(file)
        self.missing = []

    def find_class(self, module, name):
        if module == "__main__":  # saved by name, and so not there yet
            if name in target:
                return target[name]
            self.missing.append(name)
            return type(name, (), {})
        return super().find_class(module, name)


def make_main():
    return sys.modules["__main__"]


def take_name(module, name):
    return getattr(importlib.import_module(module), name)


def make_cached(function, parameters):
    import functools

    return functools.lru_cache(**parameters)(function)


def make_cell(*content):
    return types.CellType(*content)


def make_proxy(value):
    return types.MappingProxyType(value)


def make_function(code, home, cells):
    space = {} if home is None else target if home == "__main__" else importlib.import_module(home).__dict__
    return types.FunctionType(marshal.loads(code), space, None, None, tuple(types.CellType() for _ in range(cells)))


def fill_function(f, state):
    f.__defaults__, f.__kwdefaults__, own, f.__annotations__, cells, names, asked = state
    f.__name__, f.__qualname__, f.__module__, f.__doc__ = names
    f.__dict__.update(own)
    f.__globals__.update(asked or {})
    for cell, content in zip(f.__closure__ or (), cells):
        if content:
            cell.cell_contents = content[0]


def make_class(meta, name, bases, head):
    return types.new_class(name, bases, {"metaclass": meta}, lambda space: space.update(head))


def make_enum(meta, name, bases, members, module):
    space = meta.__prepare__(name, bases)
    for member, value in members.items():
        space[member] = value
    space["__module__"] = module
    return meta(name, bases, space)


def fill_class(c, own):
    for name, value in own.items():
        try:
            setattr(c, name, value)
        except (AttributeError, TypeError):
            pass
    if hasattr(c, "__abstractmethods__"):
        import abc

        abc.update_abstractmethods(c)


def load(space, path):
    """What could not be taken along, as save() and this found it; and how many cells there were."""
    global target
    with open(path, "rb") as f:
        head = json.loads(f.readline())
        data = f.read()
    lost = list(head["lost"])
    for name, text in head["texts"].items():
        linecache.cache.setdefault(name, (len(text), None, text.splitlines(True), name))
    sys.path[:] = head["path"] + [p for p in sys.path if p not in head["path"]]
    os.environ.update(head["set"])
    for name in head["unset"]:
        os.environ.pop(name, None)
    try:
        os.chdir(head["cwd"])
    except OSError:
        pass
    target = space
    if head["python"] != list(sys.version_info[:2]):
        return lost + ["all variables: they are of Python %d.%d" % tuple(head["python"])], head["count"]
    loader = Loader(io.BytesIO(data))
    try:
        space.update(loader.load())
    except KeyboardInterrupt:
        raise
    except BaseException as e:
        lost.append(f"all variables: {type(e).__name__}: {reason(e)}")
    lost += [f"{name}: what it stood for was known by its name only" for name in loader.missing]
    return lost, head["count"]


# --- for a Jupyter kernel, in a cell that nobody sees ---

def kernel(op, path):
    shell = sys.modules["IPython"].get_ipython()
    if op == "save":
        save(shell.user_ns, path, shell.user_ns_hidden, shell.execution_count)
        return
    lost, count = load(shell.user_ns, path)
    shell.execution_count = max(count, shell.execution_count)
    with open(path, "w") as f:
        f.write(json.dumps({"lost": lost[:LOST_MAX]}) + "\n")
