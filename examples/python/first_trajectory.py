"""The first trajectory: a box, three steps, and what was recorded of them."""

import sandglass

with sandglass.local() as sg:
    with sg.create(memory="512m", ttl=1800) as box:
        box.run("mkdir work; cd work; n=3")
        print(box.run("seq $n | tee list; pwd").stdout, end="")
        bad = box.run("cat missing")
        print(bad.outcome, bad.exit_code, "trainable" if bad.trainable else "not trainable")
        trajectory = box.trajectory()

    for step in trajectory.steps():
        print(f"#{step.step} {step.tool} {step.outcome}: {step.params['command']}")
    assert [s.outcome for s in trajectory.steps()] == ["ok", "ok", "task_error"]
