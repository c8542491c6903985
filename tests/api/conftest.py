"""The server that most tests of this directory talk to: one for the whole run. A module that needs other settings has a
fixture of the same name."""

import pytest

import sg


@pytest.fixture(scope="session")
def server():
    s = sg.Server("--pool-size", "2")
    try:
        yield s.start()
        for box in s.get("/sg/v1/boxes")["boxes"]:
            s.request("DELETE", f"/sg/v1/boxes/{box['id']}")  # it may be ending by itself
        assert s.stop() == 0, s.log_tail()
    finally:
        s.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    used = getattr(item, "funcargs", {}).get("server")
    if report.failed and hasattr(used, "log_tail"):
        report.sections.append(("the server's log", used.log_tail()))
