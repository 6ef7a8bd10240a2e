#!/usr/bin/env python3
"""confluent-kafka, which is librdkafka, against a broker: confluent_suite.py BOOTSTRAP CONTROL [TEXT]"""
import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec

from suite import *

SERVERS = {"bootstrap.servers": sys.argv[1], "socket.timeout.ms": 60_000}
admin = AdminClient(SERVERS)


def new_topic(partitions=1, **config):
    topic = fresh("confluent")
    new = NewTopic(topic, partitions, 3, config=config)
    admin.create_topics([new], operation_timeout=20)[topic].result(30)
    return topic


def send(topic, values, partition=0, **options):
    """Returns the errors and the offsets, in the order in which they came."""
    errors, offsets = [], []

    def done(error, message):
        (errors if error else offsets).append(error or message.offset())

    producer = Producer({**SERVERS, "linger.ms": 1, **options})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=done)
    producer.flush(60)
    return errors, offsets


def append(topic, values, **options):
    errors, offsets = send(topic, values, **options)
    demand(not errors and len(offsets) == len(values), f"{options}: {errors[:1]}, {len(offsets)} offsets")


def reader(topic, partition=0, offset=0, **options):
    consumer = Consumer({**SERVERS, "group.id": fresh("reader"), "enable.auto.commit": False, **options})
    consumer.assign([TopicPartition(topic, partition, offset)])
    return consumer


def messages(consumer, count, seconds=0.2):
    """Those that come within so many seconds. An error fails the scenario."""
    found = consumer.consume(count, seconds)
    for message in found:
        demand(not message.error(), f"{message.error()}")
    return found


def read(topic, count, partition=0, offset=0):
    """The first values of a partition, and that nothing follows."""
    consumer = reader(topic, partition, offset, **{"fetch.wait.max.ms": 100})
    found = gather(lambda: messages(consumer, count), count) + messages(consumer, 1, 0.5)
    consumer.close()
    offsets = [message.offset() for message in found]
    demand(offsets == list(range(offset, offset + len(found))), f"offsets {offsets}")
    return [message.value() for message in found]


def refusal(future):
    """The code of the error with which it ends."""
    try:
        future.result(60)
    except KafkaException as error:
        return error.args[0].code()
    raise AssertionError("it was not refused")


@scenario("metadata lists three nodes")
def _():
    topic = new_topic(5)
    metadata = admin.list_topics(topic, timeout=20)
    demand(sorted(metadata.brokers) == [1, 2, 3], f"{metadata.brokers}")
    partitions = metadata.topics[topic].partitions
    demand(len(partitions) == 5, f"{len(partitions)} partitions")
    demand(all(sorted(one.replicas) == [1, 2, 3] and one.leader == 1 for one in partitions.values()), "replicas")


@scenario("records of acks 0, 1 and all are read back in order")
def _():
    topic, written = new_topic(), []
    for acks in ["0", "1", "all"]:
        values = [f"{acks} {number}".encode() for number in range(100)]
        append(topic, values, acks=acks)
        written += values
    demand(read(topic, 300) == written, "something else was read")


@scenario("compressed batches of an idempotent producer are read back")
def _():
    topic, written = new_topic(), []
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"]:
        values = [f"{codec} {number} {'.' * 100}".encode() for number in range(50)]
        append(topic, values, **{"enable.idempotence": True, "compression.type": codec, "linger.ms": 20})
        written += values
    demand(read(topic, 250) == written, "something else was read")


@scenario("an append ends a poll that waits")
def _():
    topic = new_topic()
    consumer = reader(topic, **{"fetch.wait.max.ms": 30_000})
    demand(messages(consumer, 1, 1) == [], "a record out of nothing")
    took = []
    for number in range(5):
        watch = Watch()
        append(topic, [b"%d" % number])
        found = messages(consumer, 1, 20)
        took.append(watch.ms())
        demand([one.value() for one in found] == [b"%d" % number], f"{found}")
        time.sleep(0.2)
    consumer.close()
    within(max(took), 0, LATE, "to read a new record")
    return f"{min(took):.0f} to {max(took):.0f} ms"


