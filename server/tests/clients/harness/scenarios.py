"""What each client must do. A scenario raises, or returns rows for the table."""

import os
import time

from . import plan
from .remoting import Cluster, RemotingError

RECEIVE_SECONDS = 60
RESTART_SECONDS = 150
QUEUES = 4


class Row:
    def __init__(self, mode, sent=0, received=0, equal=0, again=0, seconds=0.0, note=""):
        self.mode = mode
        self.sent = sent
        self.received = received
        self.equal = equal
        self.again = again
        self.seconds = seconds
        self.problems = []
        self.note = note

    @property
    def passed(self):
        return not self.problems


class Bench:
    """One client against one server: names, files and processes of one scenario."""

    def __init__(self, server, client, mode, directory, count, receive_seconds=RECEIVE_SECONDS):
        self.receive_seconds = receive_seconds
        self.server = server
        self.client = client
        self.mode = mode
        self.directory = directory
        self.count = count
        self.cluster = Cluster(server.namesrv)
        self.run = f"{client.name}-{mode}".replace(".", "_")
        self.topic = f"T-{self.run}"
        self.processes = []
        self._probe = 0

    def __enter__(self):
        os.makedirs(self.directory, exist_ok=True)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        self.cluster.close()

    def start(self, label, command, **options):
        group = options.pop("group", f"G-{self.run}")
        process = self.client.start(f"{self.run}-{label}", self.directory, command, namesrv=self.server.namesrv,
                                    topic=self.topic, group=group, instance=f"{label}-{os.getpid()}", **options)
        self.processes.append(process)
        process.wait_event("ready", time.monotonic() + RECEIVE_SECONDS)
        return process

    def consumer(self, label, model="cluster"):
        return self.start(label, "consume", model=model)

    def plan(self, acknowledged_only=False):
        hows = [how for how in self.client.hows if how != "oneway" or not acknowledged_only]
        planned = plan.make(self.run, self.count, hows, self.client.zero_bytes)
        path = os.path.join(self.directory, f"{self.run}.plan")
        plan.write(planned, path)
        return planned, path

    def send_all(self, planned, path):
        """Sends the plan, leaves; returns (seconds, problems)."""
        began = time.monotonic()
        sender = self.start("send", "send", group=f"P-{self.run}", plan=path)
        sender.wait_event("done", time.monotonic() + RECEIVE_SECONDS)
        seconds = time.monotonic() - began
        stored = self.wait_stored(len(planned), time.monotonic() + 20)
        sender.leave()
        return seconds, self.sending_problems(sender, planned, stored)

    def wait_stored(self, wanted, deadline):
        """Messages per broker, once there are at least `wanted` (oneway sends are stored when they are)."""
        while True:
            stored = self.cluster.stored(self.topic)
            if sum(stored.values()) >= wanted or time.monotonic() > deadline:
                return stored
            time.sleep(0.1)

    def sending_problems(self, sender, planned, stored, allow_more=False):
        problems = []
        sent = [event for _, event in sender.events("sent")]
        if {event["i"] for event in sent} != set(range(len(planned))):
            problems.append(f"{len(planned) - len({e['i'] for e in sent})} never sent")
        bad = [event for event in sent if event.get("status", "SEND_OK") != "SEND_OK"]
        if bad:
            problems.append(f"{len(bad)} not SEND_OK, first {bad[0]}")
        total = sum(stored.values())
        if total < len(planned) or (total > len(planned) and not allow_more):
            problems.append(f"{total} stored instead of {len(planned)}")
        problems += self.broker_problems(stored)
        errors = sender.events("error")
        if errors and not allow_more:
            problems.append(f"{len(errors)} send errors, first {plan.text_of(errors[0][1]['text'])}")
        return problems

    def broker_problems(self, stored):
        unused = [name for name in self.server.broker_names if not stored.get(name)]
        return [f"broker {name} got no message" for name in unused]

    def received(self, consumer):
        return [event for _, event in consumer.events("recv")]

    def wait_received(self, consumer, planned, deadline):
        wanted = {p.key for p in planned}
        while True:
            keys = {plan.text_of(event["key"]) for event in self.received(consumer)}
            if wanted <= keys or time.monotonic() > deadline or not consumer.running:
                return
            time.sleep(0.1)

    # --- probes: one message from the harness to every queue, whose receiver is its owner ---

    def probe(self):
        """Sends one message to each queue; returns when (before sending)."""
        began = time.monotonic()
        for name, address, queue in self.cluster.queues(self.topic):
            self._probe += 1
            self.cluster.send(address, self.topic, queue, f"probe/{name}/{queue}/{self._probe}")
        return began

    @staticmethod
    def probes_received(consumer):
        """{queue: (number of the last probe, its arrival)}."""
        last = {}
        for at, event in consumer.events("recv"):
            key = plan.text_of(event["key"]) or ""
            if key.startswith("probe/"):
                _, broker, queue, number = key.split("/")
                if int(number) > last.get((broker, queue), (-1, 0))[0]:
                    last[(broker, queue)] = (int(number), at)
        return last

    def prime(self, consumers, shared, seconds):
        """Probes until each consumer has heard from every queue; with `shared`, until each owns some and all are owned."""
        deadline = time.monotonic() + seconds
        queues = {(name, str(queue)) for name, _, queue in self.cluster.queues(self.topic)}
        while True:
            first = self._probe + 1
            self.probe()
            # A round counts when every queue's probe of that round was heard.
            until = min(time.monotonic() + 1.0, deadline)
            while True:
                heard = [{q for q, (number, _) in self.probes_received(c).items() if number >= first} for c in consumers]
                whole = set().union(*heard) == queues
                if whole and (all(heard) and sum(map(len, heard)) == len(queues) if shared
                              else all(one == queues for one in heard)):
                    return
                if time.monotonic() > until:
                    break
                time.sleep(0.05)
            if time.monotonic() > deadline:
                state = {c.name: sorted(self.probes_received(c)) for c in consumers}
                raise TimeoutError(f"queues {sorted(queues)} weren't all consumed within {seconds} s: {state}")

    def seconds_to_own_all(self, survivor, since, limit):
        """Seconds from `since` until the survivor got from every queue a probe sent after it."""
        queues = {(name, str(queue)) for name, _, queue in self.cluster.queues(self.topic)}
        first = self._probe + 1
        while True:
            self.probe()
            mine = {q: at for q, (number, at) in self.probes_received(survivor).items() if number >= first}
            if set(mine) == queues:
                return self._first_heard(survivor, first, queues) - since
            if time.monotonic() - since > limit + 30:
                raise TimeoutError(f"after {limit + 30:.0f} s the survivor owns only {sorted(mine)} of {sorted(queues)}")
            time.sleep(0.1)

    @staticmethod
    def _first_heard(consumer, first, queues):
        earliest = {}
        for at, event in consumer.events("recv"):
            key = plan.text_of(event["key"]) or ""
            if key.startswith("probe/"):
                _, broker, queue, number = key.split("/")
                if int(number) >= first:
                    earliest.setdefault((broker, queue), at)
        return max(earliest[queue] for queue in queues)


