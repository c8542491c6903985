"""Every operation of part 1 through the real Python SDK: run by the interpreter that has it, with the server's URL."""

import sys
import uuid

from agent_sandbox import Sandbox
from agent_sandbox.core.api_error import ApiError

c = Sandbox(base_url=sys.argv[1], timeout=60)


def fails(status, call, **given):
    try:
        call(**given)
    except ApiError as e:
        assert e.status_code == status, (e.status_code, e.body)
        assert e.body is not None
        return
    raise AssertionError(f"{call} {given}: no error")


def same(a, b):
    assert a == b, (a, b)


context = c.sandbox.get_context()
same(context.home_dir, "/home/gem")
assert context.version and context.detail.system.user == "gem" and "Available Tools" in context.data
assert any(p["name"] == "pip" for p in c.sandbox.get_python_packages().data)
c.sandbox.get_nodejs_packages()
c.sandbox.register_hook(name="h", command="true", timeout=2, priority=3)
same([h.name for h in c.sandbox.list_hooks().data], ["h"])
c.sandbox.remove_hook("h")
fails(404, c.sandbox.remove_hook, name="h")
fails(422, c.sandbox.register_hook, name="no good", command="true")
if hasattr(c.sandbox, "observe_status"):  # newer than the SDK of some package indexes
    same(c.sandbox.observe_status().data.running, False)
    assert c.sandbox.observe_live(top_rows=3).data.cgroup.mem_current_bytes > 0
    session = c.sandbox.observe_start(interval_seconds=0.2, include_processes=True).data.session_id
    same(c.sandbox.observe_stop(session_id=session).data.stopped, True)
    report = c.sandbox.observe_export(reason="test").data
    same([r.report_id for r in c.sandbox.observe_reports().data], [report.report_id])
    c.sandbox.observe_report_delete(report.report_id)

same(c.shell.exec_command(command="echo 'Hello World'").data.output, "Hello World")
same(c.shell.exec_command(command="pwd", exec_dir="/home/gem").data.output, "/home/gem")
sid = c.shell.create_session(id=str(uuid.uuid4()), exec_dir="/home/gem", no_change_timeout=120).data.session_id
c.shell.create_session()
c.shell.exec_command(command="export MY_VAR=hello", id=sid)
same(c.shell.exec_command(command="echo $MY_VAR", id=sid).data.output, "hello")
assert sid in c.shell.list_sessions().data.sessions
same(c.shell.exec_command(command="read x; echo got $x", id=sid, async_mode=True).data.status, "running")
c.shell.write_to_process(id=sid, input="42", press_enter=True)
same(c.shell.wait_for_process(id=sid, seconds=10).data.status, "completed")
assert "got 42" in c.shell.view(id=sid).data.output
c.shell.exec_command(command="sleep 60", id=sid, async_mode=True)
same(c.shell.kill_process(id=sid).data.status, "terminated")
c.shell.update_session(id=sid, no_change_timeout=5)
assert c.shell.get_session_stats().data.total_sessions >= 3
assert "/terminal?session_id=" in c.shell.get_terminal_url().data
fails(404, c.shell.exec_command, id="none", command="true")
c.shell.cleanup_session(sid)
c.shell.cleanup_all_sessions()
same(c.shell.list_sessions().data.sessions, {})

same(c.bash.exec(command="echo out; echo err >&2; exit 3", env={"A": "b"}).data.exit_code, 3)
b = c.bash.create_session(session_id="mine", exec_dir="/tmp").data.session_id
run = c.bash.exec(session_id=b, command="cat", async_mode=True).data
c.bash.write(session_id=b, input="x\n")
same(c.bash.output(session_id=b, command_id=run.command_id, wait=True).data.stdout, "x\n")
c.bash.kill(session_id=b)
same(c.bash.output(session_id=b).data.command.exit_code, -15)
assert b in [s.session_id for s in c.bash.sessions().data]
c.bash.close_session(b)
fails(404, c.bash.output, session_id=b)
fails(422, c.bash.exec, command=None)

