"""AgentFlow's vm:* served by a desktop: scripts of pyautogui calls, judged by what the program on the screen received."""

import json
import re

import pytest

import sg
from test_desktop import PATIENCE


class Vm:
    """One worker's vm, with a shell and the desktop's own tools in the same box."""

    def __init__(self, server, worker, **config):
        self.server, self.worker = server, worker
        self.session = server.session(worker, "vm", memory="1g", **config)
        server.session(worker, "bash")
        server.session(worker, "desktop")

    def __call__(self, tool, /, **params):
        return self.server.execute(self.worker, tool, params, status=None)

    def data(self, tool, /, **params):
        r = self(tool, **params)
        assert r["code"] == 0, r
        return r["data"]

    def sh(self, command):
        return self.data("bash:run", command=command)["stdout"]

    def window(self, title):
        assert self.data("desktop:wait", title=title, seconds=PATIENCE)["found"]
        return [w for w in self.data("desktop:windows")["windows"] if title in w["title"]][-1]


@pytest.fixture(scope="module")
def server():
    with sg.running("--pool-size", "1") as s:
        yield s


@pytest.fixture(scope="module")
def vm(server):
    v = Vm(server, "vm-worker", screen_size=[1024, 700])
    if "missing" in v.sh("for p in Xtigervnc jwm xterm xev; do command -v $p >/dev/null || echo missing; done"):
        pytest.skip("Debian's tigervnc-standalone-server, jwm, xterm and x11-utils are not installed")
    yield v
    server.disconnect(v.worker)


@pytest.fixture
def events(vm):
    """A window that tells of every event: where it is, and a way to wait for what it told, in this order."""
    vm.data("desktop:launch", command="exec stdbuf -oL xev -name watcher -event mouse -event keyboard > /tmp/events")
    w = vm.window("watcher")
    vm.data("vm:click", x=w["x"] + 90, y=w["y"] + 90)

    def told(*patterns):
        def all_there():
            text, at = vm.sh("cat /tmp/events"), 0
            for p in patterns:
                found = re.compile(p, re.S).search(text, at)
                if not found:
                    return False
                at = found.end()
            return True
        sg.wait_for(all_there, PATIENCE)
    told.x, told.y = w["x"], w["y"]
    yield told
    vm.data("desktop:windows", action="close", window=w["id"])
    sg.wait_for(lambda: "watcher" not in [x["title"] for x in vm.data("desktop:windows")["windows"]], PATIENCE)


PRESS = r"ButtonPress event.{0,200}?root:\(%d,%d\).{0,80}?button %d"
KEY = r"KeyPress.{0,250}?keysym 0x[0-9a-f]+, %s\)"


def test_a_screenshot_names_its_session(vm):
    shot = vm.data("vm:screenshot")
    assert shot["session"] == vm.session["session_name"] and shot["size"] == [1024, 700] and shot["accessibility_tree"] is None
    r = vm.server.execute("passer-by", "vm:screenshot")
    assert r["data"]["session"] and r["meta"]["temporary_session"], "a temporary session has a name, too"


def test_pyautogui_moves_and_presses_the_mouse_as_the_script_says(vm, events):
    x, y = events.x + 20, events.y + 30
    script = [f"pyautogui.click({x}, {y})",
              f"pyautogui.moveTo(({x} + 4) * 1, {y}, duration=0.1, tween=pyautogui.easeInQuad); pyautogui.rightClick()",
              f"pyautogui.click(x={x + 9}, y={y}, clicks=2, interval=0.01, button='middle')  # twice",
              f"pyautogui.moveRel(0, 7)\npyautogui.scroll(-2)\npyautogui.hscroll(1, ({x + 1}, {y}))",
              f"pyautogui.mouseDown({x + 2}, {y + 2}); time.sleep(0.05); pyautogui.dragRel(30, 0, 0.1); pyautogui.mouseUp()"]
    r = vm("vm:pyautogui", commands=script)
    assert r["code"] == 0 and r["data"]["commands"] == script and "failed_indices" not in r["data"], r
    assert r["data"]["results"] == [{"status": "success", "output": "", "error": "", "returncode": 0}] * len(script)
    assert "accessibility_tree" in r["data"] and r["meta"]["engine"] == "desktop"
    press = r"ButtonPress event.{0,300}?button %d"
    events(PRESS % (x, y, 1), PRESS % (x + 4, y, 3), PRESS % (x + 9, y, 2), PRESS % (x + 9, y, 2), PRESS % (x + 9, y + 7, 5), press % 5,
           PRESS % (x + 1, y, 7), PRESS % (x + 2, y + 2, 1), r"MotionNotify.{0,200}?root:\(%d,%d\).{0,40}state 0x100" % (x + 32, y + 2),
           r"ButtonRelease.{0,200}?root:\(%d,%d\)" % (x + 32, y + 2))
    out = vm.data("vm:pyautogui", command="pyautogui.position(); pyautogui.size(); pyautogui.onScreen(2000, 1)")["results"][0]["output"]
    assert out == f"Point(x={x + 32}, y={y + 2})\nSize(width=1024, height=700)\nFalse\n"


