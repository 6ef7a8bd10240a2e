#!/usr/bin/env python3
"""kafka-python against a broker: kafka_python_suite.py BOOTSTRAP CONTROL [TEXT]"""
import logging
import sys

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.admin import NewTopic

from suite import *

SERVERS = {"bootstrap_servers": sys.argv[1]}
logging.getLogger("kafka").setLevel(logging.CRITICAL)
admin = KafkaAdminClient(**SERVERS)


def new_topic(partitions=1, **config):
    topic = fresh("kafka-python")
    new = NewTopic(topic, num_partitions=partitions, replication_factor=3, topic_configs=config)
    admin.create_topics([new], timeout_ms=20_000)
    return topic


def producer(**options):
    return KafkaProducer(**SERVERS, **{"acks": "all", "enable_idempotence": False, **options})


def append(topic, values, partition=0, stamp=None, **options):
    """Returns the offsets."""
    sender = producer(**options)
    pending = [sender.send(topic, value, partition=partition, timestamp_ms=stamp) for value in values]
    offsets = [one.get(60).offset for one in pending]
    sender.close()
    return offsets


def reader(topic, partition=0, offset=0, **options):
    consumer = KafkaConsumer(**SERVERS, enable_auto_commit=False, **options)
    place = TopicPartition(topic, partition)
    consumer.assign([place])
    consumer.seek(place, offset)
    return consumer


def messages(consumer, count, milliseconds=200):
    polled = consumer.poll(timeout_ms=milliseconds, max_records=count)
    return [message for some in polled.values() for message in some]


def read(topic, count, partition=0, offset=0):
    """The first values of a partition, and that nothing follows."""
    consumer = reader(topic, partition, offset, fetch_max_wait_ms=100)
    found = gather(lambda: messages(consumer, count), count) + messages(consumer, 1, 500)
    consumer.close()
    offsets = [message.offset for message in found]
    demand(offsets == list(range(offset, offset + len(found))), f"offsets {offsets}")
    return [message.value for message in found]


def refused(kind, work):
    try:
        answer = work()
    except kind:
        return
    raise AssertionError(f"it was answered with {answer}")


@scenario("metadata lists three nodes")
def _():
    topic = new_topic(5)
    nodes = sorted(node["broker_id"] for node in admin.describe_cluster()["brokers"])
    demand(nodes == [1, 2, 3], f"nodes {nodes}")
    consumer = KafkaConsumer(**SERVERS)
    partitions = consumer.partitions_for_topic(topic)
    consumer.close()
    demand(partitions == {0, 1, 2, 3, 4}, f"{partitions}")


@scenario("records of acks 0, 1 and all are read back in order")
def _():
    topic, written = new_topic(), []
    for acks in [0, 1, "all"]:
        values = [f"{acks} {number}".encode() for number in range(100)]
        append(topic, values, acks=acks)
        written += values
    demand(read(topic, 300) == written, "something else was read")


@scenario("compressed batches of an idempotent producer are read back")
def _():
    topic, written = new_topic(), []
    # The others need packages of their own.
    for codec in [None, "gzip"]:
        values = [f"{codec} {number} {'.' * 100}".encode() for number in range(50)]
        offsets = append(topic, values, enable_idempotence=True, compression_type=codec, linger_ms=20)
        demand(offsets == list(range(len(written), len(written) + 50)), f"offsets {offsets}")
        written += values
    demand(read(topic, 100) == written, "something else was read")


@scenario("an append ends a poll that waits")
def _():
    topic, sender, took = new_topic(), producer(), []
    consumer = reader(topic, fetch_max_wait_ms=25_000)
    demand(messages(consumer, 1, 1000) == [], "a record out of nothing")
    for number in range(5):
        watch = Watch()
        sender.send(topic, b"%d" % number, partition=0)
        found = messages(consumer, 1, 20_000)
        took.append(watch.ms())
        demand([one.value for one in found] == [b"%d" % number], f"{found}")
        time.sleep(0.2)
    sender.close()
    consumer.close()
    within(max(took), 0, LATE, "to read a new record")
    return f"{min(took):.0f} to {max(took):.0f} ms"


@scenario("a poll waits for min.bytes")
def _():
    topic, wait = new_topic(), 8000
    consumer = reader(topic, fetch_max_wait_ms=wait, fetch_min_bytes=50_000)
    demand(messages(consumer, 1, 1000) == [], "a record out of nothing")
    watch = Watch()
    append(topic, [b"small"])
    demand(messages(consumer, 1, 20_000) != [], "nothing was read")
    few = watch.ms()
    # The poll that gets them may have begun some time before.
    within(few, 300, wait + LATE, "too few bytes")
    watch = Watch()
    append(topic, [b"x" * 1000] * 60)
    demand(messages(consumer, 1, 20_000) != [], "nothing was read")
    enough = watch.ms()
    consumer.close()
    within(enough, 0, LATE, "enough bytes")
    return f"few after {few:.0f} ms, enough after {enough:.0f}"


@scenario("with a paused follower acks=all ends with a timeout of the broker's")
def _():
    topic, wait = new_topic(), 1500
    append(topic, [b"first"])
    with followers_paused():
        # This client gives up by itself after the same time: either may be the first.
        options = {"request_timeout_ms": wait, "delivery_timeout_ms": 30_000, "retries": 0}
        watch = Watch()
        refused(errors.KafkaError, lambda: append(topic, [b"late"], **options))
        took = watch.ms()
        within(took, wait, wait + LATE, "the timeout")
        append(topic, [b"soon"], acks=1)
    append(topic, [b"last"])
    demand(read(topic, 4) == [b"first", b"late", b"soon", b"last"], "something is missing")
    return f"{took:.0f} of {wait} ms"


