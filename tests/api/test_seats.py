"""supervise alone, asked through seatctl: what it makes, what it leaves behind, what survives its death.

Needs root. Only processes that these tests started are signalled.
"""

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import uuid

import pytest

import seatctl
import sg
from seatctl import SeatError, Seats

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("SG_BINARY", str(ROOT / "build" / "sandglass"))
STEPS = re.search(r"enum step \{(.*?)\}", (ROOT / "src/isolate/step.h").read_text(), re.S).group(1)
STEP_NAMES = [n for n in re.findall(r"\bSTEP_(\w+)", re.sub(r"/\*.*?\*/", "", STEPS)) if n not in ("NONE", "COUNT")]

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="boxes need root")


def no_huge_pages():
    """For a process and all that it starts."""
    PR_SET_THP_DISABLE = 41
    assert ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0


class Supervise:
    def __init__(self, *flags, env=None, before=None):
        self.home = tempfile.mkdtemp(prefix="sg-seats-", dir="/tmp")
        os.chmod(self.home, 0o755)
        self.group = "sgs-" + uuid.uuid4().hex[:8]
        self.log = self.home + ".log"
        self.flags, self.env, self.before = flags, env or {}, before
        self.process = None

    def start(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("SANDGLASS_")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "role", "supervise", str(os.getpid()), "--home", self.home, "--cgroup-name", self.group,
                 "--pool-size", "0", "--serve-user", "root", *self.flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**env, **self.env},
                preexec_fn=self.before)
        end = time.monotonic() + 15
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                return Seats(self.home)
            assert self.process.poll() is None, open(self.log).read()
            time.sleep(0.02)
        raise AssertionError("supervise is not ready:\n" + open(self.log).read())

    def inventory(self):
        return seatctl.inventory(self.home, self.process.pid, self.group)

    def moments(self):
        """Inventories of half a second: blank boxes come and go, so one alone may show what is not there at rest."""
        seen = []
        for _ in range(5):
            seen.append(self.inventory())
            time.sleep(0.1)
        return seen

    def settled(self, *before, but=()):
        """What is left compared to before (the moment that is most like it), after things had time to go."""
        end = time.monotonic() + sg.PATIENCE
        while True:
            now = self.inventory()
            diff = min(({k: v for k, v in seatctl.compare(b, now).items() if k not in but} for b in before), key=len)
            if not diff or time.monotonic() > end:
                return diff
            time.sleep(0.1)

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        return self.process.wait(10)

    def remove(self):
        """Leaves nothing: a last life takes away what was handed out."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError, EOFError):
                s = Seats(self.home)
                for box in s.list():
                    s.destroy(box["id"])
            self.end()
        for line in open("/proc/self/mountinfo"):
            left, right = line.split(" - ")
            if right.split()[0] in ("cgroup", "cgroup2"):
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.join(left.split()[4], self.group))
        subprocess.run(["rm", "-rf", self.home, self.log], check=True)


@contextlib.contextmanager
def supervise(*flags, **more):
    s = Supervise(*flags, **more)
    try:
        yield s
    finally:
        if s.process:
            s.remove()


def init_pid(sv, box):
    """The box's first process, by its control group."""
    for line in open("/proc/self/mountinfo"):
        left, right = line.split(" - ")
        path = os.path.join(left.split()[4], sv.group, box, "cgroup.procs")
        if right.split()[0] in ("cgroup", "cgroup2") and os.path.exists(path):
            pids = [int(p) for p in open(path).read().split()]
            if pids:
                return min(pids)
    raise AssertionError("no process in " + box)


def test_nothing_is_left_of_boxes():
    with supervise() as sv:
        s = sv.start()
        s.destroy(s.create(cold=True)["id"])
        time.sleep(0.3)
        before = sv.inventory()
        for _ in range(20):
            s.destroy(s.create(cold=True, sudo=True)["id"])
        assert sv.settled(before) == {}


@pytest.mark.parametrize("step", range(1, len(STEP_NAMES) + 1), ids=STEP_NAMES)
def test_failed_step_leaves_nothing(step):
    with supervise(env={"SANDGLASS_FAULTS": "1", "SANDGLASS_FAIL_STEP": str(step)}) as sv:
        s = sv.start()
        spec = dict(cold=True, network=int(STEP_NAMES[step - 1] == "LINK"))
        time.sleep(0.2)
        with pytest.raises(SeatError, match=f"create box: .*injected failure at step {step}"):
            s.create(**spec)
        before = sv.moments()
        for _ in range(3):
            with pytest.raises(SeatError):
                s.create(**spec)
        assert sv.settled(*before, but=("namespaces",)) == {}
        assert s.list() == []


