#!/usr/bin/env python3
"""When exactly the broker answers, seen on the wire: wire_probe.py BOOTSTRAP CONTROL [TEXT]"""
import os
import struct
import sys
import time

from suite import *
from wire import *

BOOTSTRAP = sys.argv[1]
# Milliseconds that half of the answers may be late at the most; LATE is for the slowest.
MOSTLY = 250
NONE, OUT_OF_RANGE, CORRUPT, UNKNOWN_TOPIC, TIMED_OUT = 0, 1, 2, 3, 7
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCING, BAD_VERSION, OUT_OF_ORDER = 22, 25, 27, 35, 45


def connect():
    return Connection(BOOTSTRAP)


def new_topic(partitions=1):
    topic = fresh("wire")
    error = first_topic_error(connect().ask(create(topic, partitions)))
    demand(error == NONE, f"creating a topic: error {error}")
    return topic


def append(topic, *values, connection=None, **options):
    """Appends a batch, which must succeed; returns its offset."""
    error, offset = produced((connection or connect()).ask(produce(topic, batch(*values), **options)))
    demand(error == NONE, f"a produce request: error {error}")
    return offset


def never_early(late, what):
    """Demands it of milliseconds of lateness, and that they are few; says how few."""
    late = sorted(late)
    middle = late[len(late) // 2]
    demand(late[0] >= 0, f"{what}: {-late[0]:.2f} ms early")
    demand(middle <= MOSTLY and late[-1] <= LATE, f"{what}: {middle:.1f} ms late, {late[-1]:.1f} at the most")
    return f"{what} p50 {middle:.2f} ms, max {late[-1]:.2f}"


@scenario("an empty poll is answered when its wait is over")
def _():
    topic, connection, late = new_topic(), connect(), []
    for wait in [1, 5, 20, 50, 100, 200, 500, 1000] * 3:
        watch = Watch()
        answer = fetched(connection.ask(fetch(topic, wait=wait)))
        late.append(watch.ms() - wait)
        demand(answer == (NONE, 0, b""), f"an empty poll was answered with {answer}")
    return never_early(late, "late by")


@scenario("a poll that waits for nothing is answered at once")
def _():
    topic, connection = new_topic(), connect()
    append(topic, b"here")
    late = []
    for options in [{"wait": 0, "offset": 1}, {"least": 0, "offset": 1}, {"offset": 0}] * 4:
        watch = Watch()
        error, _, _ = fetched(connection.ask(fetch(topic, **options)))
        late.append(watch.ms())
        demand(error == NONE, f"error {error}")
    return never_early(late, "after")


@scenario("an append ends a poll that waits")
def _():
    topic, reader, writer, late = new_topic(), connect(), connect(), []
    for offset in range(15):
        reader.send(fetch(topic, offset))
        demand(reader.is_silent(0.05), "answered without a record")
        watch = Watch()
        writer.send(produce(topic, batch(b"morning")))
        error, high, records = fetched(reader.receive())
        late.append(watch.ms())
        demand((error, high) == (NONE, offset + 1) and b"morning" in records, f"answered with {error}, {high}")
        demand(produced(writer.receive()) == (NONE, offset), "the append failed")
    return never_early(late, "after")


@scenario("a poll waits for min.bytes")
def _():
    topic, reader, writer = new_topic(), connect(), connect()
    size = len(batch(b"x" * 100))
    reader.send(fetch(topic, least=4 * size))
    for _ in range(3):
        append(topic, b"x" * 100, connection=writer)
        demand(reader.is_silent(0.15), "answered before there was enough")
    watch = Watch()
    append(topic, b"x" * 100, connection=writer)
    _, _, records = fetched(reader.receive())
    within(watch.ms(), 0, LATE, "a poll that has enough")
    demand(len(records) == 4 * size, f"{len(records)} bytes, not {4 * size}")
    # One byte more than there is: its time must run out, and then it gets what there is.
    watch = Watch()
    _, _, records = fetched(reader.ask(fetch(topic, wait=300, least=4 * size + 1)))
    within(watch.ms(), 300, 300 + LATE, "a poll that never has enough")
    demand(len(records) == 4 * size, f"{len(records)} bytes, not {4 * size}")


@scenario("requests of one connection are answered in order")
def _():
    topic, connection = new_topic(), connect()
    requests = [fetch(topic, wait=400), api_versions(), list_offsets(topic, -1), fetch(topic, wait=1)]
    watch = Watch()
    connection.send(b"".join(requests))
    for request in requests:
        reply = connection.receive()
        within(watch.ms(), 400, 400 + LATE, "what comes after a poll")
        demand(reply[:4] == request[8:12], "a reply to another request")


@scenario("records of acks 0, 1 and all are read back in order")
def _():
    topic, connection = new_topic(), connect()
    for number in range(30):
        request = produce(topic, batch(b"%d" % number), acks=[0, 1, -1][number % 3])
        connection.send(request)
        if number % 3:
            # What comes is the answer to this one: there is none to acks=0.
            reply = connection.receive()
            demand(reply[:4] == request[8:12], "acks=0 was answered")
            demand(produced(reply) == (NONE, number), f"record {number}: {produced(reply)}")
    _, high, records = fetched(connection.ask(fetch(topic)))
    offsets = []
    while records:
        base, length = struct.unpack(">qi", records[:12])
        demand(records[12 + length - 1 - len(b"%d" % base) : 12 + length - 1] == b"%d" % base, "a wrong record")
        offsets.append(base)
        records = records[12 + length :]
    demand(offsets == list(range(30)) and high == 30, f"read back: {offsets}, {high}")


@scenario("with a paused follower acks=all ends with a timeout of the broker's")
def _():
    topic, connection, late = new_topic(), connect(), []
    append(topic, b"warm")
    with followers_paused():
        for number, timeout in enumerate([1, 10, 50, 100, 200, 400, 800]):
            watch = Watch()
            error, offset = produced(connection.ask(produce(topic, batch(b"late"), timeout=timeout)))
            late.append(watch.ms() - timeout)
            demand((error, offset) == (TIMED_OUT, number + 1), f"answered with {error}, {offset}")
        watch = Watch()
        append(topic, b"soon", acks=1)
        within(watch.ms(), 0, LATE, "acks=1")
    demand(append(topic, b"last") == 9, "something is missing")
    return never_early(late, "late by")


@scenario("acks=all that waits is answered when the follower is back")
def _():
    topic, connection, late = new_topic(), connect(), []
    append(topic, b"warm")
    for offset in range(1, 6):
        with followers_paused():
            connection.send(produce(topic, batch(b"wait")))
            demand(connection.is_silent(0.2), "answered without the followers")
            watch = Watch()
        demand(produced(connection.receive()) == (NONE, offset), "the append failed")
        late.append(watch.ms())
    return never_early(late, "after")


@scenario("what timed out and is sent again is kept once")
def _():
    topic, connection = new_topic(), connect()
    producer, epoch = producer_made(connection.ask(init_producer()))

    def send(sequence, timeout):
        records = batch(b"once", producer=producer, epoch=epoch, sequence=sequence)
        return produced(connection.ask(produce(topic, records, timeout=timeout)))

    demand(send(0, 20_000) == (NONE, 0), "the first one failed")
    with followers_paused():
        for _ in range(2):
            demand(send(1, 100) == (TIMED_OUT, 1), "not timed out at offset 1")
    demand(send(1, 20_000) == (NONE, 1), "the one that is sent again is not at offset 1")
    demand(send(2, 20_000) == (NONE, 2), "the next one is not at offset 2")
    demand(send(5, 20_000)[0] == OUT_OF_ORDER, "a gap is not refused")


@scenario("what followers do not have yet is not read")
def _():
    topic, reader = new_topic(), connect()
    append(topic, b"seen")
    with followers_paused():
        append(topic, b"hidden", acks=1)
        reader.send(fetch(topic, 1))
        demand(reader.is_silent(0.5), "read before the followers had it")
        demand(listed(connect().ask(list_offsets(topic, -1)))[2] == 1, "the end is past what may be read")
    error, high, records = fetched(reader.receive())
    demand((error, high) == (NONE, 2) and b"hidden" in records, f"answered with {error}, {high}")


@scenario("topics that wait for a paused follower time out and are there later")
def _():
    connection, late = connect(), []
    with followers_paused():
        for timeout in [10, 100, 500]:
            topic = fresh("wire-slow")
            watch = Watch()
            error = first_topic_error(connection.ask(create(topic, timeout=timeout)))
            late.append(watch.ms() - timeout)
            demand(error == TIMED_OUT, f"error {error}")
    append(topic, b"after all")
    return never_early(late, "late by")


@scenario("records are deleted when the followers have deleted them")
def _():
    topic, connection, late = new_topic(), connect(), []
    for _ in range(10):
        append(topic, b"old", connection=connection)
    answer = records_deleted(connection.ask(delete_records(topic, 4)))
    demand(answer == (4, NONE), f"answered with {answer}")
    with followers_paused():
        for timeout in [10, 100, 500]:
            watch = Watch()
            _, error = records_deleted(connection.ask(delete_records(topic, 6, timeout=timeout)))
            late.append(watch.ms() - timeout)
            demand(error == TIMED_OUT, f"error {error}")
    demand(records_deleted(connection.ask(delete_records(topic, 6))) == (6, NONE), "not deleted after that")
    demand(listed(connection.ask(list_offsets(topic, -2))) == (NONE, -1, 6), "the log does not start there")
    demand(fetched(connection.ask(fetch(topic, 5)))[0] == OUT_OF_RANGE, "what is deleted can be read")
    return never_early(late, "late by")


@scenario("a topic's deletion ends what waits for it")
def _():
    late = []
    for _ in range(5):
        topic, reader, writer = new_topic(), connect(), connect()
        append(topic, b"warm")
        with followers_paused():
            reader.send(fetch(topic, 1))
            writer.send(produce(topic, batch(b"lost")))
            demand(reader.is_silent(0.1) and writer.is_silent(0.1), "answered too soon")
            other = connect()
            watch = Watch()
            other.send(delete(topic))
            demand(fetched(reader.receive())[0] == UNKNOWN_TOPIC, "the poll ended with another error")
            demand(produced(writer.receive())[0] == UNKNOWN_TOPIC, "the append ended with another error")
            late.append(watch.ms())
        demand(first_topic_error(other.receive()) == NONE, "not deleted")
    return never_early(late, "after")


@scenario("what cannot be served is refused at once")
def _():
    topic, connection, late = new_topic(), connect(), []
    append(topic, b"one")
    spoilt = bytearray(batch(b"spoilt"))
    spoilt[-2] ^= 1
    cases = [
        (fetch(topic, 99), fetched, OUT_OF_RANGE),
        (fetch(topic, -1), fetched, OUT_OF_RANGE),
        (fetch(topic, partition=7), fetched, UNKNOWN_TOPIC),
        (fetch(fresh("wire-none")), fetched, UNKNOWN_TOPIC),
        (produce(fresh("wire-none"), batch(b"x")), produced, UNKNOWN_TOPIC),
        (produce(topic, bytes(spoilt)), produced, CORRUPT),
        (produce(topic, batch(b"x"), acks=5), produced, 21),
        (delete(fresh("wire-none")), lambda reply: [first_topic_error(reply)], UNKNOWN_TOPIC),
        (heartbeat(fresh("wire-none"), 1, "nobody"), lambda reply: [error_after_throttle(reply)], UNKNOWN_MEMBER),
    ]
    for request, read, want in cases:
        watch = Watch()
        error = read(connection.ask(request))[0]
        late.append(watch.ms())
        demand(error == want, f"error {error}, not {want}")
    return never_early(late, "after")


@scenario("malformed frames hurt nobody else")
def _():
    topic, bystander = new_topic(), connect()
    bystander.send(fetch(topic))
    whole = [produce(topic, batch(b"x")), fetch(topic), create("cut"), join("cut"), delete_records(topic, 1)]
    # Cut in the middle, with a length that says it is all there.
    cut = [blob(request[4 : 4 + (len(request) - 4) * 2 // 3]) for request in whole]
    closed = [b"\x80\0\0\0", b"\x7f\xff\xff\xff", blob(b""), blob(b"\0"), frame(999, 0, b""), frame(-1, 0, b"")]
    closed += [frame(FETCH, 99, b""), frame(METADATA, 1, i32(MEGABYTE << 8)), *cut]
    for junk in closed:
        connection = connect()
        connection.send(junk)
        demand(connection.is_closed(), f"not closed after {junk[:40]!r}")
    for junk in [b"\0", b"\0\0\0\xff", whole[0][:20], os.urandom(64)]:
        connection = connect()
        connection.send(junk)
        connection.close()
    # Above the newest version the broker says which it has, and goes on.
    connection = connect()
    reader = Reader(connection.ask(api_versions(99)))
    reader.take(4)
    error, keys = reader.i16(), reader.array(lambda: (reader.i16(), reader.i16(), reader.i16()))
    demand(error == BAD_VERSION and len(keys) >= 18, f"error {error} and {len(keys)} keys")
    append(topic, b"well", connection=connection)
    demand(b"well" in fetched(bystander.receive())[2], "the one that waited got something else")
    return f"{len(closed)} were closed"


def member_of(group, **options):
    """Joins an empty group and leads it; returns the connection, the generation and the member's id."""
    connection = connect()
    error, generation, leader, member, _ = joined(connection.ask(join(group, **options)))
    demand(error == NONE and leader == member, f"joining ended with error {error}")
    demand(error_after_throttle(connection.ask(sync(group, generation, member))) == NONE, "synchronizing failed")
    return connection, generation, member


@scenario("a silent member is evicted when its session is over")
def _():
    group = fresh("wire-group")
    connection, generation, silent = member_of(group)
    other, late = connect(), []
    reply = error_after_throttle(connection.ask(heartbeat(group, generation + 1, silent)))
    demand(reply == ILLEGAL_GENERATION, f"a heartbeat of another generation: error {reply}")
    time.sleep(1)
    watch = Watch()
    demand(error_after_throttle(connection.ask(heartbeat(group, generation, silent))) == NONE, "the heartbeat failed")
    # Its connection is closed: that must not evict it.
    connection.close()
    error, _, leader, member, all_members = joined(other.ask(join(group)))
    late.append(watch.ms() - SESSION)
    demand((error, leader, all_members) == (NONE, member, [member]), f"joined with {error}, {all_members}")
    demand(error_after_throttle(connect().ask(heartbeat(group, generation, silent))) == UNKNOWN_MEMBER, "still there")
    return never_early(late, "late by")


@scenario("a rebalance is over when all have joined, or its time is up")
def _():
    group = fresh("wire-group")
    first, generation, leader = member_of(group, session=30_000, rebalance=1500)
    second = connect()
    second.send(join(group, session=30_000, rebalance=1500))
    demand(second.is_silent(0.3), "joined before all had")
    reply = error_after_throttle(first.ask(heartbeat(group, generation, leader)))
    demand(reply == REBALANCING, f"a heartbeat in a rebalance: error {reply}")
    watch = Watch()
    error, generation, _, _, both = joined(first.ask(join(group, leader, session=30_000, rebalance=1500)))
    _, _, _, member, _ = joined(second.receive())
    within(watch.ms(), 0, LATE, "the last to join")
    demand(error == NONE and sorted(both) == sorted([leader, member]), f"joined with {error}, {both}")
    # The one that does not lead waits for what the leader says.
    second.send(follow(group, generation, member))
    demand(second.is_silent(0.3), "synchronized before the leader had")
    demand(error_after_throttle(first.ask(sync(group, generation, leader, [member]))) == NONE, "the leader's failed")
    demand(error_after_throttle(second.receive()) == NONE, "the other's failed")
    # A third one comes, and the leader does not join again.
    third = connect()
    watch = Watch()
    third.send(join(group, session=30_000, rebalance=1500))
    second.send(join(group, member, session=30_000, rebalance=1500))
    error, _, _, newest, _ = joined(third.receive())
    late = watch.ms() - 1500
    demand(error == NONE and joined(second.receive())[0] == NONE, f"joining ended with error {error}")
    reply = error_after_throttle(first.ask(heartbeat(group, generation, leader)))
    demand(reply == UNKNOWN_MEMBER, f"the one that was left behind gets error {reply}")
    demand(error_after_throttle(third.ask(leave(group, newest))) == NONE, "leaving failed")
    return never_early([late], "late by")


@scenario("many clients at once lose nothing")
def _():
    topic = new_topic(4)

    def client(number):
        partition, connection = number % 4, connect()
        for _ in range(25):
            append(topic, b"x", connection=connection, partition=partition)

    at_once(16, client)
    ends = [listed(connect().ask(list_offsets(topic, -1, partition)))[2] for partition in range(4)]
    demand(ends == [100] * 4, f"the partitions end at {ends}")


if __name__ == "__main__":
    main()
