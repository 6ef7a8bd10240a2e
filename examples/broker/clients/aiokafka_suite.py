#!/usr/bin/env python3
"""aiokafka against a broker: aiokafka_suite.py BOOTSTRAP CONTROL [TEXT]"""
import asyncio
import logging
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition, errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

import suite
from suite import *

SERVERS = {"bootstrap_servers": sys.argv[1]}
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def scenario(name):
    """A coroutine, in an event loop of its own."""
    return lambda work: suite.scenario(name)(lambda: asyncio.run(work()))


async def with_admin(work):
    admin = AIOKafkaAdminClient(**SERVERS)
    await admin.start()
    try:
        return await work(admin)
    finally:
        await admin.close()


async def new_topic(partitions=1, **config):
    topic = fresh("aiokafka")
    new = NewTopic(topic, num_partitions=partitions, replication_factor=3, topic_configs=config)
    await with_admin(lambda admin: admin.create_topics([new], timeout_ms=20_000))
    return topic


async def append(topic, values, partition=0, stamp=None, **options):
    """Returns the offsets."""
    async with AIOKafkaProducer(**SERVERS, **{"acks": "all", **options}) as producer:
        pending = [await producer.send(topic, value, partition=partition, timestamp_ms=stamp) for value in values]
        return [(await one).offset for one in pending]


async def reader(topic, partition=0, offset=0, **options):
    consumer = AIOKafkaConsumer(**SERVERS, enable_auto_commit=False, **options)
    await consumer.start()
    place = TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek(place, offset)
    return consumer


async def messages(consumer, count, milliseconds=200):
    polled = await consumer.getmany(timeout_ms=milliseconds, max_records=count)
    return [message for some in polled.values() for message in some]


async def gather(consumer, count, limit=30_000):
    """So many records, or those that come until the time is up."""
    found, watch = [], Watch()
    while len(found) < count and watch.ms() < limit:
        found += await messages(consumer, count - len(found))
    return found


async def read(topic, count, partition=0, offset=0):
    """The first values of a partition, and that nothing follows."""
    consumer = await reader(topic, partition, offset, fetch_max_wait_ms=100)
    found = await gather(consumer, count) + await messages(consumer, 1, 500)
    await consumer.stop()
    offsets = [message.offset for message in found]
    demand(offsets == list(range(offset, offset + len(found))), f"offsets {offsets}")
    return [message.value for message in found]


@scenario("metadata lists three nodes")
async def _():
    topic = await new_topic(5)

    async def look(admin):
        nodes = sorted(node["node_id"] for node in (await admin.describe_cluster())["brokers"])
        demand(nodes == [1, 2, 3], f"nodes {nodes}")
        described = (await admin.describe_topics([topic]))[0]["partitions"]
        partitions = sorted(one["partition"] for one in described)
        demand(partitions == [0, 1, 2, 3, 4], f"partitions {partitions}")

    await with_admin(look)


@scenario("records of acks 0, 1 and all are read back in order")
async def _():
    topic, written = await new_topic(), []
    for acks in [0, 1, "all"]:
        values = [f"{acks} {number}".encode() for number in range(100)]
        async with AIOKafkaProducer(**SERVERS, acks=acks) as producer:
            for value in values:
                await producer.send(topic, value, partition=0)
        written += values
    demand(await read(topic, 300) == written, "something else was read")


@scenario("compressed batches of an idempotent producer are read back")
async def _():
    topic, written = await new_topic(), []
    # The others need packages of their own.
    for codec in [None, "gzip"]:
        values = [f"{codec} {number} {'.' * 100}".encode() for number in range(50)]
        offsets = await append(topic, values, enable_idempotence=True, compression_type=codec, linger_ms=20)
        demand(offsets == list(range(len(written), len(written) + 50)), f"offsets {offsets}")
        written += values
    demand(await read(topic, 100) == written, "something else was read")