def test_names_of_boxes_lie_in_memory_and_go_with_the_server():
    with supervise() as sv:
        link = os.path.join(sv.home, "run/box")
        s = sv.start()
        where = os.readlink(link)
        assert where.startswith("/dev/shm/sandglass-") and os.stat(where).st_uid == 0
        box = s.create()["id"]
        assert f"{box}.sock" in os.listdir(where)
        sv.end(signal.SIGKILL)
        s = sv.start()  # what the box is known by is found again
        assert os.readlink(link) == where and [b["id"] for b in s.list()] == [box]
        s.destroy(box)
        sv.end()
        assert not os.path.islink(link) and not os.path.exists(where)


def test_a_link_of_somebody_else_is_not_followed(tmp_path):
    with supervise() as sv:
        link = os.path.join(sv.home, "run/box")
        os.makedirs(os.path.dirname(link), exist_ok=True)
        with contextlib.suppress(OSError):
            os.rmdir(link)
        (tmp_path / "b-precious.state").write_text("mine")
        os.symlink(tmp_path, link)
        s = sv.start()
        s.destroy(s.create()["id"])
        assert os.readlink(link) != str(tmp_path) and os.listdir(tmp_path) == ["b-precious.state"]


def test_what_a_killed_server_left_in_memory_goes_when_its_home_is_gone():
    with supervise() as other:
        other.start()
        where = os.readlink(os.path.join(other.home, "run/box"))
        other.end(signal.SIGKILL)
        os.unlink(os.path.join(other.home, "run/box"))
        with supervise() as sv:
            sv.start()
            assert not os.path.exists(where)


def test_boxes_survive_a_kill():
    with supervise() as sv:
        s = sv.start()
        box = s.create(cold=True)["id"]
        pid = init_pid(sv, box)
        assert sv.end(signal.SIGKILL) == -signal.SIGKILL
        s = sv.start()
        assert [b["id"] for b in s.list()] == [box]
        assert init_pid(sv, box) == pid
        s.destroy(box)
        assert s.list() == []


def test_the_next_life_gives_nobody_the_ids_of_a_living_box():
    with supervise() as sv:
        s = sv.start()
        boxes = [s.create()["id"] for _ in range(16)]  # in the order of their ids
        inits = [init_pid(sv, b) for b in boxes]
        sv.end(signal.SIGKILL)
        for pid in inits[8:]:  # when their state files are read their seats end, and another for the pool could begin
            os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{pid}") for pid in inits[8:]) and time.monotonic() < end:
            time.sleep(0.02)
        sv.flags = ("--pool-size", "2")
        s = sv.start()
        assert sorted(b["id"] for b in s.list()) == sorted(boxes[:8])


def helpers(sv):
    """Children of supervise that are no boxes, by name."""
    found = {}
    for pid in open(f"/proc/{sv.process.pid}/task/{sv.process.pid}/children").read().split():
        with contextlib.suppress(OSError):
            if len(re.search(r"NSpid:(.*)", open(f"/proc/{pid}/status").read())[1].split()) == 1:
                found["sweeper" if "sweep" in open(f"/proc/{pid}/comm").read() else "spawner"] = int(pid)
    return found


@pytest.mark.parametrize("who", ["spawner", "sweeper"])
def test_a_killed_helper_is_started_again_and_boxes_stay(who):
    with supervise() as sv:
        s = sv.start()
        box = s.create(cold=True)["id"]
        s.destroy(s.create(cold=True)["id"])
        time.sleep(0.3)
        before = sv.inventory()
        for _ in range(3):
            os.kill(helpers(sv)[who], signal.SIGKILL)
            with contextlib.suppress(SeatError):  # one that was being made
                s.destroy(s.create(cold=True)["id"])
            s.destroy(s.create(cold=True)["id"])
        assert set(helpers(sv)) == {"spawner", "sweeper"}
        assert [b["id"] for b in s.list()] == [box]
        assert sv.settled(before) == {}


def test_parked_and_blank_boxes_do_not_survive():
    with supervise("--pool-size", "2") as sv:
        s = sv.start()
        deadline = time.monotonic() + 10
        while s.pool()["ready"] < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert s.pool()["ready"] == 2
        sv.end(signal.SIGKILL)
        sv.flags = ()
        s = sv.start()
        time.sleep(0.5)
        assert s.list() == []
        assert len([f for f in os.listdir(sv.home + "/run/box") if f.endswith(".state")]) == 0


def test_death_is_told():
    with supervise() as sv:
        s = sv.start()
        box = s.create(cold=True)["id"]
        os.kill(init_pid(sv, box), signal.SIGKILL)
        dead = s.recv()
        assert (dead["verb"], dead["id"], dead["status"], dead["oom"]) == (seatctl.DEAD, box, signal.SIGKILL, False)
        time.sleep(0.2)
        assert s.list() == []


def huge_kb(pid):
    return sum(int(line.split()[1]) for line in open(f"/proc/{pid}/smaps") if line.startswith("AnonHugePages:"))


def test_boxes_share_the_code_of_init_in_huge_pages():
    if "[never]" in open("/sys/kernel/mm/transparent_hugepage/enabled").read():
        pytest.skip("this kernel gives no huge pages")
    with supervise() as sv:
        s = sv.start()
        boxes = [s.create(cold=True)["id"] for _ in range(2)]
        assert all(huge_kb(init_pid(sv, b)) >= 2048 for b in boxes)


