"""Random work on the files of a box, snapshots in between, restores of any of them: the trees are as they were, a second program
in the box says, and the same files have the same root.

STATE_RANDOM_ROUNDS (6) and STATE_RANDOM_SEED make it longer and other. The layers' own random test is in tests/unit."""

import os
import random

import sg

ROUNDS = int(os.environ.get("STATE_RANDOM_ROUNDS", "6"))
SEED = int(os.environ.get("STATE_RANDOM_SEED", "1"))

# Runs in the box for its whole life, as root: keeps descriptors and mappings open over snapshots. One request a line.
WORK = r"""
import json, mmap, os, random, shutil, sys
rng = random.Random(int(sys.argv[1]))
tops = ['/workspace', '/tmp/t', '/etc/skel', '/usr/share/doc/w', '/var/w']
for t in tops: os.makedirs(t, exist_ok=True)
names = [b'a', b'b', b'c', b'd', b'new\nline', b'-rf', b'\xff\xfe', b'sp ace', b'"q\'', b'x' * 255, 'ü€'.encode()]
held, maps = [], []
def some(depth=3):
    p = rng.choice(tops).encode()
    for _ in range(rng.randint(1, depth)): p = os.path.join(p, rng.choice(names))
    return p
def parent(p): os.makedirs(os.path.dirname(p), exist_ok=True)
def write():
    p = some(); parent(p); open(p, 'wb').write(rng.randbytes(rng.choice([0, 1, 100, 5000, 200000])))
def append():
    p = some(); open(p, 'ab').write(b'more')
def sparse():
    p = some(); parent(p); f = open(p, 'wb'); f.seek(rng.randint(0, 3 << 20)); f.write(b'end'); f.close()
def link(): os.link(some(), some())
def symlink(): os.symlink(some(), some())
def rename(): os.rename(some(), some())
def unlink(): os.unlink(some())
def rmtree(): shutil.rmtree(some(2))
def opaque():
    p = some(2); shutil.rmtree(p); os.makedirs(p); open(os.path.join(p, b'only'), 'wb').write(b'x')
def system_dir():
    p = '/usr/share/' + rng.choice(sorted(os.listdir('/usr/share'))[:6])
    if os.path.isdir(p): os.rename(p, p + '-moved') if rng.random() < .3 else open(p + '/mine', 'w').write('1')
def mkdir(): os.makedirs(some(), exist_ok=True)
def chmod(): os.chmod(some(), rng.choice([0o600, 0o644, 0o755, 0o400, 0o4755]))
def chown(): os.lchown(some(), rng.choice([0, 1000, 5]), rng.choice([0, 1000]))
def xattr(): os.setxattr(some(), 'user.' + rng.choice('ab'), rng.randbytes(5))
def rmxattr(): os.removexattr(some(), 'user.a')
def utime(): os.utime(some(), (rng.randint(0, 10**9),) * 2)
def fifo(): p = some()[:200] + b'.fifo'; parent(p); os.mkfifo(p)  # a name that nobody opens
def hold():
    p = some(); parent(p); held.append(os.open(p, os.O_RDWR | os.O_CREAT))
    if len(held) > 6: os.close(held.pop(0))
def write_held(): os.pwrite(rng.choice(held), rng.randbytes(50), rng.randint(0, 9000))
def map_file():
    p = some(); parent(p); fd = os.open(p, os.O_RDWR | os.O_CREAT); os.ftruncate(fd, 8192); maps.append(mmap.mmap(fd, 8192)); os.close(fd)
    if len(maps) > 5: maps.pop(0).close()
def store():  # through a mapping whose descriptor is closed: no time changes
    m = rng.choice(maps); i = rng.randint(0, 8000); m[i:i + 4] = rng.randbytes(4)
def quick_map():  # opened, mapped, stored to, unmapped, closed, all between two snapshots
    fd = os.open(some(), os.O_RDWR)
    n = os.fstat(fd).st_size
    m = mmap.mmap(fd, n); os.close(fd); m[n // 2:n // 2 + 1] = rng.randbytes(1); m.close()
works = [write] * 4 + [append, sparse, link, link, symlink, rename, rename, unlink, rmtree, opaque, system_dir, mkdir, chmod, chown, xattr, rmxattr,
         utime, fifo, hold, write_held, write_held, map_file, store, store, store, quick_map, quick_map]
for line in sys.stdin:
    for _ in range(int(line)):
        try: rng.choice(works)()
        except (OSError, IndexError, ValueError, shutil.Error): pass
    open('/dev/shm/done', 'w').write(line)
"""

