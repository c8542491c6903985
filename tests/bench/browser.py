"""Browsers in boxes: browser.py record|pool|memory OUT SAMPLES. Starts servers of its own; prints rows, keeps raw samples in OUT."""

import concurrent.futures
import contextlib
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import sg  # noqa: E402

out, samples = sys.argv[2], int(sys.argv[3])
PAGE = "data:text/html,<title>Bench</title><h1>A page</h1><p>of some text</p><button>press</button>"


def keep(name, values, unit="ms"):
    pathlib.Path(out, f"browser_{name}.{unit}").write_text("\n".join(f"{v:.3f}" for v in values) + "\n")
    return statistics.median(values)


def timed(box, tool, params=None):
    begin = time.perf_counter()
    r = box.tool(tool, params)
    took = (time.perf_counter() - begin) * 1000
    assert r["outcome"] == "ok", r
    return took, r


def record():
    with contextlib.ExitStack() as stack:
        boxes = {}
        for how in ("off", "after", "both"):
            server = stack.enter_context(sg.running("--pool-size", "1", "--browser-record", how))
            boxes[how] = stack.enter_context(server.box(memory="2g"))
            timed(boxes[how], "browser:goto", {"url": PAGE})
        times = {how: [] for how in boxes}
        for _ in range(min(samples, 50)):
            for how, box in boxes.items():
                times[how].append(timed(box, "browser:click", {"selector": "button"})[0])
        p50 = {how: keep(f"record_{how}", values) for how, values in times.items()}
    for how in ("after", "both"):
        print(f"click with browser.record = {how}, p50\t{p50[how]:.1f} ms\toff {p50['off']:.1f} ms\t{p50[how] / p50['off']:.2f}\t-\t-\tINFO")


def renderers(server):
    return [p for p in server.box_pids() if "--type=renderer" in sg.read(f"/proc/{p}/cmdline")]


def first_picture(server):
    begin = time.perf_counter()
    with server.box() as box:
        r = box.tool("browser:screenshot")
        took = (time.perf_counter() - begin) * 1000
        assert r["outcome"] == "ok", r
    return took


def pool():
    """From the request for a box to its first screenshot. A box of the pool either way; its browser waits, or is started."""
    times = {"warm": [], "cold": []}
    with sg.running("--pool-size", "2", "--browser-warm") as warm, sg.running("--pool-size", "2") as cold:
        for _ in range(min(samples, 30)):
            times["cold"].append(first_picture(cold))
            sg.wait_for(lambda: len(renderers(warm)) >= 2, 120)
            time.sleep(1)  # it has its page; let it come to rest, as one that waits has
            times["warm"].append(first_picture(warm))
    ours, base = keep("pool_warm", times["warm"]), keep("pool_cold", times["cold"])
    print(f"box and first screenshot from the pool, p50\t{ours:.0f} ms\tcold {base:.0f} ms\t{ours / base:.3f}\t<=\t1/3\t{'PASS' if ours <= base / 3 else 'MISS'}")


def memory_of(pids):
    """Proportional: what several processes share is counted once."""
    total = 0
    for p in pids:
        for line in sg.read(f"/proc/{p}/smaps_rollup").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def memory():
    many = 10
    with sg.running("--pool-size", "0") as server, contextlib.ExitStack() as stack:
        boxes = [stack.enter_context(server.box()) for _ in range(many)]
        with concurrent.futures.ThreadPoolExecutor(many) as threads:
            begin = time.perf_counter()
            answers = list(threads.map(lambda b: b.tool("browser:goto", {"url": PAGE}, timeout=300), boxes))
            took = time.perf_counter() - begin
            assert all(r["outcome"] == "ok" for r in answers), answers
            pictures = list(threads.map(lambda b: b.tool("browser:screenshot", timeout=300), boxes))
            assert all(r["outcome"] == "ok" for r in pictures)
        each = [memory_of(server.box_pids(b.id)) for b in boxes]
    keep("memory_each", each, "MiB")
    print(f"memory of each of {many} browsers with its box at once, PSS, p50\t{statistics.median(each):.0f} MiB\tall {sum(each):.0f} MiB\t-\t-\t-\tINFO")
    print(f"{many} browsers started at once, until the last page is there\t{took:.1f} s\t-\t-\t-\t-\tINFO")


{"record": record, "pool": pool, "memory": memory}[sys.argv[1]]()
