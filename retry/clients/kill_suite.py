#!/usr/bin/env python3
"""What becomes of records when relays are killed or stopped: kill_suite.py BOOTSTRAP CONTROL [TEXT]"""
import random

from bench import *

# Milliseconds: how often a relay commits, and how long that may take on a busy machine beyond that.
COMMIT, SLACK = 200, 2000


def killed(kills, kafka, seed):
    """Runs relays that are killed while they publish. Returns what came of it, for a table."""
    chance, chunk, killed_at = random.Random(seed), 60, []
    scene = Scene([50, 150, 300], partitions=2)
    back, dead = scene.reader(), scene.reader(scene.dead)
    published = lambda: sum(back.ends()) + sum(dead.ends())
    with Commits(scene) as commits:
        for first in range(0, 2 * chunk * kills, 2 * chunk):
            # The late one keeps offsets from being committed through the lives of several relays.
            scene.forward(mixed(first, chunk, late_ms=8000))
            with scene.relay(kafka=kafka) as relay:
                before = published()
                until(lambda: published() > before, f"it publishes: {relay.lines}")
                time.sleep(chance.uniform(0, 0.6))
                scene.forward(mixed(first + chunk, chunk))
                # Some live for so long that most of what they have done is not to come again.
                is_old = first // (2 * chunk) % 4 == 1
                time.sleep(chance.uniform(0, 0.6) + is_old * (COMMIT + SLACK + 500) / 1000)
                killed_at.append(now_ms())
                relay.kill()
        count = 2 * chunk * kills
        with scene.relay(kafka=kafka) as relay:
            values = lambda: {one.value() for one in back.to_the_end() + dead.to_the_end()}
            until(lambda: len(values()) == count, f"all are back or dead: {relay.lines}", 30_000)
            until(lambda: sum(scene.committed()) == count, f"all are committed: {relay.lines}")
    commits.check(back, dead)
    wrong = [one for one in dead.taken if int(one.value()) % 4 != 3]
    demand(not wrong, f"{len(wrong)} are dead without a reason")
    times = {}
    for one in back.to_the_end() + dead.to_the_end():
        times.setdefault(one.value(), []).append(one.timestamp()[1])
    for published_at in times.values():
        for earlier in sorted(published_at)[:-1]:
            kept = min((end for end in killed_at if end > earlier), default=now_ms()) - earlier
            demand(kept <= COMMIT + SLACK, f"one came again that had been back for {kept:.0f} ms when its relay was killed")
    is_dead = {one.value() for one in dead.taken}
    twice = sum(map(len, times.values())) - len(times)
    return kills, count, len(times.keys() - is_dead), len(is_dead), count - len(times), twice, max(map(len, times.values()))


@scenario("killed again and again under load, relays lose nothing, and repeat only what was not committed")
def _():
    named = {"group.instance.id": "relay-1", "session.timeout.ms": 6000}
    kinds = [("with a name", named), ("with a name", named), ("without", SHORT)]
    rows = {}

    def run(number):
        rows[number] = kinds[number][0], *killed(12, kinds[number][1], number)

    at_once(len(kinds), run)
    titles = "member", "kills", "records", "back", "dead", "lost", "twice", "most often"
    for row in [titles, *(rows[number] for number in sorted(rows))]:
        print("     " + "".join(f"{cell:>12}" for cell in row))
    return f"{sum(row[1] for row in rows.values())} kills"


@scenario("a relay that was stopped for longer than its session loses nothing when it goes on")
def _():
    scene, count = Scene([500], partitions=4), 400
    with scene.relay(kafka=SHORT) as first, scene.relay(kafka=SHORT) as second, Commits(scene) as commits:
        for relay in (first, second):
            relay.says(r"assigned: \S")
        back, records = scene.reader(), [(b"key %d" % n, b"%d" % n, None) for n in range(count)]
        scene.forward(records[: count // 2])
        time.sleep(0.2)
        first.process.send_signal(signal.SIGSTOP)
        scene.forward(records[count // 2 :])
        until(lambda: len({one.value() for one in back.to_the_end()}) == count, f"all are back: {second.lines}")
        before = len(back.taken)
        first.process.send_signal(signal.SIGCONT)
        until(lambda: sum(scene.committed()) == count, "all are committed")
        back.take(count, 1500)
        demand(first.process.poll() is None, f"it has ended: {first.lines}")
    # It learns only now that others have its partitions: until then it sends what is due.
    commits.check(back, may_repeat=True)
    return f"{before - count} came twice without it, and {len(back.taken) - before} when it went on"


@scenario("of two relays in a group one is killed, and the other takes over")
def _():
    scene = Scene([1000], partitions=4)
    count = 400
    with scene.relay(kafka=SHORT) as first, scene.relay(kafka=SHORT) as second, Commits(scene) as commits:
        for relay in (first, second):
            relay.says(r"assigned: \S")
        # Records are due all the time, so both have some in hand.
        back = scene.reader()
        for part in range(4):
            scene.forward([(b"key %d" % n, b"%d" % n, None) for n in range(part * 100, part * 100 + 100)])
            time.sleep(0.5)
        first.kill()
        watch = Watch()
        until(lambda: len({one.value() for one in back.to_the_end()}) == count, f"all are back: {second.lines}")
        took = watch.ms()
        until(lambda: sum(scene.committed()) == count, "all are committed")
    within(took, 300, SHORT["session.timeout.ms"] + 1000 + LATE, "the rest")
    commits.check(back)
    return f"all is back {took:.0f} ms later, for a session of {SHORT['session.timeout.ms']} ms; {len(back.taken) - count} came twice"


if __name__ == "__main__":
    main()
