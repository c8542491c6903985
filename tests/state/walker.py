#!/usr/bin/env python3
"""Works out the state root of a tree of files, independently of the program.

It knows nothing of layers: it compares the files as they are with the image's files and writes down the difference in
the form that src/image/object.h describes.

  walker.py root --digest D --root DIR... [--usr DIR...] --state DIR [--base N] [--trust-mtime] [--dump]

--root, --usr: the image's directories, topmost first.  --state: the root directory as the box sees it (mounted, or
/proc/PID/root).  --base: first host id of the box, if the files are seen through its mapping.  --trust-mtime: files of
the same size and time are taken as equal (for images as large as a host's /usr).
"""
import argparse
import hashlib
import os
import stat
import sys

MOUNTS = {b"proc", b"sys", b"dev", b"run"}  # not files of the box's disk


def sha(data):
    return hashlib.sha256(data).hexdigest()


def sha_file(path):
    h = hashlib.sha256()
    with open(path, "rb", buffering=0) as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()


def kind(st):
    m = st.st_mode
    for test, letter in ((stat.S_ISREG, "f"), (stat.S_ISDIR, "d"), (stat.S_ISLNK, "l"), (stat.S_ISFIFO, "p"), (stat.S_ISSOCK, "s"),
                         (stat.S_ISBLK, "b")):
        if test(m):
            return letter
    return "w" if st.st_rdev == 0 else "c"


def xattrs(path, letter):
    if letter not in "fd":
        return "-"
    text = b""
    for name in sorted(os.fsencode(n) for n in os.listxattr(path, follow_symlinks=False)):
        if name.startswith(b"user.") or name in (b"system.posix_acl_access", b"system.posix_acl_default"):
            value = os.getxattr(path, name, follow_symlinks=False)
            text += b"%d:%s%d:%s" % (len(name), name, len(value), value)
    return sha(text) if text else "-"


class Image:
    """A pile of directories, merged: the first one that has a name decides; directories of one name are one."""

    def __init__(self, dirs):
        self.dirs = [os.fsencode(d) for d in dirs]

    def find(self, rel):
        """The real paths of rel, topmost first: one for a file, several for a directory."""
        found = []
        parts = [p for p in rel.split(b"/") if p]
        piles = list(self.dirs)
        for part in parts:
            found = []
            for d in piles:
                p = d + b"/" + part
                try:
                    st = os.lstat(p)
                except (FileNotFoundError, NotADirectoryError):
                    continue
                if stat.S_ISDIR(st.st_mode):
                    found.append(p)
                    continue
                if not found:
                    if kind(st) == "w":
                        return []
                    found = [p]
                break
            piles = found
        return piles

    def names(self, rel):
        out = set()
        for d in self.find(rel):
            if stat.S_ISDIR(os.lstat(d).st_mode):
                out |= set(os.listdir(d))
        return {n for n in out if self.find(rel + b"/" + n)}


