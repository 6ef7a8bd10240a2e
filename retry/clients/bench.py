"""What the relay's suites share: brokers, topics, relays in processes of their own, and records.

A suite is called as `SUITE BOOTSTRAP CONTROL [TEXT]`, with the programs in the environment: RELAY is ixion-retry, BROKER
ixion-broker. The scenarios of the example broker's clients are run the same way: see examples/broker/clients/suite.py.
"""
import contextlib
import json
import re
import tempfile
import urllib.request

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from suite import *

# How often the clients try again to reach a broker that is away, in milliseconds.
SOON = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 300}

# The sessions of relays that are killed, in milliseconds: the brokers here allow less than Kafka's 6000.
SHORT = {"session.timeout.ms": 1500, "heartbeat.interval.ms": 300}


def now_ms():
    return time.time() * 1000


def until(condition, what, limit=20_000):
    """Waits until the condition holds, and returns how long it took, in milliseconds."""
    watch = Watch()
    while not condition():
        demand(watch.ms() < limit, f"{what}: not within {limit} ms")
        time.sleep(0.01)
    return watch.ms()


def percentiles(numbers):
    numbers = sorted(numbers)
    at = lambda share: numbers[min(len(numbers) - 1, int(len(numbers) * share))]
    return f"p50 {at(0.5):.0f} ms, p99 {at(0.99):.0f}, most {numbers[-1]:.0f}, of {len(numbers)}"


def header(message, name):
    """The last value of this name, as text; None if there is none."""
    value = dict(message.headers() or []).get(name)
    return None if value is None else value.decode()


class Relay:
    """`ixion-retry relay` in a process of its own, with a config file of this text."""

    def __init__(self, text):
        self.lines = []
        with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
            file.write(text)
        self.path = file.name
        command = [os.environ["RELAY"], "relay", "--config", self.path]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def says(self, text, limit=20_000):
        """Waits for a line with this text, a regular expression, and returns the match."""
        found = lambda: next(filter(None, (re.search(text, line) for line in list(self.lines))), None)
        until(lambda: found() or self.process.poll() is not None, f"'{text}' is not said: {self.lines}", limit)
        demand(found(), f"'{text}' is not said: {self.lines}")
        return found()

    def count(self, text):
        return sum(1 for line in self.lines if re.search(text, line))

    def metrics(self):
        """Each sample's number by its name; those with labels as `name{label="value"}`."""
        address = self.says(r"http://[^ ]+/metrics").group()
        with urllib.request.urlopen(address, timeout=10) as reply:
            return _samples(reply.read().decode())

    def kill(self):
        self.end(signal.SIGKILL)

    def end(self, number=signal.SIGTERM, limit=20):
        """Sends the signal, and returns the exit code and the seconds that it took."""
        watch = Watch()
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(limit)
        self._reader.join(5)
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)
        return code, watch.ms() / 1000

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        """A relay that is still there must end cleanly."""
        if kind is not None:
            self.kill()
            print("     the relay said: " + " | ".join(self.lines[-20:]), flush=True)
        elif self.process.poll() is None:
            code, took = self.end()
            demand(code == 0, f"ended by SIGTERM it exits with {code} after {took:.1f} s: {self.lines[-5:]}")


def _samples(text):
    from prometheus_client.parser import text_string_to_metric_families

    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


