#!/usr/bin/env python3
"""A consumer that leaves what it fails at to the relay: consumer.py BOOTSTRAP GROUP TOPIC RETRY_TOPIC"""
import sys

from confluent_kafka import Consumer, KafkaException, Producer


def forward(producer, retry_topic, message):
    """Hands a record that failed to the relay, with all its headers; returns once the broker has it."""
    errors = []
    producer.produce(
        retry_topic, message.value(), message.key(), headers=message.headers(), on_delivery=lambda error, _: errors.append(error)
    )
    producer.flush()
    if errors != [None]:
        raise KafkaException(*errors)


def consume(consumer, producer, retry_topic, handle, stop=lambda: False):
    """Handles one record after the other. Only what was handled, or is with the relay, is committed."""
    while not stop():
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        try:
            handle(message)
        except Exception as error:
            print(f"offset {message.offset()} is left to the relay: {error!r}", file=sys.stderr)
            forward(producer, retry_topic, message)
        consumer.commit(message, asynchronous=False)


def attempt(message):
    """Which delivery of the record this is: 1 for the first."""
    return int(dict(message.headers() or []).get("retry-attempt", 1))


if __name__ == "__main__":
    servers, group, topic, retry_topic = sys.argv[1:]
    settings = {"bootstrap.servers": servers, "group.id": group}
    consumer = Consumer({**settings, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    consume(
        consumer,
        Producer({"bootstrap.servers": servers, "enable.idempotence": True}),
        retry_topic,
        handle=lambda message: print(f"attempt {attempt(message)}: {message.value()}"),
    )
