#!/usr/bin/env python3
"""What a relay does with records, as its users see it: relay_suite.py BOOTSTRAP CONTROL [TEXT]"""
import inspect
import pathlib
import resource

import consumer as example
import redrive
from bench import *

PAGE = pathlib.Path(__file__).parent.parent / "RELAY.md"
SAMPLE = pathlib.Path(__file__).parent.parent / "relay.toml"
# Milliseconds by which a record may come late here: a busy machine, and far less than if it were forgotten.
SLOW = 3000


def on_time(scene, reader, due_of):
    """That no record came before it was due, and how late they were."""
    late = []
    for message, came in zip(reader.taken, reader.came):
        # What the broker keeps as the time of a record has no parts of a millisecond.
        late.append(came - due_of(message))
        demand(late[-1] >= 0, f"{message.value()} came {-late[-1]:.1f} ms too early")
        demand(late[-1] <= SLOW, f"{message.value()} came {late[-1]:.1f} ms too late")
    return percentiles(late)


@scenario("a consumer that fails sees attempt after attempt, and the record as it was, never early")
def _():
    delays, records = [100, 200, 400], 60
    scene = Scene(delays, partitions=3)
    seen, written, late, wrong = {}, {}, [], []
    headers = [("trace", b"1"), ("none", None), ("trace", b"2"), ("binary", bytes(range(256))), ("empty", b"")]

    class Remembering:
        """Notes when a record was forwarded, from which its delay counts."""

        def __init__(self, producer):
            self.producer, self.flush = producer, producer.flush

        def produce(self, topic, value, key, headers, on_delivery):
            def done(error, message):
                written[key, len(seen[key])] = message.timestamp()[1]
                on_delivery(error, message)

            self.producer.produce(topic, value, key, headers=headers, on_delivery=done)

    def handle(message):
        came, key = now_ms(), message.key()
        attempts = seen.setdefault(key, [])
        if attempts:
            late.append(came - written[key, len(attempts)] - delays[len(attempts) - 1])
        attempts.append(example.attempt(message))
        mine = [(name, value) for name, value in message.headers() if not name.startswith("retry-")]
        if mine != headers or message.value() != b"order " + key:
            wrong.append((message.value(), message.headers()))
        if len(attempts) <= int(key.split(b"-")[0]):
            raise ValueError("as its key says")

    scene.forward([(b"%d-%d" % (n % 4, n), b"order %d-%d" % (n % 4, n), headers) for n in range(records)], topic=scene.target)
    options = {**scene.servers, "group.id": fresh("shop"), "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer, stopped = Consumer(options), threading.Event()
    consumer.subscribe([scene.target])
    producer = Remembering(Producer({**scene.servers, "linger.ms": 0}))
    complete = lambda: sum(map(len, seen.values())) == sum(1 + n % 4 for n in range(records))
    with scene.relay(), contextlib.redirect_stderr(open(os.devnull, "w")):
        run = threading.Thread(target=example.consume, args=[consumer, producer, scene.retry, handle, stopped.is_set])
        run.start()
        try:
            until(complete, "all are handled")
        finally:
            stopped.set()
            run.join()
            consumer.close()
    for key, attempts in seen.items():
        demand(attempts == list(range(1, int(key.split(b"-")[0]) + 2)), f"{key} was seen as attempts {attempts}")
    demand(not wrong, f"{len(wrong)} were changed, such as {wrong[:1]}")
    demand(min(late) >= 0, f"one came {-min(late):.1f} ms too early")
    demand(max(late) <= SLOW, f"one came {max(late):.1f} ms too late")
    return f"late by {percentiles(late)}"


@scenario("the consumer on the page is the one that is tested, and the sample of a config is one")
def _():
    demand(inspect.getsource(example.forward).strip() in PAGE.read_text(), "forward() of consumer.py is not on the page")
    scene = Scene()
    text, here = SAMPLE.read_text(), {**scene.settings, "http": "127.0.0.1:0"}
    for name in "brokers", "http", "group":
        text, count = re.subn(rf"(?m)^{name} = .*$", f"{name} = {json.dumps(here[name])}", text)
        demand(count == 1, f"the sample has no {name}")
    with Relay(text) as relay:
        relay.says(r"metrics on http://127\.0\.0\.1:[1-9]\d*/metrics$")


@scenario("a due time in the record beats the table, and does not come back with it")
def _():
    scene = Scene([700])
    with scene.relay() as relay:
        relay.says("assigned")
        start = int(now_ms())
        dues = {b"sooner": start + 300, b"by the table": None, b"later": start + 1500, b"long ago": 5}
        scene.forward([(None, name, due and [("retry-due", b"%d" % due)]) for name, due in dues.items()])
        reader = scene.reader()
        found = reader.exactly(4)
    due_of = lambda one: max(dues[one.value()] or scene.written[one.value()] + 700, start)
    note = on_time(scene, reader, due_of)
    order = [one.value() for one in found]
    demand(order == [b"long ago", b"sooner", b"by the table", b"later"], f"they came as {order}")
    demand(all(header(one, "retry-due") is None for one in found), "an old due time came back")
    return note


@scenario("after the last attempt a record is dead, with where it was read and why")
def _():
    scene = Scene([50, 50])
    headers = [("trace", b"1"), ("retry-attempt", b"3"), ("trace", b"2"), ("retry-first", b"1700000000000")]
    with scene.relay():
        scene.forward([(b"key", b"alive", [("retry-attempt", b"2")]), (b"key", b"dead", headers)])
        reader = scene.reader(scene.dead)
        dead = reader.exactly(1)[0]
        scene.reader().exactly(1)
    demand((dead.key(), dead.value()) == (b"key", b"dead"), f"{dead.key()}, {dead.value()}")
    traces = [value for name, value in dead.headers() if name == "trace"]
    demand(traces == [b"1", b"2"], f"{dead.headers()}")
    told = {name: header(dead, f"retry-{name}") for name in ("attempt", "first", "topic", "partition", "offset")}
    expected = {"attempt": "3", "first": "1700000000000", "topic": scene.retry, "partition": "0", "offset": "1"}
    demand(told == expected, f"{told}")
    demand(header(dead, "retry-reason"), f"no reason: {dead.headers()}")
    return header(dead, "retry-reason")


@scenario("what is brought back from the dead letter topic has a fresh budget, and its other headers")
def _():
    scene = Scene([50])
    old = [("trace", b"1"), ("retry-attempt", b"2"), ("retry-first", b"1700000000000")]
    with scene.relay(backoff={"max_age_ms": 60_000}):
        scene.forward([(b"key", b"value", old)])
        graves, reader = scene.reader(scene.dead), scene.reader()
        redrive.redrive(Producer(scene.servers), scene.retry, graves.exactly(1)[0])
        back = reader.exactly(1)[0]
        demand((back.key(), back.value(), header(back, "trace")) == (b"key", b"value", "1"), f"{back.headers()}")
        demand(header(back, "retry-attempt") == "2", f"{back.headers()}")
        demand(abs(int(header(back, "retry-first")) - now_ms()) < 60_000, f"{back.headers()}")
        example.forward(Producer(scene.servers), scene.retry, back)
        again = graves.exactly(1)[0]
    names = [name for name, _ in again.headers()]
    demand(len(names) == len(set(names)), f"two of one: {names}")


# What makes no sense as a header of the relay's.
ODD = {
    b"attempt of null": [("retry-attempt", None)],
    b"attempt of bytes": [("retry-attempt", b"\xff\xfe")],
    b"due of 30 digits": [("retry-due", b"9" * 30)],
    b"target of nothing": [("retry-target", b"")],
}


@scenario("odd headers stop nothing, and who has them is dead, with a reason")
def _():
    scene = Scene([100])
    with scene.relay() as relay:
        scene.forward([(name, name, headers) for name, headers in ODD.items()])
        scene.forward([(b"sound", b"sound", [("retry-attempt", b"0")])])
        back, dead = scene.reader().exactly(1)[0], scene.reader(scene.dead).exactly(len(ODD))
        until(lambda: scene.committed() == [len(ODD) + 1], f"all are committed: {relay.lines}")
    demand((back.value(), header(back, "retry-attempt")) == (b"sound", "1"), f"{back.value()} {back.headers()}")
    demand({one.value() for one in dead} == set(ODD), f"{[one.value() for one in dead]}")
    for one in dead:
        demand(header(one, "retry-reason"), f"{one.value()} is dead without a reason")
        print(f"     {one.value().decode()}: {header(one, 'retry-reason')}")


@scenario("a record without any target is dead")
def _():
    scene = Scene([50])
    with scene.relay(target=None):
        scene.forward([(b"k", b"lost", None), (b"k", b"found", [("retry-target", scene.target.encode())])])
        dead = scene.reader(scene.dead).exactly(1)[0]
        demand(dead.value() == b"lost" and header(dead, "retry-reason"), f"{dead.value()}, {dead.headers()}")
        scene.reader().exactly(1)
    return header(dead, "retry-reason")


@scenario("no key, an empty one, a tombstone and nothing at all come back as they were")
def _():
    scene = Scene([50])
    pairs = [(None, b"v"), (b"", b"v"), (b"k", None), (b"k", b""), (None, None), (b"", b"")]
    with scene.relay():
        scene.forward([(key, value, [("n", b"%d" % at)]) for at, (key, value) in enumerate(pairs)])
        found = scene.reader().exactly(len(pairs))
    came = {int(header(one, "n")): (one.key(), one.value()) for one in found}
    demand([came[at] for at in range(len(pairs))] == pairs, f"{came}")


@scenario("a value that its target does not take is dead, and one that no topic takes stays and stops nothing")
def _():
    scene = Scene([50], target_config={"max.message.bytes": "500000"})
    # The broker takes batches of 1,048,588 bytes. With what the relay adds to its headers the last one has more.
    back, dead, stays = b"x" * 490_000, b"x" * 600_000, b"x" * 1_048_500
    with scene.relay() as relay:
        large = {"message.max.bytes": 2_000_000, "linger.ms": 0, "batch.num.messages": 1}
        scene.forward([(None, value, None) for value in (back, dead, stays, stays)], **large)
        scene.forward([(None, b"after", None)])
        found = scene.reader().exactly(2)
        demand({one.value() for one in found} == {back, b"after"}, "something else came back")
        buried = scene.reader(scene.dead).exactly(1)[0]
        demand(buried.value() == dead, "something else is dead")
        relay.says(f"{scene.dead} and {scene.retry}.*: what is at 2 is not taken, stays")
        until(lambda: scene.committed() == [2], "what is below it is committed")
        time.sleep(0.5)
        demand(relay.count("is not taken") == 1, f"it is said again: {relay.lines}")
    return header(buried, "retry-reason").replace(scene.target, "the target")


@scenario("records of one key come back in their order, as their delay is the same")
def _():
    scene, count = Scene([150], partitions=3), 2000
    with scene.relay():
        records = [(b"key %d" % (n % 5), b"%d" % n, None) for n in range(count)]
        scene.forward(records, partitioner="murmur2_random")
        found = scene.reader().exactly(count)
    for key in range(5):
        values = [int(one.value()) for one in found if one.key() == b"key %d" % key]
        demand(values == list(range(key, count, 5)), f"key {key} came as {values[:20]}")
    # Where a client in Java has them, by which they were forwarded.
    where = {one.key(): one.partition() for one in found}
    before = {b"key %d" % (int(value) % 5): partition for value, (partition, _) in scene.places.items()}
    demand(where == before, f"keys are in the partitions {where}, and were in {before}")


@scenario("a key goes to the partition that another client's partitioner wants")
def _():
    scene = Scene([50], partitions=5)
    with scene.relay(kafka={"partitioner": "consistent_random"}):
        scene.forward([(b"key %d" % n, b"%d" % n, None) for n in range(50)], partitioner="consistent_random")
        found = scene.reader().exactly(50)
    demand({one.value(): one.partition() for one in found} == {value: at[0] for value, at in scene.places.items()}, "they moved")


@scenario("what is due soon does not wait for what is due late")
def _():
    scene = Scene([300])
    with scene.relay() as relay:
        relay.says("assigned")
        late = int(now_ms()) + 2500
        scene.forward([(b"k", b"late", [("retry-due", b"%d" % late)])])
        scene.forward([(b"k", b"%d" % n, None) for n in range(100)])
        reader = scene.reader()
        reader.take(100)
        demand(now_ms() < late, f"after {len(reader.taken)} records it is too late to tell")
        reader.exactly(1)
    demand(reader.taken[-1].value() == b"late", "the late one was not the last")
    return on_time(scene, reader, lambda one: late if one.value() == b"late" else scene.written[one.value()] + 300)


@scenario("no offset is committed that is not back, while one record is held long")
def _():
    scene = Scene([100])
    with scene.relay(), Commits(scene) as commits:
        late = int(now_ms()) + 3000
        scene.forward([(None, b"before %d" % n, None) for n in range(50)])
        scene.forward([(None, b"late", [("retry-due", b"%d" % late)])])
        scene.forward([(None, b"after %d" % n, None) for n in range(200)])
        reader = scene.reader()
        reader.take(250)
        until(lambda: scene.committed() == [50], "what is below the late one is committed", 2500)
        demand(now_ms() < late, "it is too late to tell")
        reader.exactly(1)
        until(lambda: scene.committed() == [251], "all is committed")
    return commits.check(reader)


@scenario("records that a client compressed come back, by each codec")
def _():
    scene = Scene([100])
    codecs = ["gzip", "snappy", "lz4", "zstd"]
    with scene.relay():
        for codec in codecs:
            records = [(b"k", f"{codec} {n} ".encode() * 50, None) for n in range(50)]
            scene.forward(records, **{"compression.type": codec, "linger.ms": 50})
        values = sorted(one.value() for one in scene.reader().exactly(200))
    demand(values == sorted(f"{codec} {n} ".encode() * 50 for codec in codecs for n in range(50)), "something else came")


@scenario("a partition that is full waits, and the others go on")
def _():
    scene = Scene([100], partitions=2)
    with scene.relay(max_in_flight=10) as relay:
        relay.says("assigned")
        late = int(now_ms()) + 2000
        scene.forward([(None, b"late %d" % n, [("retry-due", b"%d" % late)]) for n in range(10)], partition=0)
        scene.forward([(None, b"behind %d" % n, None) for n in range(5)], partition=0)
        scene.forward([(None, b"beside %d" % n, None) for n in range(10)], partition=1)
        reader = scene.reader()
        first = reader.take(10)
        demand(now_ms() < late, "it is too late to tell")
        demand(all(one.value().startswith(b"beside") for one in first), "one came that had no room")
        reader.exactly(15)
        until(lambda: sum(scene.committed()) == 25, "all are committed")
    due_of = {b"late": lambda _: late, b"behind": lambda _: late, b"beside": lambda value: scene.written[value] + 100}
    return on_time(scene, reader, lambda one: due_of[one.value().split()[0]](one.value()))


@scenario("a partition that was full goes on when there is room for one, whenever the others are due")
def _():
    scene, long = Scene([100]), int(now_ms()) + 3_600_000
    with scene.relay(max_in_flight=16) as relay:
        relay.says("assigned")
        soon = int(now_ms()) + 1500
        dues = [soon, *[long] * 15]
        scene.forward([(None, b"%d" % n, [("retry-due", b"%d" % due)]) for n, due in enumerate(dues)])
        scene.forward([(None, b"behind %d" % n, None) for n in range(2)])
        reader = scene.reader()
        came = [one.value() for one in reader.exactly(3)]
        demand(came == [b"0", b"behind 0", b"behind 1"], f"they came as {came}")
        demand(now_ms() >= soon, "it was never full")
    return f"the last came {reader.came[-1] - soon:.0f} ms after there was room"


@scenario("a crowd of slow clients of its metrics takes nothing from a relay")
def _():
    scene, crowd = Scene([100]), []
    with scene.relay(http="127.0.0.1:0") as relay:
        where = address(relay.says(r"http://([^/]+)/metrics").group(1))
        relay.says("assigned")
        most = 100
        resource.prlimit(relay.process.pid, resource.RLIMIT_NOFILE, (most, most))
        try:
            for _ in range(most):
                crowd.append(socket.create_connection(where, 10))
                crowd[-1].sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            time.sleep(1)
            opened = len(os.listdir(f"/proc/{relay.process.pid}/fd"))
            demand(opened < most - 10, f"it has {opened} files open, of {most}")
            scene.forward([(None, b"1", None)])
            scene.reader().exactly(1)
        finally:
            for one in crowd:
                one.close()
        until(lambda: relay.metrics().get("ixion_relay_republished_total") == 1, "its metrics say so")
    return f"{opened} files were open"


@scenario("one relay reads several topics, and takes other names for the headers")
def _():
    scene, other = Scene([50]), Scene()
    names = {"attempt": "x-try", "due": "x-due", "target": "x-to", "first": "x-first", "reason": "x-why", "topic": "x-topic"}
    headers = "\n[headers]\n" + "\n".join(f"{key} = {json.dumps(name)}" for key, name in names.items())
    with Relay(scene.config(topics=[scene.retry, other.retry]) + headers) as relay:
        relay.says("assigned")
        scene.forward([(b"k", b"one", [("x-try", b"1"), ("retry-attempt", b"2")])])
        due = int(now_ms()) + 500
        other.forward([(b"k", b"two", [("x-to", other.target.encode()), ("x-due", b"%d" % due)])])
        other.forward([(b"k", b"dead", [("x-try", b"2")])])
        reader = other.reader()
        one, two = scene.reader().exactly(1)[0], reader.exactly(1)[0]
        dead = scene.reader(scene.dead).exactly(1)[0]
    demand((one.value(), two.value(), dead.value()) == (b"one", b"two", b"dead"), "they came where they should not")
    demand(reader.came[0] >= due, "it came too early")
    demand(header(one, "x-try") == "2" and header(one, "retry-attempt") == "2", f"{one.headers()}")
    demand(header(two, "x-try") == "2" and header(two, "x-due") is None and header(two, "x-first"), f"{two.headers()}")
    demand(header(dead, "x-why") and header(dead, "x-topic") == other.retry, f"{dead.headers()}")


@scenario("an operator who sets the offset of the group is obeyed")
def _():
    scene = Scene([50])
    scene.forward([(None, b"%d" % n, None) for n in range(10)])
    reader = scene.reader()
    with scene.relay():
        reader.exactly(10)
        until(lambda: scene.committed() == [10], "all are committed")
    scene.commit(7, "by hand")
    with scene.relay():
        found = reader.exactly(3)
        until(lambda: scene.committed() == [10], "all are committed")
    demand([one.value() for one in found] == [b"7", b"8", b"9"], "other records came")


if __name__ == "__main__":
    main()