class Scene:
    """The topics of a scenario: what a relay reads, where it sends it back to, and the dead letter."""

    def __init__(self, delays=(200,), partitions=1, servers=None, target_config=None, **settings):
        self.servers = {"bootstrap.servers": servers or sys.argv[1], "socket.timeout.ms": 60_000, "log_level": 2, **SOON}
        self.target = fresh("orders")
        self.retry, self.dead, self.group = self.target + ".retry", self.target + ".dead", self.target + ".relay"
        self.partitions, self.target_config = partitions, target_config or {}
        # Of a record that was forwarded, by its value: where in the retry topic it is, and from when on its delay counts.
        self.places, self.written = {}, {}
        self._consumer = None
        self.backoff = {"delays_ms": list(delays), "max_attempts": len(delays) + 1}
        self.settings = {
            "brokers": self.servers["bootstrap.servers"],
            "group": self.group,
            "topics": [self.retry],
            "dead_letter_topic": self.dead,
            "target": self.target,
            **settings,
        }
        self.kafka = {"session.timeout.ms": "6000", **{name: str(value) for name, value in SOON.items()}}
        if servers is None:
            self.create()

    def create(self):
        topics = [NewTopic(one, self.partitions, 3) for one in (self.retry, self.dead)]
        topics.append(NewTopic(self.target, self.partitions, 3, config=self.target_config))
        admin = AdminClient(self.servers)
        for made in admin.create_topics(topics, operation_timeout=20).values():
            made.result(30)

    def config(self, kafka=None, backoff=None, **changes):
        settings = {name: value for name, value in {**self.settings, **changes}.items() if value is not None}
        tables = {"backoff": {**self.backoff, **(backoff or {})}, "kafka": {**self.kafka, **(kafka or {})}}
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        for table, entries in tables.items():
            lines += [f"[{table}]", *(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in entries.items())]
        return "\n".join(lines) + "\n"

    def relay(self, **changes):
        return Relay(self.config(**changes))

    def forward(self, records, topic=None, partition=None, **options):
        """Writes records, (key, value, headers) each, to the retry topic, as a consumer does that fails at them."""
        wrong = []

        def done(error, message):
            if error:
                wrong.append(error)
                return
            self.places[message.value()] = message.partition(), message.offset()
            self.written[message.value()] = message.timestamp()[1]

        # Not an idempotent one: a new one of these may wait for half a second, while the records' time goes on.
        producer = Producer({**self.servers, "linger.ms": 1, "acks": "all", **options})
        where = {} if partition is None else {"partition": partition}
        for key, value, headers in records:
            while True:
                try:
                    producer.produce(topic or self.retry, value, key, headers=headers, on_delivery=done, **where)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush(60)
        demand(not wrong, f"{len(wrong)} records were not written: {wrong[:1]}")

    def reader(self, topic=None):
        return Reader(self.servers, topic or self.target, self.partitions)

    def committed(self):
        """The offset that the relay's group has committed in each partition of the retry topic."""
        places = [TopicPartition(self.retry, partition) for partition in range(self.partitions)]
        return [max(place.offset, 0) for place in self._clerk().committed(places, 20)]

    def commit(self, offset, note):
        """Commits an offset of the first partition for the relay's group, which must have no members."""
        self._clerk().commit(offsets=[TopicPartition(self.retry, 0, offset, note)], asynchronous=False)

    def _clerk(self):
        """A consumer that is no member of the relay's group: it asks for its offsets and sets them."""
        if self._consumer is None:
            self._consumer = Consumer({**self.servers, "group.id": self.group, "enable.auto.commit": False})
        return self._consumer


