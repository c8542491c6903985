"""Replay in CI: a run that was recorded must still do the same. The exit code says whether it does."""

import sys

import sandglass

with sandglass.local() as sg:
    with sg.create() as box:  # in CI this happened long ago; the id of its trajectory is kept beside the code
        box.run("printf 'b\\na\\n' > names; sort names")
        box.run("date")
        trajectory = box.trajectory()

    report = sg.trajectory(trajectory.id).replay(verify=True, min_match=1.0, ignore=["[A-Z][a-z]{2} .*20[0-9]{2}.*"])
    for detail in report.details:
        print(f"#{detail['number']} {detail['tool_name']}: {detail['class']}")
    print("match:", report.match)
    sys.exit(0 if report.verified else 1)