@scenario("a poll waits for min.bytes")
def _():
    topic, wait = new_topic(), 8000
    consumer = reader(topic, **{"fetch.wait.max.ms": wait, "fetch.min.bytes": 50_000})
    demand(messages(consumer, 1, 1) == [], "a record out of nothing")
    watch = Watch()
    append(topic, [b"small"])
    demand(messages(consumer, 1, 20) != [], "nothing was read")
    few = watch.ms()
    # The poll that gets them may have begun some time before.
    within(few, 300, wait + LATE, "too few bytes")
    watch = Watch()
    append(topic, [b"x" * 1000] * 60)
    demand(messages(consumer, 1, 20) != [], "nothing was read")
    enough = watch.ms()
    consumer.close()
    within(enough, 0, LATE, "enough bytes")
    return f"few after {few:.0f} ms, enough after {enough:.0f}"


@scenario("with a paused follower acks=all ends with a timeout of the broker's")
def _():
    topic = new_topic()
    append(topic, [b"first"])
    with followers_paused():
        watch = Watch()
        errors, _ = send(topic, [b"late"], **{"acks": "all", "request.timeout.ms": 1000, "retries": 0})
        took = watch.ms()
        demand([error.code() for error in errors] == [KafkaError.REQUEST_TIMED_OUT], f"{errors}")
        within(took, 1000, 1000 + LATE, "the timeout")
        watch = Watch()
        append(topic, [b"soon"], acks="1")
        within(watch.ms(), 0, LATE, "acks=1")
    append(topic, [b"last"])
    demand(read(topic, 4) == [b"first", b"late", b"soon", b"last"], "something is missing")
    return f"{took:.0f} of 1000 ms"


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
        again = {"enable.idempotence": True, "request.timeout.ms": 500, "retry.backoff.ms": 100}
        watch = Watch()
        append(topic, [b"once"], **again)
        took = watch.ms()
    within(took, 1500, 2500 + 2 * LATE, "to append with paused followers")
    append(topic, [b"last"], **{"enable.idempotence": True})
    values = read(topic, 3)
    demand(values == [b"first", b"once", b"last"], f"read {values}")


@scenario("what followers do not have yet is not read")
def _():
    topic = new_topic()
    append(topic, [b"seen"])
    consumer = reader(topic, **{"fetch.wait.max.ms": 300})
    with followers_paused():
        append(topic, [b"hidden"], acks="1")
        found = gather(lambda: messages(consumer, 2), 2, limit=1500)
        demand([one.value() for one in found] == [b"seen"], f"read {len(found)}")
        demand(consumer.get_watermark_offsets(TopicPartition(topic, 0), 20) == (0, 1), "wrong ends")
    found = gather(lambda: messages(consumer, 1), 1)
    consumer.close()
    demand([one.value() for one in found] == [b"hidden"], f"read {len(found)}")


@scenario("too few in sync refuse acks=all")
def _():
    lag = int(os.environ.get("LAG_MS", "30000"))
    topic = new_topic(**{"min.insync.replicas": "2"})
    append(topic, [b"first"])
    with followers_paused():
        watch = Watch()
        refused = []
        while not refused and watch.ms() < 3 * lag + LATE:
            errors, _ = send(topic, [b"refused"], **{"acks": "all", "retries": 0, "request.timeout.ms": 500})
            refused = [one for one in errors if one.code() != KafkaError.REQUEST_TIMED_OUT]
        demand([one.code() for one in refused] == [KafkaError.NOT_ENOUGH_REPLICAS], f"{refused}")
        append(topic, [b"accepted"], acks="1")
        took = watch.ms()
    within(took, lag * 0.8, 3 * lag + LATE, "to leave the followers behind")
    append(topic, [b"last"], **{"message.timeout.ms": 60_000})
    return f"after {took:.0f} ms, of an allowed lag of {lag}"


@scenario("topics that wait for a paused follower time out and are there later")
def _():
    topic = fresh("confluent")
    with followers_paused():
        watch = Watch()
        code = refusal(admin.create_topics([NewTopic(topic, 2, 3)], operation_timeout=1)[topic])
        took = watch.ms()
    demand(code == KafkaError.REQUEST_TIMED_OUT, f"error {code}")
    within(took, 1000, 1000 + LATE, "the timeout")
    append(topic, [b"after all"])
    return f"{took:.0f} of 1000 ms"