class Reader:
    """Reads all partitions of a topic from the beginning, and notes when each record came."""

    def __init__(self, servers, topic, partitions):
        self.topic = topic
        self.partitions = partitions
        options = {"group.id": fresh("reader"), "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        self.consumer = Consumer({**servers, **options, "fetch.error.backoff.ms": 50})
        self.consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self.taken, self.came = [], []

    def take(self, count, limit=20_000):
        """The next so many records, or fewer if they don't come in time."""
        watch, first = Watch(), len(self.taken)
        while len(self.taken) - first < count and watch.ms() < limit:
            self._poll(0.05)
        return self.taken[first:]

    def exactly(self, count, limit=20_000, quiet=300):
        """The next records, of which there must be so many: none comes in the quiet time after them either."""
        found = self.take(count, limit)
        demand(len(found) == count, f"{len(found)} records of {self.topic}, not {count}")
        more = self.take(1, quiet)
        demand(not more, f"one record too much: {more and (more[0].key(), more[0].value(), more[0].headers())}")
        return found

    def to_the_end(self):
        """Reads on until there is nothing more now; returns all that was ever read."""
        ends = sum(self.ends())
        while len(self.taken) < ends:
            self._poll(0.05)
        return self.taken

    def ends(self):
        """How many records can be read in all, partition by partition."""
        places = (TopicPartition(self.topic, partition) for partition in range(self.partitions))
        return [self.consumer.get_watermark_offsets(place, 20)[1] for place in places]

    def _poll(self, seconds):
        message = self.consumer.poll(seconds)
        if message is None:
            return
        demand(not message.error(), f"{message.error()}")
        self.taken.append(message)
        self.came.append(now_ms())

    def close(self):
        self.consumer.close()


def mixed(first, count, late_ms=None):
    """Records that are due after the first, the second or the third delay, or dead; and one that is due late."""
    records = [(b"key %d" % (n % 7), b"%d" % n, [("retry-attempt", b"%d" % (n % 4 + 1))]) for n in range(first, first + count)]
    if late_ms is not None:
        records[0][2][:] = [("retry-due", b"%d" % (now_ms() + late_ms))]
    return records


class Commits:
    """Looks again and again at what a scene's relay has committed, and then at how much is back."""

    def __init__(self, scene):
        self.scene = scene
        # Of each look that saw something new: the offsets that were committed, and the ends of the other topics after that.
        self.looks = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        scene = self.scene
        back, dead = scene.reader(), scene.reader(scene.dead)
        last = None
        while not self._over.wait(0.01):
            committed = scene.committed()
            if committed != last:
                self.looks.append((committed, {scene.target: back.ends(), scene.dead: dead.ends()}))
                last = committed
        back.close()
        dead.close()

    def check(self, *readers, may_repeat=False):
        """That what was committed was back by then, and did not come again after it. To be called when all are read."""
        came = {}
        for one in (one for reader in readers for one in reader.taken):
            came.setdefault(self.scene.places[one.value()], []).append(one)
        for (before, _), (after, _) in zip(self.looks, self.looks[1:]):
            demand(all(old <= new for old, new in zip(before, after)), f"commits fell from {before} to {after}")
        checked = 0
        for (partition, offset), messages in came.items():
            look = next((look for look in self.looks if look[0][partition] > offset), None)
            if look is None:
                continue
            checked += 1
            was_back = [one.offset() < look[1][one.topic()][one.partition()] for one in messages]
            demand(any(was_back), f"offset {offset} of partition {partition} was committed, and was not back")
            demand(may_repeat or all(was_back), f"offset {offset} of partition {partition} was committed, and came again")
        missing = [offset for committed, _ in self.looks[-1:] for offset in self._missing(committed, came)]
        demand(not missing, f"{len(missing)} offsets are committed and never came, such as {missing[:3]}")
        return f"{len(self.looks)} commits were looked at, which cover {checked} records"

    def _missing(self, committed, came):
        return [place for place in self.scene.places.values() if place[1] < committed[place[0]] and place not in came]


class Broker:
    """An ixion-broker of its own, on this port or a free one."""

    def __init__(self, *options, port=0):
        command = [os.environ["BROKER"], "serve", "--listen", f"127.0.0.1:{port}", "--control", "127.0.0.1:0"]
        options = ["--group-initial-rebalance-delay-ms", "100", *options]
        self.process = subprocess.Popen(command + options, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = "".join(self.process.stdout.readline() for _ in range(3))
        found = re.search(r"serving on (\S+) .*\ncontrol port on (\S+)", said)
        demand(found, f"the broker did not start: {said}")
        self.address, self.control = found.groups()

    def tell(self, command):
        with socket.create_connection(address(self.control), 10) as control:
            control.sendall(f"{command}\n".encode())
            return control.makefile().readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
