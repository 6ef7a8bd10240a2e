"""Requests and replies as they are on the wire, with nothing but the standard library. Old versions, which are short."""
import itertools
import socket
import struct
import time

from suite import address

PRODUCE, FETCH, LIST_OFFSETS, METADATA, JOIN, HEARTBEAT, LEAVE, SYNC = 0, 1, 2, 3, 11, 12, 13, 14
API_VERSIONS, CREATE, DELETE, DELETE_RECORDS, INIT_PRODUCER, GROW = 18, 19, 20, 21, 22, 37
MEGABYTE = 1 << 20


def i16(number):
    return struct.pack(">h", number)


def i32(number):
    return struct.pack(">i", number)


def i64(number):
    return struct.pack(">q", number)


def text(value):
    return i16(len(value)) + value.encode()


def blob(value):
    return i32(len(value)) + value


def array(*items):
    return i32(len(items)) + b"".join(items)


NO_TEXT = i16(-1)


class Reader:
    """Takes a reply apart, from front to back."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        taken = self.data[self.at : self.at + count]
        assert len(taken) == count, "the reply is too short"
        self.at += count
        return taken

    def number(self, code):
        return struct.unpack(">" + code, self.take(struct.calcsize(code)))[0]

    def i16(self):
        return self.number("h")

    def i32(self):
        return self.number("i")

    def i64(self):
        return self.number("q")

    def text(self):
        length = self.i16()
        return None if length < 0 else self.take(length).decode()

    def blob(self):
        return self.take(max(self.i32(), 0))

    def array(self, item):
        return [item() for _ in range(max(self.i32(), 0))]


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


CRC_TABLE = list(_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(number):
    number = number << 1 ^ number >> 63
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def batch(*values, producer=-1, epoch=-1, sequence=-1, stamp=None):
    """A batch of records without keys."""
    stamp = time.time_ns() // 10**6 if stamp is None else stamp
    records = b""
    for delta, value in enumerate(values):
        record = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
        records += varint(len(record)) + record
    counted = i16(0) + i32(len(values) - 1) + i64(stamp) + i64(stamp) + i64(producer) + i16(epoch) + i32(sequence)
    counted += i32(len(values)) + records
    tail = i32(-1) + b"\2" + struct.pack(">I", crc32c(counted)) + counted
    return i64(0) + i32(len(tail)) + tail


_correlation = itertools.count(1)


def frame(key, version, body):
    content = i16(key) + i16(version) + i32(next(_correlation)) + text("wire") + body
    return blob(content)


def produce(topic, records, acks=-1, timeout=30_000, partition=0):
    data = array(text(topic) + array(i32(partition) + blob(records)))
    return frame(PRODUCE, 3, NO_TEXT + i16(acks) + i32(timeout) + data)


def fetch(topic, offset=0, wait=30_000, least=1, partition=0, replica=-1):
    what = array(text(topic) + array(i32(partition) + i64(offset) + i32(MEGABYTE)))
    return frame(FETCH, 4, i32(replica) + i32(wait) + i32(least) + i32(MEGABYTE) + b"\0" + what)


def list_offsets(topic, stamp, partition=0):
    return frame(LIST_OFFSETS, 1, i32(-1) + array(text(topic) + array(i32(partition) + i64(stamp))))


def create(topic, partitions=1, replicas=3, timeout=20_000):
    return frame(CREATE, 2, array(text(topic) + i32(partitions) + i16(replicas) + array() + array()) + i32(timeout) + b"\0")


def delete(topic, timeout=20_000):
    return frame(DELETE, 1, array(text(topic)) + i32(timeout))


def delete_records(topic, offset, timeout=20_000, partition=0):
    return frame(DELETE_RECORDS, 0, array(text(topic) + array(i32(partition) + i64(offset))) + i32(timeout))


def init_producer():
    return frame(INIT_PRODUCER, 0, NO_TEXT + i32(1000))


def api_versions(version=0):
    return frame(API_VERSIONS, version, b"")


def join(group, member="", session=6000, rebalance=60_000):
    protocols = array(text("any") + blob(b""))
    return frame(JOIN, 2, text(group) + i32(session) + i32(rebalance) + text(member) + text("consumer") + protocols)


def sync(group, generation, member, others=()):
    parts = array(*[text(one) + blob(one.encode()) for one in (member, *others)])
    return frame(SYNC, 1, text(group) + i32(generation) + text(member) + parts)


def follow(group, generation, member):
    """The same of a member that does not lead."""
    return frame(SYNC, 1, text(group) + i32(generation) + text(member) + array())


def heartbeat(group, generation, member):
    return frame(HEARTBEAT, 1, text(group) + i32(generation) + text(member))


def leave(group, member):
    return frame(LEAVE, 1, text(group) + text(member))


def one(reply, skip, item):
    """The only partition of the only topic of a reply; `skip` is what stands before the topics."""
    reader = Reader(reply)
    reader.take(skip)
    topics = reader.array(lambda: (reader.text(), reader.array(lambda: item(reader))))
    assert len(topics) == 1 and len(topics[0][1]) == 1, f"the reply is about {topics}"
    return topics[0][1][0]


def produced(reply):
    """(error, base offset)"""
    return one(reply, 4, lambda r: (r.i32(), r.i16(), r.i64(), r.i64()))[1:3]


def fetched(reply):
    """(error, high watermark, record batches)"""

    def item(r):
        _, error, high = r.i32(), r.i16(), r.i64()
        r.i64()
        r.array(lambda: r.take(16))
        return error, high, r.blob()

    return one(reply, 8, item)


def listed(reply):
    """(error, timestamp, offset)"""
    return one(reply, 4, lambda r: (r.i32(), r.i16(), r.i64(), r.i64()))[1:]


def records_deleted(reply):
    """(low watermark, error)"""
    return one(reply, 8, lambda r: (r.i32(), r.i64(), r.i16()))[1:]


def first_topic_error(reply):
    """Of a reply to CreateTopics or DeleteTopics."""
    reader = Reader(reply)
    reader.take(12)
    reader.text()
    return reader.i16()


def producer_made(reply):
    """(producer id, epoch)"""
    reader = Reader(reply)
    reader.take(8)
    assert reader.i16() == 0
    return reader.i64(), reader.i16()


def joined(reply):
    """(error, generation, leader, own id, ids of all if this one leads)"""
    reader = Reader(reply)
    reader.take(8)
    error, generation, _, leader, member = reader.i16(), reader.i32(), reader.text(), reader.text(), reader.text()
    return error, generation, leader, member, reader.array(lambda: (reader.text(), reader.blob())[0])


def error_after_throttle(reply):
    """The error of a reply to SyncGroup, Heartbeat or LeaveGroup."""
    reader = Reader(reply)
    reader.take(8)
    return reader.i16()


class Connection:
    """One connection; replies are without their length."""

    def __init__(self, bootstrap):
        self.socket = socket.create_connection(address(bootstrap), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data):
        self.socket.sendall(data)

    def receive(self, seconds=60):
        self.socket.settimeout(seconds)
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def ask(self, request):
        self.send(request)
        return self.receive()

    def is_closed(self, seconds=20):
        """Whether the broker closes it, and says nothing before."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_silent(self, seconds):
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
            return False
        except TimeoutError:
            return True

    def close(self):
        self.socket.close()

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data += more
        return data
