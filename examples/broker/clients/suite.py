"""What the suites in Python share: how scenarios are run, the control port, and members of groups.

A suite is called as `SUITE BOOTSTRAP CONTROL [TEXT]`: with TEXT only the scenarios with it in their names are run. It
prints a line for each and counts them in the last. Nothing may be early. How late a thing may be is bounded by what a
busy machine needs, which is far less than what it would take if the broker forgot about it.
"""
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

# Milliseconds that an answer may be late at the most.
LATE = 5000
# Milliseconds without a heartbeat after which a member is evicted: the least that the broker allows.
SESSION = 6000
# Seconds that a scenario may take at the most.
LIMIT = 90

_scenarios = []


def scenario(name):
    """Marks a function as a scenario. What it returns, if anything, is printed after its name."""

    def keep(function):
        _scenarios.append((name, function))
        return function

    return keep


def main():
    only = " ".join(sys.argv[3:])
    signal.signal(signal.SIGALRM, _give_up)
    passed = failed = 0
    for name, function in _scenarios:
        if only not in name:
            continue
        signal.alarm(LIMIT)
        try:
            note = function()
            passed += 1
            print(f"PASS {name}" + (f": {note}" if note else ""), flush=True)
        except Exception as error:  # Whatever it is, the other scenarios are run.
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
        signal.alarm(0)
    print(f"{passed} passed, {failed} failed", flush=True)
    # Clients leave threads behind which would have to be waited for.
    os._exit(1 if failed or not passed else 0)


def _give_up(*_):
    raise TimeoutError(f"not done after {LIMIT} s")


def demand(condition, otherwise):
    if not condition:
        raise AssertionError(otherwise)


def within(took, low, high, what):
    demand(low <= took <= high, f"{what} took {took:.1f} ms, not {low} to {high}")


class Watch:
    """Milliseconds since it was made."""

    def __init__(self):
        self.begun = time.monotonic()

    def ms(self):
        return (time.monotonic() - self.begun) * 1000


_names = 0


def fresh(prefix):
    """A name that has not been used, by another run neither."""
    global _names
    _names += 1
    return f"{prefix}-{os.getpid()}-{time.time_ns() % 10**9}-{_names}"


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def tell(command):
    """One line to the control port; returns the reply."""
    with socket.create_connection(address(sys.argv[2]), 10) as control:
        control.sendall(f"{command}\n".encode())
        return control.makefile().readline().strip()


def obey(command):
    reply = tell(command)
    demand(reply == "ok", f"{command} was answered with {reply!r}")


@contextlib.contextmanager
def followers_paused():
    obey("pause")
    try:
        yield
    finally:
        obey("resume")


@contextlib.contextmanager
def followers_paused_for(seconds):
    """They are resumed after this time, while the body goes on."""
    obey("pause")
    timer = threading.Timer(seconds, obey, ["resume"])
    timer.start()
    try:
        yield
    finally:
        timer.join()


def gather(more, count, limit=30_000):
    """Calls `more`, which returns a list, until there are so many in all, or the time is up."""
    found, watch = [], Watch()
    while len(found) < count and watch.ms() < limit:
        found += more()
    return found


def at_once(count, work):
    """Runs `work(0)`, `work(1)` and so on in threads; the first that fails fails all."""
    wrong = []

    def run(number):
        try:
            work(number)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


class Member:
    """A member of a group, in a process of its own which prints `has 0 1 2` whenever it gets partitions."""

    def __init__(self, topic, group):
        command = [sys.executable, sys.argv[0], sys.argv[1], sys.argv[2], "--member", topic, group]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.partitions = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["has"]:
                self.partitions = sorted(map(int, words[1:]))

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(20)


def share(members, partitions, limit=40_000):
    """Waits until each has some, and all together have all, none of them twice. Returns how long it took."""
    watch = Watch()
    while True:
        owned = [member.partitions for member in members]
        if all(owned) and sorted(sum(owned, [])) == list(range(partitions)):
            return watch.ms()
        demand(watch.ms() < limit, f"the members have {owned} after {limit} ms")
        time.sleep(0.02)


def a_group_is_shared(topic):
    """Three members on a topic of six partitions: they share it, one is killed, one leaves."""
    group = fresh("group")
    members = [Member(topic, group) for _ in range(3)]
    try:
        joined = share(members, 6)
        members[0].end(signal.SIGKILL)
        evicted = share(members[1:], 6)
        # It had sent its last heartbeat some time before it was killed.
        within(evicted, SESSION / 2, SESSION + 2 * LATE, "to evict the killed member")
        watch = Watch()
        members[1].process.terminate()
        share(members[2:], 6)
        left = watch.ms()
        within(left, 0, SESSION - 500, "to go on without the member that has left")
        return f"shared after {joined:.0f} ms, evicted after {evicted:.0f}, left after {left:.0f}"
    finally:
        for member in members:
            if member.process.poll() is None:
                member.end(signal.SIGKILL)


def run_as_member(run):
    """If this process is to be a member, runs it with the topic, the group, and what says whether to stop."""
    if sys.argv[3:4] != ["--member"]:
        return
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run(sys.argv[4], sys.argv[5], stop.is_set)
    sys.exit(0)


def has(partitions):
    print("has", *partitions, flush=True)