class Walk:
    def __init__(self, args):
        self.root, self.usr = Image(args.root), Image(args.usr) if args.usr else None
        self.state = os.fsencode(args.state)
        self.base, self.trust, self.dump = args.base, args.trust_mtime, args.dump
        self.inodes = {}
        self.objects = {}

    def owner(self, i):
        return i - self.base if i >= self.base else 65534

    def image_of(self, rel):
        """(image, path in it) for a path of the box; tmp is no part of the image."""
        top = rel.split(b"/", 1)[0]
        if top == b"tmp":
            return None, b""
        if top == b"usr" and self.usr:
            return self.usr, rel[4:]
        return self.root, rel

    def attrs(self, path, st, shift):
        letter = kind(st)
        uid, gid = (self.owner(st.st_uid), self.owner(st.st_gid)) if shift else (st.st_uid, st.st_gid)
        size = st.st_size if letter in "fl" else 0
        device = "%d:%d" % (os.major(st.st_rdev), os.minor(st.st_rdev)) if letter in "cb" else "-"
        return [letter, "%o" % (st.st_mode & 0o7777), uid, gid, size, device, xattrs(path, letter)]

    def same_content(self, a, sa, b, sb):
        if kind(sa) == "l":
            return os.readlink(a) == os.readlink(b)
        if kind(sa) != "f":
            return True
        if self.trust and sa.st_mtime_ns == sb.st_mtime_ns:
            return True
        return sha_file(a) == sha_file(b)

    def put(self, data):
        h = sha(data)
        self.objects[h] = data
        return h

    def entry(self, rel, name):
        """The line of one name of the box, or None if it is as in the image."""
        path = self.state + b"/" + rel
        image, inner = self.image_of(rel)
        there = image.find(inner) if image else []
        try:
            st = os.lstat(path)
        except FileNotFoundError:
            return b"w 0 0 0 0 - - - %d:%s\n" % (len(name), name) if there else None
        a = self.attrs(path, st, True)
        baseline = None
        if rel == b"tmp":
            baseline = ["d", "1777", 0, 0, 0, "-", "-"]
        elif there:
            ist = os.lstat(there[0])
            baseline = self.attrs(there[0], ist, False)
        if a[0] == "d":
            lines = self.lines(rel, there if there and baseline[0] == "d" else [])
            if not lines and baseline == a:
                return None
            content = self.put(b"sandglass tree v1\n" + b"".join(lines))
        else:
            if baseline == a and self.same_content(path, st, there[0], os.lstat(there[0])):
                return None
            content = {"f": lambda: sha_file(path), "l": lambda: sha(os.readlink(path))}.get(a[0], lambda: "-")()
            self.inodes.setdefault((st.st_dev, st.st_ino), []).append(rel)
        fields = "%s %s %d %d %d %s %s %s" % (a[0], a[1], a[2], a[3], a[4], a[5], content, a[6])
        return b"%s %d:%s\n" % (fields.encode(), len(name), name)

    def lines(self, rel, there):
        path = self.state + b"/" + rel
        names = set(os.listdir(path))
        image, inner = self.image_of(rel) if rel else (self.root, b"")
        if there or not rel:
            names |= image.names(inner)
        out = []
        for name in sorted(names):
            if not rel and name in MOUNTS:
                continue
            line = self.entry(rel + b"/" + name if rel else name, name)
            if line:
                out.append(line)
        return out

    def links(self):
        groups = sorted(sorted(v) for v in self.inodes.values() if len(v) > 1)
        if not groups:
            return b""
        text = b"sandglass links v1\n"
        for g in groups:
            text += b"%d\n" % len(g) + b"".join(b"%d:%s\n" % (len(p), p) for p in g)
        return b"links %s\n" % self.put(text).encode()

    def top(self):
        lines = self.lines(b"", [])
        a = self.attrs(self.state, os.lstat(self.state), True)
        if a != self.attrs(self.root.dirs[0], os.lstat(self.root.dirs[0]), False):
            empty = self.put(b"sandglass tree v1\n")
            lines.insert(0, ("d %s %d %d 0 - %s %s 0:\n" % (a[1], a[2], a[3], empty, a[6])).encode())
        return self.put(b"sandglass tree v1\n" + self.links() + b"".join(lines))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["root"])
    p.add_argument("--digest", required=True)
    p.add_argument("--root", action="append", required=True)
    p.add_argument("--usr", action="append")
    p.add_argument("--state", required=True)
    p.add_argument("--base", type=int, default=0)
    p.add_argument("--trust-mtime", action="store_true")
    p.add_argument("--dump", action="store_true", help="print the objects, too")
    args = p.parse_args()
    walk = Walk(args)
    top = walk.top()
    print(sha(b"sandglass state v1\0" + args.digest.encode() + b"\0" + top.encode()))
    if args.dump:
        for h, data in walk.objects.items():
            sys.stdout.flush()
            sys.stdout.buffer.write(b"--- " + h.encode() + b"\n" + data)


main()