def push(bench):
    """Topic made by the first send; then a new group consumes from the beginning and confirms all."""
    if not bench.client.creates_topics:
        bench.cluster.create_topic(bench.topic, QUEUES)
    planned, path = bench.plan()
    began = time.monotonic()
    _, problems = bench.send_all(planned, path)
    consumer = bench.consumer("consume")
    bench.wait_received(consumer, planned, time.monotonic() + RECEIVE_SECONDS)
    consumer.leave()
    row = compared("push, clustering", planned, bench.received(consumer), time.monotonic() - began)
    row.problems += problems
    committed = bench.cluster.committed(bench.topic, f"G-{bench.run}")
    if committed != len(planned):
        row.problems.append(f"{committed} confirmed at the brokers instead of {len(planned)}")
    return [row]


def broadcast(bench):
    """Two consumers of one group each get everything."""
    bench.cluster.create_topic(bench.topic, QUEUES)
    consumers = [bench.consumer(f"consume-{i}", "broadcast") for i in (1, 2)]
    bench.prime(consumers, False, RECEIVE_SECONDS)
    planned, path = bench.plan()
    before = sum(bench.cluster.stored(bench.topic).values())
    began = time.monotonic()
    sender = bench.start("send", "send", group=f"P-{bench.run}", plan=path)
    sender.wait_event("done", time.monotonic() + RECEIVE_SECONDS)
    stored = bench.wait_stored(before + len(planned), time.monotonic() + 20)
    sender.leave()
    for consumer in consumers:
        bench.wait_received(consumer, planned, time.monotonic() + RECEIVE_SECONDS)
    seconds = time.monotonic() - began
    rows = []
    for number, consumer in enumerate(consumers, 1):
        consumer.leave()
        rows.append(compared(f"push, broadcast, consumer {number}", planned, bench.received(consumer), seconds))
    if sum(stored.values()) != before + len(planned):
        rows[0].problems.append(f"{sum(stored.values()) - before} stored instead of {len(planned)}")
    rows[0].problems += bench.broker_problems(stored)
    return rows


