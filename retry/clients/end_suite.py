#!/usr/bin/env python3
"""What becomes of records when relays are asked to end, come or leave: end_suite.py BOOTSTRAP CONTROL [TEXT]"""
from bench import *


@scenario("SIGTERM ends a busy relay well, and the next one repeats nothing")
def _():
    scene = Scene([100, 300, 600], partitions=2)
    count = 600
    back, dead = scene.reader(), scene.reader(scene.dead)
    with Commits(scene) as commits:
        scene.forward(mixed(0, count, late_ms=3500))
        with scene.relay() as relay:
            back.take(count // 3)
            code, took = relay.end()
        demand(code == 0, f"it exits with {code}: {relay.lines[-5:]}")
        demand(took < 5, f"it took {took:.1f} s to end")
        until(lambda: all(ends == reader.ends() for reader in (back, dead) for ends in [reader.ends()]), "it is quiet")
        early = len(back.to_the_end()) + len(dead.to_the_end())
        with scene.relay():
            until(lambda: len(back.to_the_end()) + len(dead.to_the_end()) >= count, "all are back or dead")
            until(lambda: sum(scene.committed()) == count, "all are committed")
            back.take(1, 300)
    demand(len(back.taken) + len(dead.taken) == count, f"{len(back.taken)} came back and {len(dead.taken)} are dead, of {count}")
    demand(len({one.value() for one in back.taken + dead.taken}) == count, "one is missing, and one came twice")
    commits.check(back, dead)
    return f"after {early} of {count}, in {took:.2f} s"


@scenario("a relay that is asked to end by Ctrl-C, at once or while it has nothing to do, does so")
def _():
    scene, took = Scene(), []
    for wait in (0.05, 0.3, 1, 2):
        with scene.relay() as relay:
            relay.says("relays")
            time.sleep(wait)
            code, seconds = relay.end(signal.SIGINT)
            demand(code == 0 and seconds < 5, f"asked after {wait} s it exits with {code} after {seconds:.1f} s: {relay.lines}")
            took.append(f"{seconds:.2f}")
    return f"in {', '.join(took)} s"


@scenario("a relay whose output nobody takes relays all the same")
def _():
    scene = Scene([100])
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file, open("/dev/full", "w") as full:
        file.write(scene.config(http="127.0.0.1:0"))
        file.flush()
        relay = subprocess.Popen([os.environ["RELAY"], "relay", "--config", file.name], stdout=full, stderr=full)
        try:
            scene.forward([(None, b"1", None)])
            scene.reader().exactly(1)
            relay.terminate()
            code = relay.wait(20)
        finally:
            relay.kill()
    demand(code == 0, f"it exits with {code}")


@scenario("a relay that comes or leaves takes its part and gives it back, and nothing comes twice")
def _():
    scene = Scene([300], partitions=4)
    count, back = 0, scene.reader()

    def load():
        nonlocal count
        scene.forward([(b"key %d" % n, b"%d" % n, None) for n in range(count, count + 200)])
        count += 200

    with Commits(scene) as commits, scene.relay(kafka=SHORT) as first:
        load()
        back.take(50)
        with scene.relay(kafka=SHORT) as second:
            for _ in range(4):
                load()
                time.sleep(0.4)
            code, _ = first.end()
            demand(code == 0, f"it exits with {code}")
            load()
            until(lambda: len({one.value() for one in back.to_the_end()}) == count, f"all are back: {second.lines}")
            until(lambda: sum(scene.committed()) == count, f"all are committed: {second.lines}")
    commits.check(back)
    demand(len(back.to_the_end()) == count, f"{len(back.taken) - count} of {count} came twice")


if __name__ == "__main__":
    main()
