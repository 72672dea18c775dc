"""What is to be sent: every client gets its messages from a file, so that one place knows what must come out."""

import base64
import os
import random

BLOCK = 50
TAGS = ["TagA", "TagB", "tag with spaces", "Étiquette", "标签"]
WORDS = ["ring", "шард", "журнал", "日志", "queue", "🙂", "a=b&c", "{\"json\": true}", "ünïcode", "0"]
PROPERTY_NAMES = ["index", "text", "x_long"]


class Planned:
    def __init__(self, index, how, key, tag, body, props):
        self.index = index
        self.how = how
        self.key = key
        self.tag = tag
        self.body = body
        self.props = props


def make(run, count, hows, zero_bytes):
    """`count` messages, the same for the same `run`. In each block of 50: 20 sync, 10 async, 10 oneway, 10 in a batch
    (sync where the client has no such call). Every 25th body is long enough to be compressed by the clients that do."""
    rng = random.Random(run)
    plan = []
    for index in range(count):
        wanted = ["sync"] * 20 + ["async"] * 10 + ["oneway"] * 10 + ["batch"] * 10
        how = wanted[index % BLOCK] if wanted[index % BLOCK] in hows else "sync"
        props = {
            "index": str(index),
            "text": " ".join(rng.choice(WORDS) for _ in range(3)),
            "x_long": "v" * rng.randint(1, 300),
        }
        plan.append(Planned(index, how, f"key-{run}-{index}", rng.choice(TAGS), _body(rng, index, zero_bytes), props))
    return plan


def _body(rng, index, zero_bytes):
    if index % 25 == 7:
        return (" ".join(rng.choice(WORDS) for _ in range(rng.randint(800, 3000)))).encode()
    if index % 5 == 3 and zero_bytes:
        return rng.randbytes(rng.randint(1, 600))
    return f"{index}: {' '.join(rng.choice(WORDS) for _ in range(rng.randint(1, 60)))}".encode()


def write(plan, path):
    """One line a message: index, how, then key, tag and body in base64, then name:base64 pairs; tabs between."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as out:
        for p in plan:
            props = ",".join(f"{name}:{_b64(value.encode())}" for name, value in p.props.items())
            fields = [str(p.index), p.how, _b64(p.key.encode()), _b64(p.tag.encode()), _b64(p.body), props]
            out.write("\t".join(fields) + "\n")


def _b64(data):
    return base64.b64encode(data).decode()


def text_of(encoded):
    return None if encoded is None else base64.b64decode(encoded).decode("utf-8", "replace")


class Comparison:
    """What one consumer got, against the plan: every body, tag, key and property."""

    def __init__(self, plan, events):
        wanted = {p.key: p for p in plan}
        self.times = {}
        self.brokers = set()
        self.equal = set()
        self.different = []
        self.unknown = []
        for event in events:
            key = text_of(event["key"])
            if key is not None and key.startswith("probe/"):
                continue
            planned = wanted.get(key)
            if planned is None:
                self.unknown.append(key)
                continue
            self.times[key] = self.times.get(key, 0) + 1
            if "broker" in event:
                self.brokers.add(event["broker"])
            difference = _difference(planned, event)
            if difference:
                self.different.append(f"{key}: {difference}")
            else:
                self.equal.add(key)
        self.missing = [key for key in wanted if key not in self.times]

    @property
    def received(self):
        return len(self.times)

    @property
    def again(self):
        return sum(self.times.values()) - len(self.times)

    def problems(self, allow_again=False):
        out = []
        if self.missing:
            out.append(f"{len(self.missing)} lost, first {self.missing[0]}")
        if self.different:
            out.append(f"{len(self.different)} different, first {self.different[0]}")
        if self.unknown:
            out.append(f"{len(self.unknown)} unknown, first {self.unknown[0]}")
        if self.again and not allow_again:
            out.append(f"{self.again} received again")
        return out


def _difference(planned, event):
    body = base64.b64decode(event["body"] or "")
    if body != planned.body:
        return f"body of {len(body)} bytes instead of {len(planned.body)}"
    if text_of(event["tag"]) != planned.tag:
        return f"tag {text_of(event['tag'])!r} instead of {planned.tag!r}"
    for name, value in planned.props.items():
        got = text_of(event["props"].get(name))
        if got != value:
            return f"property {name} {got!r} instead of {value!r}"
    return None
