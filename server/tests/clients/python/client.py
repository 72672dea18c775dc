"""The PyPI client rocketmq (its core is the C++ client), driven by the harness.

See ../README.md for the commands, the plan and the events. The C interface hands bodies over as C strings, so a
plan for this client has none with a zero byte; and it can only look up properties by name, so the names wanted
are given by `props=a,b`.
"""

import base64
import json
import sys
import threading
import time

from rocketmq.client import Message, Producer, PullConsumer, PushConsumer
from rocketmq.ffi import MessageModel

BATCH = 10
SEND_DEADLINE_S = 90
OPTIONS = dict(argument.split("=", 1) for argument in sys.argv[2:])
OUTPUT = threading.Lock()


def line(value):
    with OUTPUT:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()


def encode(value):
    return None if value is None else base64.b64encode(value).decode()


def decode(text):
    return base64.b64decode(text)


def problem(exc):
    line({"ev": "error", "text": encode(repr(exc).encode())})


# --- send ---------------------------------------------------------------------------------------------------------


def read_plan():
    plan = []
    with open(OPTIONS["plan"], encoding="ascii") as lines:
        for text in lines:
            index, how, key, tag, body, props = text.rstrip("\n").split("\t")
            message = Message(OPTIONS["topic"])
            message.set_keys(decode(key))
            message.set_tags(decode(tag))
            message.set_body(decode(body))
            for pair in props.split(","):
                name, value = pair.split(":")
                message.set_property(name, decode(value))
            plan.append((int(index), how, message))
    return plan


def sent(index, result=None):
    event = {"ev": "sent", "i": index}
    if result is not None:
        event["status"] = "SEND_" + result.status.name
    line(event)


def until_confirmed(attempt):
    deadline = time.monotonic() + SEND_DEADLINE_S
    while True:
        try:
            return attempt()
        except Exception as exc:
            problem(exc)
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def send_async(producer, run):
    answered = threading.Semaphore(0)
    failed = []

    def on_failure(one, exc):
        problem(exc)
        failed.append(one)
        answered.release()

    for one in run:

        def on_success(result, one=one):
            sent(one[0], result)
            answered.release()

        try:
            producer.send_async(one[2], on_success, lambda exc, one=one: on_failure(one, exc))
        except Exception as exc:
            on_failure(one, exc)
    for _ in run:
        if not answered.acquire(timeout=SEND_DEADLINE_S):
            raise TimeoutError("async sends were never answered")
    for index, _, message in failed:
        sent(index, until_confirmed(lambda message=message: producer.send_sync(message)))


def send_run(producer, run):
    how = run[0][1]
    if how == "sync":
        for index, _, message in run:
            sent(index, until_confirmed(lambda message=message: producer.send_sync(message)))
    elif how == "async":
        send_async(producer, run)
    elif how == "oneway":
        for index, _, message in run:
            producer.send_oneway(message)
            sent(index)
    elif how == "batch":
        result = until_confirmed(lambda: producer.send_batch([message for _, _, message in run]))
        for index, _, _ in run:
            sent(index, result)
    else:
        raise ValueError(how)


def send():
    producer = Producer(OPTIONS["group"])
    producer.set_namesrv_addr(OPTIONS["namesrv"])
    producer.start()
    line({"ev": "ready"})
    pause = int(OPTIONS.get("pause", -1))
    plan = read_plan()
    at = 0
    while at < len(plan):
        if at == pause:
            line({"ev": "paused"})
            sys.stdin.readline()
        end = at + 1
        while end < len(plan) and end != pause and end - at < BATCH and plan[end][1] == plan[at][1]:
            end += 1
        send_run(producer, plan[at:end])
        at = end
    line({"ev": "done"})
    sys.stdin.readline()
    producer.shutdown()
    line({"ev": "stopped"})


# --- receive ------------------------------------------------------------------------------------------------------


def received(message):
    props = {name: encode(message.get_property(name)) for name in OPTIONS["props"].split(",")}
    line(
        {
            "ev": "recv",
            "queue": message.queue_id,
            "offset": message.queue_offset,
            "key": encode(message.keys),
            "tag": encode(message.tags),
            "body": encode(message.body),
            "props": props,
        }
    )


def consume():
    broadcast = OPTIONS["model"] == "broadcast"
    model = MessageModel.BROADCASTING if broadcast else MessageModel.CLUSTERING
    consumer = PushConsumer(OPTIONS["group"], message_model=model)
    consumer.set_namesrv_addr(OPTIONS["namesrv"])
    consumer.set_instance_name(OPTIONS["instance"])
    consumer.subscribe(OPTIONS["topic"], received)
    consumer.start()
    line({"ev": "ready"})
    sys.stdin.readline()
    consumer.shutdown()
    line({"ev": "stopped"})


class PullFromSeveralBrokers(PullConsumer):
    """The library keeps its offsets by topic and queue id only, so queue 0 of two brokers would share one."""

    def _get_mq_key(self, mq):
        return f"{mq.topic}@{mq.brokerName}@{mq.queueId}"


def pull():
    consumer = PullFromSeveralBrokers(OPTIONS["group"])
    consumer.set_namesrv_addr(OPTIONS["namesrv"])
    consumer.start()
    line({"ev": "ready"})
    for message in consumer.pull(OPTIONS["topic"]):
        received(message)
    line({"ev": "done"})
    sys.stdin.readline()
    consumer.shutdown()
    line({"ev": "stopped"})


{"send": send, "consume": consume, "pull": pull}[sys.argv[1]]()