def test_pyautogui_presses_keys_and_types_text_in_any_script(vm, events):
    vm.data("vm:pyautogui", command=["pyautogui.hotkey('ctrl', 'shift', 'f5')", "pyautogui.press(['left', 'a'], presses=2)",
                                     "pyautogui.keyDown('shift'); pyautogui.press('x'); pyautogui.keyUp('shift')",
                                     "pyautogui.typewrite(['enter', 'b'])"])
    events(*[KEY % k for k in ("Control_L", "Shift_L", "F5", "Left", "a", "Left", "a", "Shift_L", "X", "Return", "b")])
    vm.data("desktop:launch", command="rm -f /tmp/typed; exec xterm -T typewriter -e 'cat > /tmp/typed'")
    w = vm.window("typewriter")
    text = "it's \"quoted\" \\ äöü 漢字 😀 done"
    vm.data("vm:pyautogui", commands=[f"pyautogui.click({w['x'] + 50}, {w['y'] + 50})",
                                      "pyautogui.write(" + json.dumps(text[:20], ensure_ascii=False) + " r'' '''" + text[20:] + "'''" ", interval=0.001)",
                                      r"pyautogui.write('\n\x41\u00e9\n')"])
    sg.wait_for(lambda: vm.sh("cat /tmp/typed") == text + "\nAé\n", PATIENCE)
    vm.data("desktop:windows", action="close", window=w["id"])


def test_a_script_that_is_more_than_calls_is_not_run(vm):
    for command, code, says in [
            ("os.system('touch /tmp/pwned')", 4000, "must start with 'pyautogui.'"),
            (["pyautogui.press('a')", "import os"], 4000, "commands[1]"),
            (None, 4000, "command: required"),
            ("pyautogui.click(1, 2); __import__('os').system('touch /tmp/pwned')", 5000, "a call ends with its line"),
            ("pyautogui.sleep(0); exec('1')", 5000, "there is no exec() here"),
            ("pyautogui.click(int('1'), 2)", 5000, "a value cannot be a call"),
            ("pyautogui.click(1, 2) if True else 0", 5000, "a call ends with its line"),
            ("pyautogui.screenshot('/tmp/pwned')", 5000, "there is no pyautogui.screenshot() here"),
            ("pyautogui.click(5000, 2)", 5000, "x: 5000 is outside of the screen (1024x700)"),
            ("pyautogui.press('no such key')", 5000, "keys: there is no key 'no such key'"),
            ("pyautogui.click(1, 2, spoon=3)", 5000, "has no argument 'spoon'"),
            ("pyautogui.write('never ends", 5000, "the text does not end")]:
        r = vm("vm:pyautogui", **({"command": command} if command else {}))
        assert r["code"] == code and says in r["message"], (command, r)
    assert vm.sh("ls /tmp/pwned 2>&1").startswith("ls:")
    r = vm("vm:pyautogui", commands=["pyautogui.position()", "pyautogui.nothing()", "pyautogui.move(1, 1)", "pyautogui.click('a')"])
    assert r["code"] == 5000 and r["data"]["failed_indices"] == [1, 3] and r["meta"]["outcome"] == "task_error", r
    assert [x["returncode"] for x in r["data"]["results"]] == [0, 1, 0, 1] and r["data"]["results"][1]["status"] == "error"


def test_a_script_that_sleeps_ends_with_the_calls_time(vm):
    r = vm.server.request("POST", "/api/v1/execute", {"worker_id": vm.worker, "action": "vm:pyautogui", "timeout": 1,
                                                     "params": {"command": "pyautogui.sleep(600)"}})
    assert r["code"] == 5006, r
    assert vm.data("vm:pyautogui", command="pyautogui.size()")["results"][0]["output"], "the next one goes on"


def test_arguments_that_vm_tools_refuse_have_the_contracts_code(vm):
    assert vm("vm:right_click", x=1)["code"] == 4000
    assert vm("vm:wait", seconds=-1)["code"] in (4000, 4002)
    assert vm.data("vm:right_click")["clicked"] is None