def pull(bench, command):
    """Pulls every queue from its beginning with code 11 (Java's lite pull: whatever code it uses)."""
    if not bench.client.creates_topics:
        bench.cluster.create_topic(bench.topic, QUEUES)
    planned, path = bench.plan()
    began = time.monotonic()
    _, problems = bench.send_all(planned, path)
    puller = bench.start("pull", command, expect=len(planned), seconds=bench.receive_seconds)
    puller.wait_event("done", time.monotonic() + bench.receive_seconds + 15)
    puller.leave()
    row = compared(command.replace("-", " "), planned, bench.received(puller), time.monotonic() - began)
    row.problems += problems
    return [row]


def restart(bench):
    """Half is sent, the broker restarts under a running producer and consumer, the rest is sent: nothing is lost.

    A message may arrive twice (the producer didn't hear the answer and sent it again, the consumer's confirmation
    didn't reach the broker): that is counted, not failed. A generator, so that one restart serves all clients: it
    yields when the server is to be restarted, and again when its sender has been told to go on.
    """
    bench.cluster.create_topic(bench.topic, QUEUES)
    consumer = bench.consumer("consume")
    bench.prime([consumer], True, RECEIVE_SECONDS)
    planned, path = bench.plan(acknowledged_only=True)
    sender = bench.start("send", "send", group=f"P-{bench.run}", plan=path, pause=len(planned) // 2)
    sender.wait_event("paused", time.monotonic() + RECEIVE_SECONDS)
    bench.cluster.close()
    yield
    began = time.monotonic()
    sender.say()
    yield
    sender.wait_event("done", began + RESTART_SECONDS)
    bench.wait_received(consumer, planned, began + RESTART_SECONDS)
    last = max((at for at, _ in consumer.events("recv")), default=time.monotonic())
    stored = bench.cluster.stored(bench.topic)
    problems = bench.sending_problems(sender, planned, stored, allow_more=True)
    sender.leave()
    consumer.leave()
    row = compared("push, through a restart", planned, bench.received(consumer), last - began, allow_again=True)
    row.problems += problems
    errors = len(sender.events("error"))
    if errors:
        row.note = f"{errors} send(s) repeated by the program"
    return [row]


def share(bench):
    """Two consumers share the queues; one leaves, then another is killed: the survivor soon owns all."""
    bench.cluster.create_topic(bench.topic, QUEUES)
    limit = bench.client.own_all_seconds
    rows = []
    survivor = bench.consumer("survivor")
    for how in ("leaves", "is killed"):
        other = bench.consumer("other-" + how.split()[0])
        bench.prime([survivor, other], True, bench.client.join_seconds)
        began = time.monotonic()
        if how == "leaves":
            other.say("stop")
        else:
            other.kill()
        seconds = bench.seconds_to_own_all(survivor, began, limit)
        row = Row(f"share, one {how}", seconds=seconds, note=f"within {limit} s")
        if seconds > limit:
            row.problems.append(f"the survivor owned all queues after {seconds:.1f} s, not {limit} s")
        if how == "leaves" and other.wait(30) != 0:
            row.problems.append(f"{other.name} didn't stop cleanly")
        rows.append(row)
    survivor.leave()
    return rows


def compared(mode, planned, events, seconds, allow_again=False):
    comparison = plan.Comparison(planned, events)
    row = Row(mode, len(planned), comparison.received, len(comparison.equal), comparison.again, seconds)
    row.problems = comparison.problems(allow_again)
    return row


def modes_of(client):
    """{mode: scenario} of all that the client has, but for the restart."""
    modes = {"push": push, "broadcast": broadcast}
    for command in client.pulls:
        modes[command] = lambda bench, command=command: pull(bench, command)
    modes["share"] = share
    return modes


FAILURES = (RuntimeError, TimeoutError, OSError, RemotingError)