@scenario("an append ends a poll that waits")
async def _():
    topic, took = await new_topic(), []
    consumer = await reader(topic, fetch_max_wait_ms=25_000)
    demand(await messages(consumer, 1, 1000) == [], "a record out of nothing")
    async with AIOKafkaProducer(**SERVERS) as producer:
        for number in range(5):
            watch = Watch()
            await producer.send(topic, b"%d" % number, partition=0)
            found = await messages(consumer, 1, 20_000)
            took.append(watch.ms())
            demand([one.value for one in found] == [b"%d" % number], f"{found}")
            await asyncio.sleep(0.2)
    await consumer.stop()
    within(max(took), 0, LATE, "to read a new record")
    return f"{min(took):.0f} to {max(took):.0f} ms"


@scenario("a poll waits for min.bytes")
async def _():
    topic, wait = await new_topic(), 3000
    consumer = await reader(topic, fetch_max_wait_ms=wait, fetch_min_bytes=50_000)
    demand(await messages(consumer, 1, 500) == [], "a record out of nothing")
    watch = Watch()
    await append(topic, [b"small"])
    demand(await messages(consumer, 1, 20_000) != [], "nothing was read")
    few = watch.ms()
    # The poll that gets it may have begun some time before.
    within(few, 300, wait + LATE, "too few bytes")
    watch = Watch()
    await append(topic, [b"x" * 1000] * 60)
    demand(await messages(consumer, 1, 20_000) != [], "nothing was read")
    enough = watch.ms()
    await consumer.stop()
    within(enough, 0, LATE, "enough bytes")
    return f"few after {few:.0f} ms, enough after {enough:.0f}"


@scenario("with a paused follower acks=all ends with a timeout of the broker's")
async def _():
    topic, wait = await new_topic(), 1500
    await append(topic, [b"first"])
    with followers_paused():
        watch = Watch()
        try:
            # This client gives up by itself after the same time: either may be the first.
            await append(topic, [b"late"], request_timeout_ms=wait)
            raise AssertionError("it was answered without a follower")
        except errors.KafkaError:
            took = watch.ms()
        within(took, wait, 2 * wait + LATE, "the timeout")
        await append(topic, [b"soon"], acks=1)
    await append(topic, [b"last"])
    values = await read(topic, 4)
    # It tries again by itself as long as there is time, and is not idempotent here.
    demand(values[0] == b"first" and set(values[1:-2]) == {b"late"} and values[-2:] == [b"soon", b"last"], f"{values}")
    return f"{took:.0f} of {wait} ms"


@scenario("acks=all that waits is answered when the follower is back")
async def _():
    topic = await new_topic()
    await append(topic, [b"first"])
    with followers_paused_for(1):
        watch = Watch()
        await append(topic, [b"second"])
        took = watch.ms()
    # The followers were paused some moments before.
    within(took, 500, 1000 + LATE, "to append with paused followers")
    return f"after {took:.0f} ms"


@scenario("what followers do not have yet is not read")
async def _():
    topic = await new_topic()
    await append(topic, [b"seen"])
    consumer = await reader(topic, fetch_max_wait_ms=300)
    with followers_paused():
        await append(topic, [b"hidden"], acks=1)
        found = await gather(consumer, 2, limit=1500)
        demand([one.value for one in found] == [b"seen"], f"read {len(found)}")
    found = await gather(consumer, 1)
    await consumer.stop()
    demand([one.value for one in found] == [b"hidden"], f"read {len(found)}")


