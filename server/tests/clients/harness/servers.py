"""The brokers under test: Apache RocketMQ's own (the oracle), ours, or any that runs elsewhere."""

import os
import shlex
import shutil
import time

from .process import Child, free_ports
from .remoting import Cluster
from .tools import maven_class_path

HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS = 90
STOP_SECONDS = 60

JDK17_FLAGS = [
    "--add-opens", "java.base/java.nio=ALL-UNNAMED",
    "--add-opens", "java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports", "java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports", "java.base/sun.nio.ch=ALL-UNNAMED",
]

LOG_CONFIGURATION = """<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d %-5level %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""


class ApacheNamesrv:
    """Apache RocketMQ's name server, in a process of its own."""

    def __init__(self, version, directory, work):
        self.version = version
        self.directory = directory
        self._class_path = maven_class_path(os.path.join(HERE, "..", "apache", "pom.xml"), version, work)
        self.port = free_ports([0])
        self.address = f"127.0.0.1:{self.port}"
        self.child = None

    def start(self):
        home = rocketmq_home(self.directory)
        conf = os.path.join(self.directory, "namesrv.conf")
        write_properties(conf, {"listenPort": self.port, "rocketmqHome": home})
        self.child = Child(
            "namesrv",
            ["java", "-Xms64m", "-Xmx256m", *JDK17_FLAGS, f"-Duser.home={self.directory}",
             "-cp", self._class_path, "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", conf],
            self.directory, {"ROCKETMQ_HOME": home},
        )
        self.child.wait_line(lambda line: "boot success" in line, time.monotonic() + START_SECONDS, "boot success")

    def stop(self):
        if self.child is not None:
            self.child.terminate(STOP_SECONDS)
            self.child = None


class Apache:
    """Apache RocketMQ: one name server and one or more brokers."""

    can_restart = True

    def __init__(self, version, directory, work, brokers=1, flush="ASYNC_FLUSH", heap="512m", settings=None):
        self.name = f"Apache RocketMQ {version}"
        self.version = version
        self.directory = directory
        self.flush = flush
        self.heap = heap
        self.settings = settings or {}
        self.namesrv_process = ApacheNamesrv(version, os.path.join(directory, "namesrv"), work)
        self.namesrv = self.namesrv_process.address
        self._class_path = maven_class_path(os.path.join(HERE, "..", "apache", "pom.xml"), version, work)
        self.broker_names = ["broker-a"] if brokers == 1 else [f"broker-a-{i}" for i in range(brokers)]
        # The broker listens on its port, the next one (HA) and the one two below (fast port).
        self._ports = {name: free_ports([-2, 0, 1]) for name in self.broker_names}
        self.children = {}

    def start(self):
        self.namesrv_process.start()
        self._start_brokers()

    def _start_brokers(self):
        deadline = time.monotonic() + START_SECONDS
        for name in self.broker_names:
            self.children[name] = self._start_broker(name)
        for child in self.children.values():
            child.wait_line(lambda line: "boot success" in line, deadline, "boot success")
        cluster = Cluster(self.namesrv)
        cluster.wait_for_brokers(len(self.broker_names), deadline)
        cluster.close()

    def _start_broker(self, name):
        directory = os.path.join(self.directory, name)
        home = rocketmq_home(directory)
        conf = os.path.join(directory, "broker.conf")
        write_properties(conf, {
            "rocketmqHome": home,
            "brokerClusterName": "DefaultCluster",
            "brokerName": name,
            "brokerId": 0,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "listenPort": self._ports[name],
            "haListenPort": self._ports[name] + 1,
            "namesrvAddr": self.namesrv,
            "storePathRootDir": os.path.join(directory, "store"),
            "storePathCommitLog": os.path.join(directory, "store", "commitlog"),
            "flushDiskType": self.flush,
            **self.settings,
        })
        return Child(
            name,
            ["java", f"-Xms{self.heap}", f"-Xmx{self.heap}", *JDK17_FLAGS, f"-Duser.home={directory}",
             "-cp", self._class_path, "org.apache.rocketmq.broker.BrokerStartup", "-c", conf],
            directory, {"ROCKETMQ_HOME": home},
        )

    @property
    def pids(self):
        return [child.pid for child in self.children.values()]

    def check(self):
        for child in [self.namesrv_process.child, *self.children.values()]:
            check_running(child)

    def restart(self):
        """Stops the brokers as an operator would and starts them on what they stored, on the same ports."""
        self._stop_brokers()
        self._start_brokers()

    def _stop_brokers(self):
        for child in self.children.values():
            child.terminate(STOP_SECONDS)
        self.children = {}

    def stop(self):
        self._stop_brokers()
        self.namesrv_process.stop()


