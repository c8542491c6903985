"""Settings that no other test is about: each has the effect that docs/configuration.md says."""

import os
import pathlib

import pytest
import sg

TOKEN = "the-first-line-of-a-file"


def test_settings_have_their_effects():
    s = sg.Server("--pool-size", "1", "--session-ttl", "1s", "--host-names", "sand.example", "--no-audit", "--auth-jwt-role", "viewer")
    token, key = pathlib.Path(s.home, "token"), pathlib.Path(s.home, "elsewhere.key")
    token.write_text(TOKEN + "\nnot this line\n")
    key.write_bytes(os.urandom(32))
    for f in (token, key):
        f.chmod(0o644)  # serve is not root
    s.flags += ["--auth-token-file", str(token), "--secret-key-file", str(key)]
    s.headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        s.start()
        # auth.token_file: its first line, and nothing else, opens the door
        assert s.get("/auth")["role"] == "admin"
        for wrong in ("not this line", ""):
            assert s.request("GET", "/auth", headers={"Authorization": f"Bearer {wrong}"}).status == 401
        # host.names: no other name
        assert s.request("GET", "/health", headers={"Host": f"sand.example:{s.port}"}).status == 200
        assert s.request("GET", "/health", headers={"Host": f"other.example:{s.port}"}).status == 421
        # session.ttl: what nobody uses goes
        s.session("idle")
        sg.wait_for(lambda: not s.post("/api/v1/session/list", {"worker_id": "idle"})["data"]["sessions"], 60)
        # secret.key_file, audit: what was named elsewhere, or not wanted, is not in the home
        assert s.request("PUT", "/sg/v1/secrets/name", {"value": "a-value-of-some-length"}).status < 300
        assert not os.path.exists(f"{s.home}/secret.key") and b"a-value" not in pathlib.Path(s.home, "secrets").read_bytes()
        assert not os.path.exists(f"{s.home}/audit.log")
    finally:
        s.end()


@pytest.mark.parametrize("flags,key", [
    (["--tls-cert", "{file}", "--tls-key", "{file}"], "tls.cert"),
    (["--auth-jwt-key-file", "{file}"], "auth.jwt_key_file"),
    (["--auth-token-file", "{file}"], "auth.token_file"),
    (["--secret-key-file", "{file}"], "secret.key_file"),
    (["--quota-file", "{file}"], "quota.file"),
    (["--extensions", "{file}"], "extensions"),
    (["--mcp-servers", "{file}"], "mcp.servers"),
    (["--plugins", "{file}"], "plugins"),
])
def test_a_file_that_is_not_there_ends_the_server_at_once(flags, key):
    s = sg.Server("--pool-size", "0")
    file = f"{s.home}/not-there"
    try:
        s.start(*(f.format(file=file) for f in flags), wait=False)
        assert s.guard.wait(sg.PATIENCE) == 2
        log = sg.read(s.log_path)
        said = [line for line in log.splitlines() if file in line]
        assert len(said) == 1 and key in said[0] and "No such file" in said[0], log
        assert "starting it again" not in log, log
    finally:
        s.end()


@pytest.mark.parametrize("flags,said", [
    (["--box-image", "{home}"], ["box.image", "image.roots", "'{home}' is not below"]),
    (["--box-image", "{home}/not-there", "--image-roots", "{home}"], ["box.image", "No such file"]),
    (["--box-mounts", "{home}:/etc", "--mount-roots", "{home}"], ["box.mounts", "mount.roots", "'/etc' is not below"]),
    (["--box-mounts", "{home}/not-there", "--mount-roots", "{home}"], ["box.mounts", "No such file"]),
])
def test_a_directory_that_no_box_can_have_ends_the_server_at_once(flags, said):
    s = sg.Server("--pool-size", "1")
    try:
        s.start(*(f.format(home=s.home) for f in flags), wait=False)
        assert s.guard.wait(sg.PATIENCE) == 2
        log = sg.read(s.log_path)
        assert len(log.splitlines()) == 1 and all(x.format(home=s.home) in log for x in said), log
    finally:
        s.end()


@pytest.mark.skipif(os.getuid() != 0, reason="serve has a user of its own only if root starts it")
def test_a_file_that_serve_may_not_read_ends_the_server_at_once():
    s = sg.Server("--pool-size", "0")
    token = pathlib.Path(s.home, "token")
    token.write_text(TOKEN)
    token.chmod(0o600)
    try:
        for path, why in ((token, "Permission denied"), (s.home, "Is a directory")):
            s.start("--auth-token-file", str(path), wait=False)
            assert s.guard.wait(sg.PATIENCE) == 2
            log = sg.read(s.log_path)
            assert log.count("auth.token_file") == log.count(why) == 1 and str(path) in log, log
            os.truncate(s.log_path, 0)
    finally:
        s.end()
