#!/usr/bin/env python3
"""What a relay can take, and what its figures say of it: load_suite.py BOOTSTRAP CONTROL [TEXT]"""
from bench import *


def resident_kib(process):
    with open(f"/proc/{process.pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


@scenario("a backlog that is due at once is sent back")
def _():
    count = int(os.environ.get("BACKLOG", "100000"))
    scene = Scene([50])
    past = [("trace", b"1"), ("retry-due", b"1000")]
    scene.forward((b"%d" % (n % 1000), b"%100d" % n, past) for n in range(count))
    with scene.relay() as relay:
        back = scene.reader()
        back.take(1)
        watch = Watch()
        back.exactly(count - 1, 60_000)
        took = watch.ms() - 300
        until(lambda: scene.committed() == [count], f"all are committed: {relay.lines}")
    demand([int(one.value()) for one in back.taken] == list(range(count)), "they came in another order")
    return f"{count} records in {took / 1000:.1f} s, {count / took:.0f} per millisecond"


@scenario("what is held costs little memory, and no more than is allowed")
def _():
    count = int(os.environ.get("HELD", "50000"))
    scene = Scene([50], http="127.0.0.1:0", max_in_flight=count)
    with scene.relay() as relay:
        scene.forward([(b"k", b"first", None)])
        scene.reader().exactly(1)
        empty = resident_kib(relay.process)
        later = [("retry-due", b"%d" % (now_ms() + 3_600_000))]
        scene.forward((b"%d" % n, b"%100d" % n, later) for n in range(count))
        until(lambda: held(relay) >= count - 1, f"they are held: {relay.lines}")
        full = resident_kib(relay.process)
    each = (full - empty) * 1024 / count
    demand(each < 4000, f"{each:.0f} bytes each")
    return f"{each:.0f} bytes for each of {count} of 100 bytes, beside {empty / 1024:.0f} MiB"


def held(relay):
    return sum(value for name, value in relay.metrics().items() if "held" in name)


if __name__ == "__main__":
    main()
