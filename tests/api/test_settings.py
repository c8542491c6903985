"""Settings that no other test is about: each has the effect that docs/configuration.md says."""

import os
import pathlib

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