# What a tree is, told by another program than the one that records it.
LOOK = r"""
import hashlib, json, os, stat
rows, first = [], {}
some = sorted('/usr/share/' + n for n in os.listdir('/usr/share'))
for top in ('/workspace', '/tmp', '/etc', '/var', '/home', '/usr/share/doc/w', *[x for x in some if x.endswith('-moved')], *some[:6]):
    for d, dirs, files in os.walk(top.encode()):
        dirs.sort()
        for n in sorted(dirs + files):
            p = os.path.join(d, n); s = os.lstat(p); kind = stat.S_IFMT(s.st_mode)
            if p.startswith((b'/tmp/.sandglass', b'/etc/hosts', b'/etc/resolv')): continue
            row = [p.hex(), oct(s.st_mode), s.st_uid, s.st_gid]
            if kind == stat.S_IFREG:
                row += [s.st_size, hashlib.sha256(open(p, 'rb').read()).hexdigest(), first.setdefault((s.st_dev, s.st_ino), p.hex())]
                row += [[x, os.getxattr(p, x).hex()] for x in sorted(os.listxattr(p)) if x.startswith('user.')]
            elif kind == stat.S_IFLNK: row += [os.readlink(p).hex()]
            rows.append(row)
for row in rows: print(json.dumps(row))
"""


def look(box):
    box.out("sudo /usr/bin/python3 -B /opt/look.py > /dev/shm/look", timeout=120)
    size, text = int(box.out("stat -c %s /dev/shm/look")), ""
    while len(text) < size:  # ASCII; an answer holds only so much
        text += box.out(f"tail -c +{len(text) + 1} /dev/shm/look | head -c 60000")
    return text


def compare(box, want, where):
    got = look(box)
    if got != want:
        changed = set(got.splitlines()) ^ set(want.splitlines())
        raise AssertionError((where, [("now" if x in got else "then", bytes.fromhex(x[2:x.index('"', 2)]), x) for x in sorted(changed)[:12]]))


def begin(box, seed):
    box.out("sudo mkdir -p /opt && sudo chown 1000 /opt")
    box.tool("file:write", {"path": "/opt/work.py", "content": WORK})
    box.tool("file:write", {"path": "/opt/look.py", "content": LOOK})
    start(box, seed)


def start(box, seed):
    box.out(f"sudo rm -f /dev/shm/q /dev/shm/done; mkfifo /dev/shm/q; (sudo /usr/bin/python3 -B /opt/work.py {seed} < /dev/shm/q > /dev/null 2>&1 &) ; exec 7> /dev/shm/q")


def work(box, n):
    box.out(f"sudo rm -f /dev/shm/done; echo {n} >&7; while ! test -s /dev/shm/done; do sleep 0.01; done", timeout=120)


def test_random_work_snapshots_and_restores_keep_trees_and_roots():
    rng = random.Random(SEED)
    with sg.running("--pool-size", "1") as server, server.box(memory="1g") as box:
        begin(box, SEED)
        states = []
        for i in range(ROUNDS):
            work(box, rng.choice([3, 20, 60]))
            state = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"]
            states.append((state, look(box)))
        for state, tree in rng.sample(states, min(4, len(states))):
            root = sg.wait_for(lambda: server.get(f"/sg/v1/states/{state}")["root"], 60)
            r = server.post(f"/sg/v1/boxes/{box.id}/reset", {"state": state})  # the root again, from what is on disk
            assert r["proved"] is True and r["root"] == root, (SEED, state)
            compare(box, tree, (SEED, state))
            again = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"]
            assert sg.wait_for(lambda: server.get(f"/sg/v1/states/{again}")["root"], 60) == root
        start(box, SEED + 1)  # and on from there
        for i in range(3):
            work(box, 20)
            state, tree = server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)["state"], look(box)
            copy = sg.Box(server, server.post(f"/sg/v1/states/{state}/fork", {}, 201)["boxes"][0]["id"])
            compare(copy, tree, (SEED, i))
            server.destroy(copy.id)
