#!/usr/bin/env python3
"""What a relay does when its broker is in trouble, and with configs that are wrong: trouble_suite.py BOOTSTRAP CONTROL [TEXT]"""
from bench import *


def numbered(count, headers=None):
    return [(b"key %d" % (n % 7), b"%d" % n, headers) for n in range(count)]


@scenario("a broker that is stopped for a while and goes on costs time alone")
def _():
    count, stopped, spread_ms = 300, 3, 3000
    with Broker("--group-min-session-timeout-ms", "1000") as broker:
        scene = Scene([700], servers=broker.address)
        scene.create()
        # The session ends meanwhile: the relay has to join again, and another one might have been there.
        with scene.relay(kafka={"session.timeout.ms": 2000}) as relay, Commits(scene) as commits:
            start = now_ms() + 500
            dues = [b"%d" % (start + n * spread_ms / count) for n in range(count)]
            scene.forward([(b"key %d" % (n % 7), b"%d" % n, [("retry-due", due)]) for n, due in enumerate(dues)])
            back = scene.reader()
            early = len(back.take(count // 10))
            broker.process.send_signal(signal.SIGSTOP)
            time.sleep(stopped)
            demand(len(back.taken) < count / 2, f"{len(back.taken)} were back before")
            broker.process.send_signal(signal.SIGCONT)
            watch = Watch()
            until(lambda: len({one.value() for one in back.to_the_end()}) == count, f"all are back: {relay.lines}", 30_000)
            took = watch.ms()
            until(lambda: scene.committed() == [count], f"all are committed: {relay.lines}")
            demand(relay.process.poll() is None, f"the relay has ended: {relay.lines}")
        commits.check(back)
        return f"all are back {took:.0f} ms after {stopped} s, {early} before; {len(back.taken) - count} came twice"


@scenario("a broker that comes after the relay finds it waiting")
def _():
    port = free_port()
    scene = Scene([100], servers=f"127.0.0.1:{port}")
    with scene.relay(kafka={"topic.metadata.refresh.interval.ms": 1000}) as relay:
        time.sleep(2)
        demand(relay.process.poll() is None, f"it did not wait: {relay.lines}")
        said = len(relay.lines)
        demand(said <= 10, f"it has said {said} lines: {relay.lines}")
        with Broker(port=port):
            scene.create()
            scene.forward(numbered(10))
            watch = Watch()
            scene.reader().exactly(10)
            took = watch.ms()
            relay.says("well again")
            code, seconds = relay.end()
            demand(code == 0, f"it exits with {code}")
    return f"all are back after {took:.0f} ms"


@scenario("a relay whose broker is away can be ended")
def _():
    scene = Scene(servers=f"127.0.0.1:{free_port()}")
    with scene.relay() as relay:
        time.sleep(1)
        code, took = relay.end(signal.SIGINT)
    demand(code == 0 and took < 10, f"it exits with {code} after {took:.1f} s: {relay.lines}")
    return f"in {took:.2f} s"


@scenario("a leader that refuses for a while gets each record once in the end")
def _():
    return refused({"request.timeout.ms": 1000, "retry.backoff.ms": 100}, twice=0)


@scenario("a leader that refuses for longer than the client tries gets each record all the same, and none is dead")
def _():
    # What the client gives up may have been written after all, and comes again.
    return refused({"request.timeout.ms": 500, "message.timeout.ms": 1500, "retry.backoff.ms": 100}, twice=200, says="sent again")


def refused(kafka, twice, says=""):
    count, lag = 200, 1000
    with Broker("--replica-lag-time-max-ms", str(lag), "--replica-fetch-wait-ms", "300") as broker:
        scene = Scene([1000], servers=broker.address, target_config={"min.insync.replicas": "2"})
        scene.create()
        with scene.relay(kafka=kafka) as relay, Commits(scene) as commits:
            scene.forward(numbered(count))
            demand(broker.tell("pause") == "ok", "not paused")
            # First it does not answer in time, then it has too few in sync, and refuses.
            time.sleep(1 + 3 * lag / 1000)
            demand(scene.committed() == [0], f"committed: {scene.committed()}")
            demand(broker.tell("resume") == "ok", "not resumed")
            relay.says(says)
            watch, back, dead = Watch(), scene.reader(), scene.reader(scene.dead)
            until(lambda: len({one.value() for one in back.to_the_end()}) == count, f"all are back: {relay.lines}")
            took = watch.ms()
            until(lambda: scene.committed() == [count], f"all are committed: {relay.lines}")
            back.take(1, 300)
        commits.check(back)
        demand(not dead.to_the_end(), f"{len(dead.taken)} are dead")
        demand(len(back.taken) <= count + twice, f"{len(back.taken) - count} came twice")
        return f"all are back {took:.0f} ms later; {len(back.taken) - count} came twice"


WRONG = {
    "no brokers": ({"brokers": None}, "brokers"),
    "a topic read and written": ({"target": "same", "topics": ["same"]}, "line 5: target: .* read"),
    "a setting that librdkafka does not have": ({"kafka": {"no.such.setting": "1"}}, r"line \d+: .*no.such.setting"),
    "a value that librdkafka does not take": ({"kafka": {"session.timeout.ms": "soon"}}, r"line \d+: .*session.timeout.ms"),
}


@scenario("a config that is wrong is refused with exit code 2, and says where")
def _():
    scene = Scene(servers="127.0.0.1:1")
    for name, (changes, expected) in WRONG.items():
        relay = Relay(scene.config(**changes))
        code = relay.process.wait(10)
        relay.kill()
        said = "\n".join(relay.lines)
        is_helpful = re.search(expected, said) and said.endswith("try ixion-retry relay --help")
        demand(code == 2 and is_helpful, f"{name}: exits with {code} and says {relay.lines[:4]}")
        print(f"     {name}: {relay.lines[0].split(relay.path + ': ')[-1][:150]}")


if __name__ == "__main__":
    main()
