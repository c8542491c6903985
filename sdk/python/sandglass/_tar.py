"""Directories as tars. What comes from a box is not trusted: nothing is written outside of the directory asked for."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from typing import IO

from .errors import SandglassError

PIECE = 256 * 1024


def pack(directory: str | os.PathLike[str]) -> Iterator[bytes]:
    """A directory's content as a tar."""
    with tempfile.TemporaryFile() as spool:
        with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for name in sorted(os.listdir(directory)):
                tar.add(os.path.join(directory, name), arcname=name)
        spool.seek(0)
        yield from pieces(spool)


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    while True:
        piece = file.read(PIECE)
        if not piece:
            return
        yield piece


def _inside(root: str, path: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def unpack(spool: IO[bytes], directory: str | os.PathLike[str]) -> int:
    """Unpacks files, directories and links that stay inside; anything else is refused. Returns the number of files."""
    root, count = os.path.realpath(directory), 0
    os.makedirs(root, exist_ok=True)
    with tarfile.open(fileobj=spool, mode="r:") as tar:
        for m in tar:
            path = os.path.normpath(os.path.join(root, m.name))
            parent = os.path.realpath(os.path.dirname(path))
            if path == root:
                continue
            if m.name.startswith("/") or not _inside(root, path) or not _inside(root, parent):
                raise SandglassError(f"{m.name!r} would be outside of {root}: refused")
            path = os.path.join(parent, os.path.basename(path))
            if m.isdir():
                if os.path.islink(path):
                    raise SandglassError(f"{m.name!r} is a link already: refused")
                os.makedirs(path, exist_ok=True)
                continue
            os.makedirs(parent, exist_ok=True)
            if os.path.lexists(path):
                if os.path.isdir(path) and not os.path.islink(path):
                    raise SandglassError(f"{m.name!r} is a directory already: refused")
                os.unlink(path)
            if m.isfile():
                source = tar.extractfile(m)
                with open(path, "wb") as out:
                    if source:
                        shutil.copyfileobj(source, out)
                os.chmod(path, m.mode & 0o777)
                count += 1
            elif m.issym():
                target = os.path.realpath(os.path.join(parent, m.linkname))
                if not _inside(root, target):
                    raise SandglassError(f"{m.name!r} links to {m.linkname!r}, outside of {root}: refused")
                os.symlink(m.linkname, path)
            elif m.islnk():
                source_path = os.path.realpath(os.path.join(root, m.linkname))
                if not _inside(root, source_path):
                    raise SandglassError(f"{m.name!r} links to {m.linkname!r}, outside of {root}: refused")
                os.link(source_path, path)
                count += 1
            else:
                raise SandglassError(f"{m.name!r} is neither file, directory nor link: refused")
    return count
