"""A box with a determinism profile sees the same machine in every run, and a replay gives its fresh box the same."""

import os

import pytest

import sg
from test_replay import cli, replay

FAKETIME = any(os.path.exists(f"/usr/lib/{d}/libfaketime.so.1") for d in
               ("x86_64-linux-gnu/faketime", "aarch64-linux-gnu/faketime", "faketime"))
LOOK = ("hostname; id -un; nproc; echo $TZ $LC_ALL $PYTHONHASHSEED; python3 -c 'print({str(i) for i in range(9)})'; "
        "python3 -c 'import os; print(os.cpu_count() and len(os.sched_getaffinity(0)))'; "
        "grep -m1 stack /proc/self/maps; cut -d. -f1 /proc/uptime | awk '{print ($1 < 60)}'")


def test_profile_holds_the_machine_still(server):
    outs = []
    for _ in range(2):
        with server.box(determinism=True) as b:
            outs.append(b.out(LOOK))
            shown = b.show()["determinism"]
    assert outs[0] == outs[1], outs
    lines = outs[0].splitlines()
    assert lines[:4] == ["sandglass", "gem", "1", "UTC C.UTF-8 0"] and lines[-1] == "1"
    assert shown == {"hostname": "sandglass", "locale": "C.UTF-8", "timezone": "UTC", "hash_seed": 0, "cpus": 1, "aslr": False}
    with server.box() as b:  # and without it, nothing of all that
        other = b.out(LOOK).splitlines()
        assert other[0] == b.id and other[3] == "" and other[-1] == lines[-1] or other[-1] == "0"


def test_profile_is_set_in_parts_and_survives_restore_and_fork(server):
    with server.box(determinism={"hostname": "lab-1", "timezone": "Europe/Berlin", "hash_seed": 42, "cpus": 0}) as b:
        assert b.out("hostname; echo $TZ $PYTHONHASHSEED").split() == ["lab-1", "Europe/Berlin", "42"]
        state = server.post(f"/sg/v1/boxes/{b.id}/snapshot", {}, status=201)["state"]
        server.post(f"/sg/v1/boxes/{b.id}/restore", {"state": state})
        assert b.out("hostname; echo $PYTHONHASHSEED").split() == ["lab-1", "42"]


def test_replay_gives_its_box_the_recorded_profile(server):
    t = sg.unique("t")
    with server.box(determinism={"hostname": "lab-2", "hash_seed": 7}) as b:
        server.tool(b.id, "bash:run", {"command": "hostname; python3 -c 'print(hash(\"x\"))'"}, trajectory_id=t)
    r = replay(server, t, rc=0)
    assert r["counts"]["identical"] == 1, r


@pytest.mark.parametrize("wish, word", [
    ({"hostname": "a b"}, "hostname"), ({"cpus": -1}, "cpus"), ({"nonsense": 1}, "nonsense"), ("yes", "determinism"),
    ({"start_time": "yesterday"}, "start_time"), ({"hash_seed": 2 ** 40}, "hash_seed"),
])
def test_wrong_profiles_are_refused_by_name(server, wish, word):
    r = server.request("POST", "/sg/v1/boxes", {"determinism": wish})
    assert r.status == 400 and word in r["error"]["message"], r


@pytest.mark.skipif(FAKETIME, reason="libfaketime is installed")
def test_start_time_without_its_library_is_refused(server):
    r = server.request("POST", "/sg/v1/boxes", {"determinism": {"start_time": "2020-01-02T03:04:05Z"}})
    assert r.status == 400 and "libfaketime" in r["error"]["message"], r


@pytest.mark.skipif(not FAKETIME, reason="libfaketime is not installed")
def test_start_time_moves_the_wall_clock(server):
    with server.box(determinism={"start_time": "2020-01-02T03:04:05Z"}) as b:
        assert b.out("date +%F; python3 -c 'import datetime; print(datetime.date.today())'").split() == ["2020-01-02"] * 2


def test_a_file_takes_the_settings_of_its_boxes_to_another_server(server, tmp_path):
    with server.box(determinism={"hostname": "far-away", "cpus": 1}, memory="300m") as b:
        t = sg.unique("t")
        b.tool("bash:run", {"command": "hostname; nproc; echo $TZ"}, trajectory_id=t)
        for form in "sandglass", "openai":
            cli(server, "export", t, "--format", form, "-o", tmp_path / form, rc=0)
    with sg.running("--pool-size", "0") as other:
        for form in "sandglass", "openai":
            r = replay(other, tmp_path / form, rc=0)
            assert r["counts"]["identical"] == 1 and r["details"][0]["output_preview"].startswith("far-away\n1\n"), r
            cli(other, "import", tmp_path / form, "--store", "--id", form, rc=0)
            assert replay(other, form, rc=0)["counts"]["identical"] == 1
