"""What is forgotten is gone: from the lists, from the log's files, from the index, and its outputs from the blobs."""

import pathlib
import time

import pytest

import sg


@pytest.fixture(scope="module")
def server():
    s = sg.Server("--pool-size", "1", "--gc-grace", "0")
    try:
        s.start()
        yield s
    finally:
        s.end()


def holds(server, text):
    """Which files of the home have it."""
    text = text.encode()
    found = []
    for d in ("log", "blobs", "."):
        for path in pathlib.Path(server.home, d).glob("**/*" if d != "." else "index.sqlite*"):
            try:
                if path.is_file() and text in path.read_bytes():
                    found.append(path.name)
            except FileNotFoundError:
                pass
    return found


def work(server, marker, shared="same for both"):
    """A trajectory of three steps whose text, outputs and note have the marker; its last output is a blob."""
    w, t = sg.unique("w"), sg.unique("t")
    for command in (f"echo in-{marker}", f"for i in $(seq 20000); do echo out-{marker}-$i; done",
                    f"for i in $(seq 20000); do echo {shared} $i; done"):
        assert server.execute(w, "bash:run", {"command": command}, trajectory_id=t)["code"] == 0
    server.execute(w, "probe_shared:count", {}, trajectory_id=sg.unique("next"))  # t is nobody's now
    server.request("PATCH", f"/sg/v1/trajectories/{t}", {"note": f"note-{marker}"})
    return t


def forget(server, trajectory):
    def gone():
        r = server.request("DELETE", f"/sg/v1/trajectories/{trajectory}")
        return r.status in (200, 204, 404)

    sg.wait_for(gone, 60)


def test_a_forgotten_trajectory_leaves_no_word_behind_and_others_stay_whole(server):
    old, new = work(server, "OLDMARK"), work(server, "NEWMARK")
    before = server.steps(new)
    assert holds(server, "in-OLDMARK") and holds(server, "out-OLDMARK-19999")
    forget(server, old)
    sg.wait_for(lambda: not holds(server, "OLDMARK"), 60)
    assert server.request("GET", f"/sg/v1/trajectories/{old}").status == 404
    assert server.steps(new) == before and holds(server, "in-NEWMARK") and holds(server, "note-NEWMARK")
    assert holds(server, "out-NEWMARK-19999") and holds(server, "same for both 19999")  # the blob that both had
    forget(server, new)
    sg.wait_for(lambda: not holds(server, "same for both 19999"), 60)  # now nobody names it


def test_the_index_made_anew_from_the_log_knows_nothing_of_it_and_reads_the_rest(server):
    gone, stays = work(server, "GONEMARK"), work(server, "STAYMARK")
    before = server.steps(stays)
    forget(server, gone)
    sg.wait_for(lambda: not holds(server, "GONEMARK"), 60)
    server.stop()
    for p in pathlib.Path(server.home).glob("index.sqlite*"):
        p.unlink()
    server.start()
    assert server.steps(stays) == before
    assert server.request("GET", f"/sg/v1/trajectories/{gone}").status == 404
    assert "damaged" not in server.log_tail(200) and "not indexed" not in server.log_tail(200)


def test_a_killed_recorder_erases_the_rest_when_it_is_back(server):
    many = [work(server, f"KILLMARK{i}", shared=f"KILLMARK{i}") for i in range(3)]
    keep = work(server, "KEPTMARK")
    before = server.steps(keep)
    for t in many:
        forget(server, t)
        server.kill_role("recorder")
        time.sleep(0.05)
    sg.wait_for(lambda: not holds(server, "KILLMARK"), 90)
    assert server.steps(keep) == before