f = "/home/gem/notes.txt"
same(c.file.write_file(file=f, content="one\ntwo\n", encoding="utf-8").data.bytes_written, 8)
c.file.write_file(file=f, content="three\n", append=True)
same(c.file.read_file(file=f, start_line=1, end_line=2).data.content, "two\n")
try:
    missing = c.file.read_file(file="/none")
    assert missing.success is False and missing.data.error_type == "not_found"
except Exception as e:  # SDKs before 0.0.31 have no model for it, and say so
    assert "ValidationError" in type(e).__name__ or "validation" in str(e), e
same(c.file.replace_in_file(file=f, old_str="two", new_str="2").data.replaced_count, 1)
same(c.file.search_in_file(file=f, regex="^t").data.line_numbers, [2])
match = c.file.grep_files(path="/home/gem", pattern="three", include=["*.txt"], exclude=["node_modules"]).data.matches[0]
assert match.line_content == match.line == "three"
same(c.file.find_files(path="/home/gem", glob="**/*.txt").data.files, [f])
same(c.file.glob_files(path="/home/gem", pattern="*.txt").data.total_count, 1)
assert f in [x.path for x in c.file.list_path(path="/home/gem").data.files]
e = c.file.str_replace_editor
e(command="create", path="/home/gem/hello.py", file_text="def greet(name):\n return f'Hello, {name}!'\n")
e(command="str_replace", path="/home/gem/hello.py", old_str="Hello", new_str="Hi")
view = e(command="view", path="/home/gem/hello.py").data
assert "Hi, {name}" in view.content and view.content == view.output
e(command="undo_edit", path="/home/gem/hello.py")
assert "Hello" in c.file.read_file(file="/home/gem/hello.py").data.content
up = c.file.upload_file(file=("up.bin", b"\0\1\2"), path="/tmp/up.bin").data
same((up.file_size, up.success), (3, True))
same(b"".join(c.file.download_file(path="/tmp/up.bin")), b"\0\1\2")
w = c.file.watch_create(path="/home/gem")["data"]["watcher_id"]
c.file.write_file(file="/home/gem/new", content="x")
assert c.file.watch_poll(w, timeout=5)["events"]
assert c.file.watch_list()["count"] == 1
c.file.watch_events(w)
same(c.file.watch_wait(path="/home/gem/new", event_types=["create"])["event"]["type"], "create")
c.file.watch_stop(w)
fails(404, c.file.watch_poll, watcher_id=w)

same(c.util.convert_to_markdown(uri="data:text/html,<h1>x</h1>").data, "# x\n")
c.bash.exec(command="mkdir -p ~/s && printf -- '---\\nname: s\\n---\\nhi\\n' > ~/s/SKILL.md")
same(c.skills.register_skills(file=None, path="/home/gem/s").data.count, 1)
same([s.name for s in c.skills.list_metadata().data.skills], ["s"])
assert "hi" in c.skills.get_content("s").data.content
c.skills.delete_skill("s")
c.skills.clear_skills()

same(c.proxy.add_mapping(source="app.example", target="3000").data.internal_port, 3000)
same(len(c.proxy.list_mappings().data), 1)
same(c.proxy.diagnose(url="http://app.example/x").data.route, "mapping")
c.proxy.remove_mapping("app.example")
c.proxy.add_exclude(pattern="10.0.0.0/8")
same(c.proxy.list_excludes().data, ["10.0.0.0/8"])
c.proxy.remove_exclude(pattern="10.0.0.0/8")
same(c.proxy.set_upstream(server="u:p@127.0.0.1:9").data.username, "u")
same(c.proxy.get_upstream().data.addr, "127.0.0.1:9")
c.proxy.remove_upstream()
if hasattr(c.proxy, "health"):
    c.proxy.health()
print("sdk: all operations answered")
