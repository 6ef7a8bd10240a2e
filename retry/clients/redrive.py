#!/usr/bin/env python3
"""Brings a record back from a dead letter topic: redrive.py BOOTSTRAP DEAD_LETTER_TOPIC PARTITION OFFSET TOPIC"""
import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from consumer import forward

# Without these it is at its first delivery, and as young as one that never failed.
COUNTED = "retry-attempt", "retry-first"


def redrive(producer, topic, dead):
    """Writes a dead record to its topic, or to a retry topic, as if it had not failed; returns once the broker has it."""
    dead.set_headers([(name, value) for name, value in dead.headers() or [] if name not in COUNTED])
    forward(producer, topic, dead)


if __name__ == "__main__":
    servers, dead_letter_topic, partition, offset, topic = sys.argv[1:]
    reader = Consumer({"bootstrap.servers": servers, "group.id": "redrive", "enable.auto.commit": False})
    reader.assign([TopicPartition(dead_letter_topic, int(partition), int(offset))])
    found = reader.poll(10)
    if found is None or found.error() or found.offset() != int(offset):
        sys.exit(f"there is no record at offset {offset}: {found and found.error()}")
    redrive(Producer({"bootstrap.servers": servers, "enable.idempotence": True}), topic, found)
    reader.close()