@scenario("acks=all that waits is answered when the follower is back")
def _():
    topic = new_topic()
    append(topic, [b"first"])
    with followers_paused_for(1):
        watch = Watch()
        append(topic, [b"second"])
        took = watch.ms()
    # The followers were paused some moments before.
    within(took, 500, 1000 + LATE, "to append with paused followers")
    return f"after {took:.0f} ms"


@scenario("what timed out and is sent again is kept once")
def _():
    topic = new_topic()
    append(topic, [b"first"])
    with followers_paused_for(2.5):
        options = {"request_timeout_ms": 700, "delivery_timeout_ms": 60_000, "retries": 100}
        watch = Watch()
        append(topic, [b"once"], enable_idempotence=True, **options)
        took = watch.ms()
    within(took, 1500, 2500 + 2 * LATE, "to append with paused followers")
    append(topic, [b"last"], enable_idempotence=True)
    values = read(topic, 3)
    demand(values == [b"first", b"once", b"last"], f"read {values}")


@scenario("what followers do not have yet is not read")
def _():
    topic = new_topic()
    append(topic, [b"seen"])
    consumer = reader(topic, fetch_max_wait_ms=300)
    with followers_paused():
        append(topic, [b"hidden"], acks=1)
        found = gather(lambda: messages(consumer, 2), 2, limit=1500)
        demand([one.value for one in found] == [b"seen"], f"read {len(found)}")
    found = gather(lambda: messages(consumer, 1), 1)
    consumer.close()
    demand([one.value for one in found] == [b"hidden"], f"read {len(found)}")


@scenario("topics are created, grow and are deleted")
def _():
    topic = new_topic(2)
    refused(errors.TopicAlreadyExistsError, lambda: admin.create_topics([NewTopic(topic, 2, 3)], timeout_ms=20_000))
    admin.create_partitions({topic: 4}, timeout_ms=20_000)
    append(topic, [b"new"], partition=3)
    demand(read(topic, 1, partition=3) == [b"new"], "nothing was read from a new partition")
    admin.delete_topics([topic], timeout_ms=20_000)
    refused(errors.UnknownTopicOrPartitionError, lambda: admin.delete_topics([topic], timeout_ms=20_000))


@scenario("records are deleted when the followers have deleted them")
def _():
    topic = new_topic()
    append(topic, [b"%d" % number for number in range(10)])
    place = TopicPartition(topic, 0)
    admin.delete_records({place: 6}, timeout_ms=20_000)
    demand(read(topic, 4, offset=6) == [b"6", b"7", b"8", b"9"], "something else was read")
    consumer = reader(topic)
    demand(consumer.beginning_offsets([place]) == {place: 6}, "the log does not start there")
    consumer.close()


@scenario("offsets are found at both ends and by time")
def _():
    topic = new_topic()
    for number in range(5):
        append(topic, [b"x"], stamp=1000 + number)
    place = TopicPartition(topic, 0)
    consumer = reader(topic)
    ends = consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
    middle = consumer.offsets_for_times({place: 1003})[place]
    after = consumer.offsets_for_times({place: 2000})[place]
    consumer.close()
    demand(ends == (0, 5) and (middle.offset, middle.timestamp) == (3, 1003), f"found {ends}, {middle}")
    demand(after is None, f"found {after} after the end")


@scenario("configs are described")
def _():
    from kafka.admin import ConfigResource, ConfigResourceType

    topic = new_topic(**{"min.insync.replicas": "2", "retention.bytes": "12345"})
    described = str(admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
    demand("min.insync.replicas" in described and "12345" in described, described)


@scenario("a member goes on where its group committed")
def _():
    topic, group = new_topic(), fresh("group")
    append(topic, [b"%d" % number for number in range(10)])

    def take(count):
        options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = KafkaConsumer(topic, **SERVERS, **options, session_timeout_ms=SESSION)
        found = []
        while len(found) < count:
            found += messages(consumer, count - len(found))
        consumer.commit()
        consumer.close()
        return [message.offset for message in found]

    taken = take(4), take(6)
    demand(taken == ([0, 1, 2, 3], [4, 5, 6, 7, 8, 9]), f"read {taken}")


@scenario("a group shares its partitions, also when one of three is killed and one leaves")
def _():
    return a_group_is_shared(new_topic(6))


@scenario("many clients at once lose nothing")
def _():
    topic = new_topic(4)
    values = [b"%d" % number for number in range(100)]
    at_once(8, lambda number: append(topic, values, partition=number % 4))

    def check(partition):
        found = read(topic, 200, partition=partition)
        demand(sorted(found) == sorted(values * 2), f"{len(found)} records in partition {partition}")

    at_once(4, check)


class Listener(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked):
        has([])

    def on_partitions_assigned(self, assigned):
        has([one.partition for one in assigned])


def member(topic, group, stop):
    options = {"group_id": group, "session_timeout_ms": SESSION, "heartbeat_interval_ms": 500}
    consumer = KafkaConsumer(**SERVERS, **options, fetch_max_wait_ms=500)
    consumer.subscribe([topic], listener=Listener())
    while not stop():
        consumer.poll(timeout_ms=100)
    consumer.close()


if __name__ == "__main__":
    run_as_member(member)
    main()