@scenario("topics are created, grow and are deleted")
async def _():
    topic = await new_topic(2)

    async def change(admin):
        error = (await admin.create_topics([NewTopic(topic, 2, 3)], timeout_ms=20_000)).topic_errors[0][1]
        demand(error == errors.TopicAlreadyExistsError.errno, f"created twice: error {error}")
        await admin.create_partitions({topic: NewPartitions(4)}, timeout_ms=20_000)
        await append(topic, [b"new"], partition=3)
        demand(await read(topic, 1, partition=3) == [b"new"], "nothing was read from a new partition")
        for expected in [0, errors.UnknownTopicOrPartitionError.errno]:
            error = (await admin.delete_topics([topic], timeout_ms=20_000)).topic_error_codes[0][1]
            demand(error == expected, f"deleting: error {error}, not {expected}")

    await with_admin(change)


@scenario("records are deleted when the followers have deleted them")
async def _():
    topic = await new_topic()
    await append(topic, [b"%d" % number for number in range(10)])
    place = TopicPartition(topic, 0)
    delete = {place: RecordsToDelete(before_offset=6)}
    low = await with_admin(lambda admin: admin.delete_records(delete, timeout_ms=20_000))
    demand(low == {place: 6}, f"low watermarks {low}")
    demand(await read(topic, 4, offset=6) == [b"6", b"7", b"8", b"9"], "something else was read")
    consumer = await reader(topic)
    demand(await consumer.beginning_offsets([place]) == {place: 6}, "the log does not start there")
    await consumer.stop()


@scenario("offsets are found at both ends and by time")
async def _():
    topic = await new_topic()
    for number in range(5):
        await append(topic, [b"x"], stamp=1000 + number)
    place = TopicPartition(topic, 0)
    consumer = await reader(topic)
    ends = (await consumer.beginning_offsets([place]))[place], (await consumer.end_offsets([place]))[place]
    middle = (await consumer.offsets_for_times({place: 1003}))[place]
    after = (await consumer.offsets_for_times({place: 2000}))[place]
    await consumer.stop()
    demand(ends == (0, 5) and (middle.offset, middle.timestamp) == (3, 1003), f"found {ends}, {middle}")
    demand(after is None, f"found {after} after the end")


@scenario("configs are described")
async def _():
    topic = await new_topic(**{"min.insync.replicas": "2", "retention.bytes": "12345"})
    asked = [ConfigResource(ConfigResourceType.TOPIC, topic)]
    described = str(await with_admin(lambda admin: admin.describe_configs(asked)))
    demand("min.insync.replicas" in described and "12345" in described, described)


@scenario("a member goes on where its group committed")
async def _():
    topic, group = await new_topic(), fresh("group")
    await append(topic, [b"%d" % number for number in range(10)])

    async def take(count):
        options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with AIOKafkaConsumer(topic, **SERVERS, **options, session_timeout_ms=SESSION) as consumer:
            found = await gather(consumer, count)
            await consumer.commit()
        return [message.offset for message in found]

    taken = await take(4), await take(6)
    demand(taken == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9]), f"read {taken}")


@scenario("a group shares its partitions, also when one of three is killed and one leaves")
async def _():
    topic = await new_topic(6)
    return await asyncio.to_thread(a_group_is_shared, topic)


@scenario("many clients at once lose nothing")
async def _():
    topic = await new_topic(4)
    values = [b"%d" % number for number in range(100)]
    await asyncio.gather(*[append(topic, values, partition=number % 4) for number in range(8)])
    for partition in range(4):
        found = await read(topic, 200, partition=partition)
        demand(sorted(found) == sorted(values * 2), f"{len(found)} records in partition {partition}")


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        has([])

    def on_partitions_assigned(self, assigned):
        has([one.partition for one in assigned])


def member(topic, group, stop):
    async def run():
        options = {"group_id": group, "session_timeout_ms": SESSION, "heartbeat_interval_ms": 500}
        consumer = AIOKafkaConsumer(**SERVERS, **options, fetch_max_wait_ms=500)
        await consumer.start()
        consumer.subscribe([topic], listener=Listener())
        while not stop():
            await consumer.getmany(timeout_ms=100)
        await consumer.stop()

    asyncio.run(run())


if __name__ == "__main__":
    run_as_member(member)
    main()
