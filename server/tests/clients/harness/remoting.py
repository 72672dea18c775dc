"""As much of the remoting protocol as the harness itself needs: create topics, probe queues, read offsets and routes.

Written from the protocol's description, so that what it sees doesn't depend on any client under test.
"""

import json
import socket
import struct
import time

SEND_MESSAGE_V2 = 310
QUERY_CONSUMER_OFFSET = 14
UPDATE_AND_CREATE_TOPIC = 17
GET_MAX_OFFSET = 30
GET_ROUTEINFO_BY_TOPIC = 105

SUCCESS = 0
TOPIC_NOT_EXIST = 17
VERSION = 479


class RemotingError(Exception):
    def __init__(self, code, remark):
        super().__init__(f"code {code}: {remark}")
        self.code = code


class Connection:
    """One connection, one request at a time."""

    def __init__(self, address, timeout=5.0):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout)
        self._opaque = 0

    def close(self):
        self._socket.close()

    def call(self, code, fields, body=b""):
        """Returns (header, body) of the answer; raises RemotingError when its code isn't SUCCESS."""
        self._opaque += 1
        header = json.dumps(
            {
                "code": code,
                "language": "JAVA",
                "version": VERSION,
                "opaque": self._opaque,
                "flag": 0,
                "extFields": {name: str(value) for name, value in fields.items()},
            }
        ).encode()
        self._socket.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
        while True:
            answer, answer_body = self._read_frame()
            if answer["flag"] & 1 and answer["opaque"] == self._opaque:
                break
        if answer["code"] != SUCCESS:
            raise RemotingError(answer["code"], answer.get("remark"))
        return answer, answer_body

    def _read_frame(self):
        total, header_length = struct.unpack(">ii", self._read(8))
        header_length &= 0xFFFFFF
        frame = self._read(total - 4)
        return json.loads(frame[:header_length]), frame[header_length:]

    def _read(self, count):
        parts = []
        while count:
            part = self._socket.recv(count)
            if not part:
                raise ConnectionError("connection closed in the middle of a frame")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


class Cluster:
    """What a name server and its brokers say, asked anew each time so that a restart in between does no harm."""

    def __init__(self, namesrv):
        self.namesrv = namesrv
        self._brokers = {}

    def close(self):
        for connection in self._brokers.values():
            connection.close()
        self._brokers = {}

    def route(self, topic):
        """{broker name: (address, queue count)}, or {} when the name server knows no such topic."""
        connection = Connection(self.namesrv.split(";")[0])
        try:
            _, body = connection.call(GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        except RemotingError as error:
            if error.code == TOPIC_NOT_EXIST:
                return {}
            raise
        finally:
            connection.close()
        data = json.loads(body)
        addresses = {b["brokerName"]: b["brokerAddrs"]["0"] for b in data["brokerDatas"]}
        return {q["brokerName"]: (addresses[q["brokerName"]], q["writeQueueNums"]) for q in data["queueDatas"]}

    def brokers(self):
        """{broker name: address} of all that create topics on demand."""
        return {name: address for name, (address, _) in self.route("TBW102").items()}

    def wait_for_brokers(self, count, deadline):
        while True:
            try:
                found = self.brokers()
                if len(found) >= count:
                    return found
                problem = f"only {sorted(found)} registered"
            except (OSError, RemotingError) as error:
                problem = str(error)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{count} broker(s) expected at name server {self.namesrv}: {problem}")
            time.sleep(0.1)

    def create_topic(self, topic, queues):
        """On every broker, with `queues` queues each; returns when the name server routes to all of them."""
        brokers = self.brokers()
        for address in brokers.values():
            self.ask(
                address,
                UPDATE_AND_CREATE_TOPIC,
                {
                    "topic": topic,
                    "defaultTopic": "TBW102",
                    "readQueueNums": queues,
                    "writeQueueNums": queues,
                    "perm": 6,
                    "topicFilterType": "SINGLE_TAG",
                    "topicSysFlag": 0,
                    "order": "false",
                },
            )
        deadline = time.monotonic() + 40
        while set(self.route(topic)) != set(brokers):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the name server doesn't route {topic} to {sorted(brokers)}")
            time.sleep(0.1)

    def ask(self, address, code, fields, body=b""):
        if address not in self._brokers:
            self._brokers[address] = Connection(address)
        try:
            return self._brokers[address].call(code, fields, body)
        except (OSError, ValueError):
            self._brokers.pop(address).close()
            raise

    def queues(self, topic):
        """[(broker name, address, queue id)] in a fixed order."""
        return [(name, address, queue) for name, (address, count) in sorted(self.route(topic).items())
                for queue in range(count)]

    def stored(self, topic):
        """{broker name: messages in the topic's queues}."""
        counts = {}
        for name, address, queue in self.queues(topic):
            answer, _ = self.ask(address, GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
            counts[name] = counts.get(name, 0) + int(answer["extFields"]["offset"])
        return counts

    def committed(self, topic, group):
        """Messages of the topic that the group has confirmed, over all queues; a queue never committed counts 0."""
        total = 0
        for _, address, queue in self.queues(topic):
            fields = {"consumerGroup": group, "topic": topic, "queueId": queue}
            try:
                answer, _ = self.ask(address, QUERY_CONSUMER_OFFSET, fields)
                total += int(answer["extFields"]["offset"])
            except RemotingError:
                continue
        return total

    def send(self, address, topic, queue, key, body=b"probe"):
        fields = {
            "a": "harness", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": int(time.time() * 1000),
            "h": 0, "i": f"KEYS\x01{key}\x02TAGS\x01probe\x02", "j": 0, "k": "false", "m": "false",
        }
        self.ask(address, SEND_MESSAGE_V2, fields, body)
