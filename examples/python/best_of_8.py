"""Best of 8: a task is prepared once, eight copies of the box try it differently, the best one goes on."""

import concurrent.futures

import sandglass

TARGET = 100


def attempt(box: sandglass.Box, seed: int) -> int:
    """Where a model would act: a guess that depends on the seed. The score is how near it comes."""
    box.run(f"echo $(( (seed = {seed}) * 13 )) > guess")
    return -abs(TARGET - int(box.run("cat guess").stdout))


with sandglass.local() as sg, sg.create() as box:
    box.run("echo 'a long preparation' > notes").check()
    copies = box.fork(8)
    try:
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            scores = list(pool.map(attempt, copies, range(1, 9)))
        best = max(range(8), key=lambda i: scores[i])
        print("scores:", scores, "best:", best + 1)
        box.restore(copies[best].snapshot())  # the box goes on from there
        assert box.run("cat notes guess").stdout == "a long preparation\n104\n"
    finally:
        for copy in copies:
            copy.destroy()