class Ringmq:
    """Our server: one process with one broker per shard."""

    can_restart = True

    def __init__(self, command, directory, shards=1, namesrv=None):
        self.name = "RingMQ"
        self.directory = directory
        self.shards = shards
        self.broker_names = ["broker-a"] if shards == 1 else [f"broker-a-{i}" for i in range(shards)]
        port = free_ports([10 * i + j for i in range(shards) for j in (-2, 0, 1)])
        self._arguments = ["--data", os.path.join(directory, "store"), "--ip", "127.0.0.1", "--port", str(port),
                           "--shards", str(shards)]
        if namesrv is None:
            namesrv_port = free_ports([0])
            self.namesrv = f"127.0.0.1:{namesrv_port}"
            self._arguments += ["--embedded-namesrv", str(namesrv_port)]
        else:
            self.namesrv = namesrv.address
            self._arguments += ["--namesrv", self.namesrv]
        self._command = shlex.split(command)
        if shutil.which(self._command[0]) is None:
            raise SystemExit(f"no server: {self._command[0]} isn't there (cargo build --release -p server; or --server-cmd)")
        self._namesrv_process = namesrv
        self.child = None

    def start(self):
        if self._namesrv_process is not None:
            self._namesrv_process.start()
        self._start()

    def _start(self):
        deadline = time.monotonic() + START_SECONDS
        self.child = Child("ringmq", self._command + self._arguments, self.directory)
        self.child.wait_line(lambda line: line.startswith("ready"), deadline, "line 'ready'")
        cluster = Cluster(self.namesrv)
        cluster.wait_for_brokers(self.shards, deadline)
        cluster.close()

    @property
    def pids(self):
        return [self.child.pid]

    def check(self):
        check_running(self.child)

    def restart(self):
        self._stop()
        self._start()

    def _stop(self):
        if self.child is None:
            return
        status = self.child.terminate(STOP_SECONDS)
        if status != 0:
            raise RuntimeError(f"the server didn't stop cleanly: {self.child.last_words()}")
        self.child = None

    def stop(self):
        self._stop()
        if self._namesrv_process is not None:
            self._namesrv_process.stop()


class Elsewhere:
    """Brokers that somebody else started and stops."""

    can_restart = False

    def __init__(self, namesrv, brokers):
        self.name = f"brokers of {namesrv}"
        self.namesrv = namesrv
        self._count = brokers
        self.broker_names = []

    def start(self):
        cluster = Cluster(self.namesrv)
        self.broker_names = sorted(cluster.wait_for_brokers(self._count, time.monotonic() + 10))
        cluster.close()

    def check(self):
        pass

    def stop(self):
        pass


def check_running(child):
    """A server that has ended makes every further result meaningless."""
    if not child.running:
        raise SystemExit(f"the server has ended: {child.last_words()}")


def rocketmq_home(directory):
    """A home directory with just the log configuration that broker and name server insist on (4.9 and 5.x names)."""
    conf = os.path.join(directory, "home", "conf")
    os.makedirs(conf, exist_ok=True)
    for name in ("logback_broker.xml", "logback_namesrv.xml", "rmq.broker.logback.xml", "rmq.namesrv.logback.xml"):
        with open(os.path.join(conf, name), "w", encoding="utf-8") as out:
            out.write(LOG_CONFIGURATION)
    return os.path.dirname(conf)


def write_properties(path, values):
    with open(path, "w", encoding="utf-8") as out:
        for name, value in values.items():
            out.write(f"{name}={value}\n")
