"""What supervise knows of a box, beyond its own death: the files (descriptors that guard keeps), the states that were
made of it, whether it was paused. And parked boxes, which nobody talks to."""

import os
import pathlib
import signal
import time

import pytest

import sg
from seatctl import Seats


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


def snapshot(box):
    return box.server.post(f"/sg/v1/boxes/{box.id}/snapshot", {}, 201)


def fork(box, state):
    return sg.Box(box.server, box.server.post(f"/sg/v1/states/{state}/fork", {}, 201)["boxes"][0]["id"])


def restarted(server):
    """After a kill -9 of supervise, when the next one answers. It says so itself: a worker of the last one looks like it,
    and has its listening socket, until it is dead too."""
    lives = sg.read(server.log_path).count("supervise ready")
    server.kill_role("supervise", wait=False)
    sg.wait_for(lambda: sg.read(server.log_path).count("supervise ready") > lives, 10)
    server.wait_ready()


def connect(server):
    return Seats(server.home)


def kept(server):
    """How many descriptors guard has."""
    return len(os.listdir(f"/proc/{server.pids()['guard']}/fd"))


def kept_with_a_full_pool(server):
    """The same when the pool is full and has been for half a second: a seat that is being made has some, too."""
    seen = []

    def full_and_still():
        pool = server.get("/sg/v1/status")["pool"]
        seen.append(kept(server) if pool["ready"] >= pool["wanted"] else None)
        return seen[-1] is not None and seen[-25:] == seen[-1:] * 25

    sg.wait_for(full_and_still)
    return seen[-1]


@pytest.mark.parametrize("cold", (True, False))
def test_a_snapshot_after_a_restart_is_incremental_and_whole(server, cold):
    with server.box(**({"cold": True} if cold else {})) as box:
        box.out("mkdir -p ~/d && head -c 3000000 /dev/urandom > ~/d/big && echo 1 > /tmp/t")
        first = snapshot(box)
        restarted(server)
        box.out("echo two > ~/d/second")
        second = snapshot(box)
        assert second["changed"] and second["layers"][:-1] == first["layers"], (first, second)
        size = sum(f.stat().st_size for f in pathlib.Path(server.home, "layers", second["layers"][-1]).rglob("second"))
        assert size == 4
        assert not list(pathlib.Path(server.home, "layers", second["layers"][-1]).rglob("big"))
        restarted(server)
        assert not snapshot(box)["changed"]
        copy = fork(box, second["state"])
        names = "~/d/big ~/d/second /tmp/t"
        assert copy.out(f"sha256sum {names}") == box.out(f"sha256sum {names}")
        server.destroy(copy.id)


def test_guard_lets_go_of_what_belongs_to_no_box(server):
    before = kept_with_a_full_pool(server)
    boxes = [server.create() for _ in range(3)]
    sg.wait_for(lambda: kept(server) == before + 3, 5)
    server.destroy(boxes.pop())
    sg.wait_for(lambda: kept(server) == before + 2, 5)
    pid = server.role("supervise")
    os.kill(pid, signal.SIGSTOP)
    os.kill(server.init_pid(boxes[0]), signal.SIGKILL)  # one of them dies while nobody looks
    os.kill(pid, signal.SIGKILL)
    sg.wait_for(lambda: kept(server) == before + 1, 10)
    server.destroy(boxes[1])
    sg.wait_for(lambda: kept(server) == before, 5)


def test_a_box_that_a_snapshot_held_is_woken(server):
    with server.box() as box:
        box.out("mkdir ~/many; cd ~/many; for i in $(seq 3000); do echo $i > $i; done", timeout=60)
        half = pathlib.Path(server.home, "layers", "l-half.tmp", "root")
        half.mkdir(parents=True)
        seats = connect(server)
        seats.send(8, box.id)  # SEAT_SNAPSHOT
        time.sleep(0.02)
        restarted(server)
        assert not half.exists()
        assert box.out("echo awake", timeout=10) == "awake\n"
        assert snapshot(box)["changed"]


def test_a_paused_box_stays_paused(server):
    with server.box() as box:
        seats = connect(server)
        seats.freeze(box.id)
        restarted(server)
        seats = connect(server)
        assert [b["frozen"] for b in seats.list() if b["id"] == box.id] == [True]
        snapshot(box)
        assert [b["frozen"] for b in seats.list() if b["id"] == box.id] == [True]
        seats.thaw(box.id)
        restarted(server)
        assert box.out("echo 1") == "1\n"


def test_parked_boxes_are_not_left_alone():
    with sg.running("--pool-size", "2", "--orphan-timeout", "2s") as s:
        sockets = pathlib.Path(s.home, "run", "box")

        def parked():
            return {x.stem for x in sockets.glob("*.state")}

        sg.wait_for(lambda: s.get("/sg/v1/status")["pool"]["ready"] == 2, 10)
        before = parked()
        time.sleep(6)
        assert parked() == before and len(before) == 2
        assert "parked box ended" not in sg.read(s.log_path)
        with s.box() as box:
            assert box.id in before
            assert box.out("echo 1") == "1\n"
            time.sleep(3)
            assert box.out("echo 2") == "2\n"