@scenario("topics are created, grow and are deleted")
def _():
    topic = new_topic(2)
    code = refusal(admin.create_topics([NewTopic(topic, 2, 3)])[topic])
    demand(code == KafkaError.TOPIC_ALREADY_EXISTS, f"error {code} for what exists")
    admin.create_partitions([NewPartitions(topic, 4)], operation_timeout=20)[topic].result(30)
    append(topic, [b"new"], partition=3)
    demand(read(topic, 1, partition=3) == [b"new"], "nothing was read from a new partition")
    code = refusal(admin.create_partitions([NewPartitions(topic, 4)])[topic])
    demand(code == KafkaError.INVALID_PARTITIONS, f"error {code} for as many as before")
    admin.delete_topics([topic], operation_timeout=20)[topic].result(30)
    code = refusal(admin.delete_topics([topic])[topic])
    demand(code == KafkaError.UNKNOWN_TOPIC_OR_PART, f"error {code} for what is gone")


@scenario("records are deleted when the followers have deleted them")
def _():
    topic = new_topic()
    append(topic, [b"%d" % number for number in range(10)])

    def delete(offset, seconds):
        request = admin.delete_records([TopicPartition(topic, 0, offset)], operation_timeout=seconds)
        return next(iter(request.values()))

    demand(delete(4, 20).result(30).low_watermark == 4, "another low watermark")
    with followers_paused():
        watch = Watch()
        code = refusal(delete(6, 1))
        took = watch.ms()
    demand(code == KafkaError.REQUEST_TIMED_OUT, f"error {code}")
    within(took, 1000, 1000 + LATE, "the timeout")
    demand(delete(6, 20).result(30).low_watermark == 6, "another low watermark after that")
    demand(read(topic, 4, offset=6) == [b"6", b"7", b"8", b"9"], "something else was read")
    return f"{took:.0f} of 1000 ms"


@scenario("offsets are found at both ends and by time")
def _():
    topic = new_topic()
    for number in range(5):
        errors = []
        producer = Producer(SERVERS)
        producer.produce(topic, b"x", partition=0, timestamp=1000 + number, on_delivery=lambda e, _: errors.append(e))
        producer.flush(30)
        demand(errors == [None], f"{errors}")
    place = TopicPartition(topic, 0)

    def found(spec):
        return admin.list_offsets({place: spec})[place].result(30).offset

    ends = found(OffsetSpec.earliest()), found(OffsetSpec.latest()), found(OffsetSpec.for_timestamp(1003))
    demand(ends == (0, 5, 3), f"found {ends}")
    consumer = reader(topic)
    times = consumer.offsets_for_times([TopicPartition(topic, 0, 1002), TopicPartition(topic, 0, 1002)], 20)
    demand(times[0].offset == 2, f"found {times}")
    consumer.close()


@scenario("configs are described")
def _():
    topic = new_topic(**{"min.insync.replicas": "2", "retention.bytes": "12345"})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(30)
    described = {name: configs[name].value for name in ["min.insync.replicas", "retention.bytes"]}
    demand(described == {"min.insync.replicas": "2", "retention.bytes": "12345"}, f"{described}")


@scenario("a member goes on where its group committed")
def _():
    topic, group = new_topic(), fresh("group")
    append(topic, [b"%d" % number for number in range(10)])

    def take(count):
        options = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**SERVERS, **options, "session.timeout.ms": SESSION})
        consumer.subscribe([topic])
        found = []
        found = gather(lambda: messages(consumer, count - len(found)), count)
        consumer.commit(message=found[count - 1], asynchronous=False)
        consumer.close()
        return [message.offset() for message in found[:count]]

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


def member(topic, group, stop):
    options = {"group.id": group, "session.timeout.ms": SESSION, "heartbeat.interval.ms": 500}
    consumer = Consumer({**SERVERS, **options})
    assigned = lambda _, partitions: has([one.partition for one in partitions])
    consumer.subscribe([topic], on_assign=assigned, on_revoke=lambda *_: has([]))
    while not stop():
        consumer.poll(0.1)
    consumer.close()


if __name__ == "__main__":
    run_as_member(member)
    main()