def test_boxes_are_made_where_there_are_no_huge_pages():
    with supervise(before=no_huge_pages) as sv:
        s = sv.start()
        assert huge_kb(init_pid(sv, s.create(cold=True)["id"])) == 0


@pytest.mark.parametrize("how", ["-static", "-fPIE -pie"])
def test_code_stays_where_it_is_unless_it_lies_where_it_was_linked_to(how, tmp_path):
    (tmp_path / "m.c").write_text('#include "init/huge_code.h"\nint main(void) { huge_code(); return 0; }\n')
    subprocess.run(["cc", *how.split(), "-D_GNU_SOURCE", f"-I{ROOT}/src", "-Wl,-z,noseparate-code,-z,max-page-size=0x200000", "-o", tmp_path / "m",
                    tmp_path / "m.c", ROOT / "src/init/huge_code.c"], check=True)
    assert subprocess.run([tmp_path / "m"]).returncode == 0


def test_freeze_and_thaw():
    with supervise() as sv:
        s = sv.start()
        box = s.create(cold=True)["id"]
        assert s.freeze(box)["frozen"]
        assert s.list()[0]["frozen"]
        s.thaw(box)
        assert not s.list()[0]["frozen"]
        s.freeze(box)
        s.destroy(box)  # a frozen box can be ended


def test_pool_hands_out_and_refills():
    with supervise("--pool-size", "2", "--box-memory", "512m", "--box-disk", "256m", "--box-cpu", "1.0", "--box-pids",
                   "256", "--no-box-sudo") as sv:
        s = sv.start()
        deadline = time.monotonic() + 10
        while s.pool()["ready"] < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        r = s.create(memory_bytes=256 << 20, pids=100)  # other limits, the same seat
        assert r["warm"]
        limit = [os.path.join(d, f) for d, f in ((f"/sys/fs/cgroup/memory/{sv.group}/{r['id']}", "memory.limit_in_bytes"),
                                                 (f"/sys/fs/cgroup/{sv.group}/{r['id']}", "memory.max"))]
        values = [int(open(p).read()) for p in limit if os.path.exists(p)]
        assert values == [(256 + 256) << 20]
        assert not s.create(disk_bytes=64 << 20)["warm"]  # another disk needs another box
        deadline = time.monotonic() + 10
        while s.pool()["ready"] < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert s.pool()["ready"] == 2


def test_bad_requests_are_refused():
    with supervise("--mount-roots", "/usr/share") as sv:
        s = sv.start()
        for spec, words in [(dict(image="nowhere"), "image is 'nowhere'"),
                            (dict(image="/etc"), "image '/etc': '/etc' is not below .* image.roots"),
                            (dict(memory_bytes=1), "memory_bytes is 1"),
                            (dict(network=7), "network is 7"),
                            (dict(mounts=[("/etc", "/x", False)]), r"mounts\[0\].from: '/etc' is not below .* mount.roots"),
                            (dict(mounts=[("/usr/share/nope", "/x", False)]), r"mounts\[0\].from"),
                            (dict(mounts=[("/usr/share/../../etc", "/x", False)]), r"mounts\[0\].from"),
                            (dict(mounts=[("/usr/share", "/proc/x", False)]), r"mounts\[0\].to"),
                            (dict(mounts=[("/usr/share", "/a/../../x", False)]), r"mounts\[0\].to")]:
            with pytest.raises(SeatError, match=words):
                s.create(cold=True, **spec)
        with pytest.raises(SeatError, match="no box b-x"):
            s.destroy("b-x")
        assert s.list() == []


@pytest.mark.parametrize("place, to", [("dev", "/tmp"), ("proc", "/"), ("sys", "../../.."), ("tmp", "/etc"), ("run", "/run")])
def test_image_cannot_redirect_mounts(place, to, tmp_path):
    """CVE-2026-41579 and its kin: a link where we mount."""
    tmp_path.chmod(0o755)
    image = tmp_path / "image"
    (image / "etc").mkdir(parents=True)
    (image / place).symlink_to(to)
    with supervise("--image-roots", str(tmp_path)) as sv:
        s = sv.start()
        with pytest.raises(SeatError, match=f"open '{place}' in the box"):
            s.create(cold=True, image=str(image))
        (image / place).unlink()
        (image / "etc" / "hosts").symlink_to("/etc/hostname")  # not mounted over, not followed
        before = open("/etc/hostname").read()
        s.destroy(s.create(cold=True, image=str(image))["id"])
        assert open("/etc/hostname").read() == before


def test_client_that_leaves_gets_no_box():
    with supervise() as sv:
        s = sv.start()
        s.send(seatctl.CREATE, spec=seatctl.pack_spec(cold=True))
        s.close()
        s = Seats(sv.home)
        time.sleep(0.5)
        assert s.list() == []
