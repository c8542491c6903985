"""A build backend (PEP 517, PEP 660) of one file and without dependencies, so that pip needs no package index: the packages
that pyproject.toml names become a wheel as they are."""

import base64
import hashlib
import io
import os
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path.cwd()


def _project():
    """What we need of pyproject.toml. Python 3.9 and 3.10 have no reader of TOML, and our files are simple."""
    found, section = {}, ""
    for line in (HERE / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        head = re.fullmatch(r"\[(.+)\]", line.strip())
        pair = re.fullmatch(r"([\w-]+)\s*=\s*(.+)", line.strip())
        if head:
            section = head[1]
        elif pair:
            strings = re.findall(r'"((?:[^"\\]|\\.)*)"', pair[2])
            found[section, pair[1]] = strings if pair[2].startswith("[") else strings[0] if strings else pair[2]
    return found


def _names():
    p = _project()
    name, version = p["project", "name"], p["project", "version"]
    return p, name, version, f"{name.replace('-', '_')}-{version}"


def _metadata():
    p, name, version, _ = _names()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {p['project', 'description']}",
             f"Requires-Python: {p['project', 'requires-python']}"]
    lines += [f"Requires-Dist: {d}" for d in p.get(("project", "dependencies"), [])]
    readme = HERE / p.get(("project", "readme"), "README.md")
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", text]).encode()


def _entry_points():
    rows = [f"{k} = {v}" for (section, k), v in _project().items() if section == "project.scripts"]
    return ("[console_scripts]\n" + "\n".join(rows) + "\n").encode() if rows else b""


def _sources():
    for package in _project()["tool.wheelwright", "packages"]:
        for path in sorted((HERE / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                yield path.relative_to(HERE).as_posix(), path.read_bytes()


def _info():
    yield "METADATA", _metadata()
    yield "WHEEL", b"Wheel-Version: 1.0\nGenerator: wheelwright\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if _entry_points():
        yield "entry_points.txt", _entry_points()


def _wheel(directory, files):
    _, _, _, base = _names()
    name, record = f"{base}-py3-none-any.whl", []
    with zipfile.ZipFile(os.path.join(directory, name), "w", zipfile.ZIP_DEFLATED) as z:

        def add(path, data):
            z.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}")

        for path, data in files:
            add(path, data)
        for path, data in _info():
            add(f"{base}.dist-info/{path}", data)
        record.append(f"{base}.dist-info/RECORD,,")
        z.writestr(zipfile.ZipInfo(f"{base}.dist-info/RECORD", (2020, 1, 1, 0, 0, 0)), "\n".join(record) + "\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, _sources())


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _, _, _, base = _names()
    return _wheel(wheel_directory, [(f"__editable__.{base}.pth", f"{HERE}\n".encode())])


def build_sdist(sdist_directory, config_settings=None):
    _, _, _, base = _names()
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz", format=tarfile.PAX_FORMAT) as tar:

        def add(path, data):
            member = tarfile.TarInfo(f"{base}/{path}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))

        for name in ("pyproject.toml", "wheelwright.py", "README.md"):
            if (HERE / name).exists():
                add(name, (HERE / name).read_bytes())
        for path, data in _sources():
            add(path, data)
        add("PKG-INFO", _metadata())
    return base + ".tar.gz"