def test_a_task_is_judged_by_what_is_in_the_box(vm):
    vm.sh("printf 'Alpha beta\\n' > /home/gem/note.txt; printf 'alpha  BETA\\n' > /home/gem/wanted.txt; mkdir -p /home/gem/d; touch /home/gem/d/f")
    judge = lambda **evaluator: vm("vm:evaluate", evaluator=evaluator)
    command = {"type": "vm_command_line", "command": "cat /home/gem/note.txt"}
    rule = lambda **rules: {"type": "rule", "rules": rules}
    r = judge(func="exact_match", result=command, expected=rule(expected="Alpha beta\n"))
    assert r["code"] == 0 and r["data"]["score"] == 1 and r["data"]["results"] == [1.0] and r["data"]["last_action_failed"] is False, r
    assert r["data"]["details"] == [{"func": "exact_match", "score": 1.0, "result": "Alpha beta\n", "expected": {"expected": "Alpha beta\n"}}]
    assert r["data"]["evaluator"]["func"] == "exact_match"
    include = dict(func="check_include_exclude", result=command)
    assert judge(**include, expected=rule(include=["beta"], exclude=["gamma"]))["data"]["score"] == 1
    assert judge(**include, expected=rule(include=["beta"], exclude=["Alpha"]))["data"]["score"] == 0
    files = dict(func="compare_text_file", result={"type": "vm_file", "path": "/home/gem/note.txt"}, expected={"type": "vm_file", "path": "/home/gem/wanted.txt"})
    assert judge(**files)["data"]["score"] == 0
    assert judge(**files, options={"ignore_blanks": True, "ignore_case": True})["data"]["score"] == 1
    two = dict(func=["exact_match", "match_in_list"], result=[command, command], expected=[rule(expected="no"), rule(expected=["Alpha beta\n"])])
    assert judge(**two)["data"]["score"] == 0 and len(judge(**two)["data"]["details"]) == 1, "the first 0 decides"
    assert judge(**two, conj="or")["data"]["score"] == 1
    r = judge(func="is_in_list", result={"type": "vm_command_line", "command": ["cat", "/tmp/after"]}, expected=rule(expected="made"),
              postconfig=[{"type": "execute", "parameters": {"command": "echo made > /tmp/after", "shell": True}}])
    assert r["data"]["score"] == 1, r
    tree = judge(func="literal_match", result={"type": "list_directory", "path": "/home/gem/d"}, expected=rule())["data"]["details"][0]["result"]
    assert tree == {"type": "directory", "name": "d", "children": [{"type": "file", "name": "f"}]}


def test_what_the_judge_cannot_judge_is_an_error_that_names_it(vm):
    for evaluator, says in [({"func": "compare_pptx_files"}, "there is no metric 'compare_pptx_files'"),
                            ({"func": "exact_match", "result": {"type": "vlc_config"}, "expected": None}, "there is no getter 'vlc_config'"),
                            ({}, "func: required"), ({"func": "exact_match", "conj": "xor"}, "conj")]:
        r = vm("vm:evaluate", evaluator=evaluator)
        assert r["code"] == 5000 and says in r["message"], r
    assert vm("vm:evaluate", evaluator="text")["code"] != 0


def test_a_task_that_cannot_be_done_is_judged_by_whether_the_agent_said_so(vm):
    infeasible = {"func": "infeasible"}
    easy = {"func": "exact_match", "result": {"type": "vm_command_line", "command": "echo -n 1"}, "expected": {"type": "rule", "rules": {"expected": "1"}}}
    assert vm.data("vm:evaluate", evaluator=infeasible)["score"] == 0
    assert vm.data("vm:fail", reason="no such button") == {"fail": True, "reason": "no such button"}
    vm.data("vm:screenshot")
    r = vm.data("vm:evaluate", evaluator=infeasible)
    assert r["score"] == 1 and r["last_action_failed"] is True
    assert vm.data("vm:evaluate", evaluator=easy)["score"] == 0
    vm.data("vm:move", x=5, y=5)
    assert vm.data("vm:evaluate", evaluator=infeasible)["score"] == 0 and vm.data("vm:evaluate", evaluator=easy)["score"] == 1
    vm.data("vm:fail")
    assert vm.data("vm:done") == {"done": True}
    assert vm.data("vm:evaluate", evaluator=infeasible)["score"] == 0


def test_a_session_may_have_the_accessibility_tree_with_every_answer(server, vm):
    if vm.sh("/usr/bin/python3 -c 'import gi' && test -x /usr/libexec/at-spi-bus-launcher && echo there") != "there\n":
        pytest.skip("Debian's python3-gi and at-spi2-core are not installed")
    v = Vm(server, "seer", accessibility_tree=True)

    def told():
        return v.data("vm:move", x=10, y=10)["accessibility_tree"]
    v.data("desktop:launch", command="exec python3 -c \"import gi; gi.require_version('Gtk', '3.0')\nfrom gi.repository import Gtk\n"
                                     "w = Gtk.Window(title='seen'); w.add(Gtk.Button(label='press me')); w.show_all(); Gtk.main()\" 2>/tmp/gtk")
    if v.sh("sleep 1; cat /tmp/gtk"):  # no GTK here: the tree is then only empty
        assert "accessibility_tree" in v.data("vm:move", x=1, y=1)
    else:
        sg.wait_for(lambda: "press me" in (told() or ""), PATIENCE, every=0.5)
        assert "press me" in v.data("vm:pyautogui", command="pyautogui.move(1, 1)")["accessibility_tree"]
    r = server.request("POST", "/api/v1/session/create", {"worker_id": "x", "resource_type": "vm", "session_config": {"accessibility_tree": "yes"}})
    assert "accessibility_tree: must be true or false" in str(r.json), r
    server.disconnect("seer")
