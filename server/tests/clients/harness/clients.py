"""The official clients: what each can do, how it is resolved and built, how its program is started."""

import os
import shutil
import sys

from . import plan
from .process import ClientProcess
from .tools import MissingTool, built, fresh, in_ci, maven_class_path, need, run

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = os.path.normpath(os.path.join(HERE, ".."))


class Client:
    """One client in one configuration.

    hows: the ways to send it has. receive: the commands that its program has for receiving in the mode `pull`.
    own_all_seconds: how soon a survivor must own all queues. zero_bytes: bodies may hold any byte.
    """

    hows = ("sync", "async", "oneway", "batch")
    pulls = ("pull",)
    own_all_seconds = 5
    join_seconds = 45
    zero_bytes = True
    creates_topics = True

    def __init__(self, name, work):
        self.name = name
        self.work = work

    def build(self):
        raise NotImplementedError

    def cannot(self, mode, server):
        """Why the mode must fail against Apache RocketMQ's own broker of an old version; None when it must work."""
        return None

    def command(self, home):
        raise NotImplementedError

    def start(self, label, directory, command, **options):
        home = os.path.join(directory, "home-" + label)
        os.makedirs(home, exist_ok=True)
        arguments = [f"{name}={value}" for name, value in options.items() if value is not None]
        return ClientProcess(label, [*self.command(home), command, *arguments], directory, self.environment(home))

    def environment(self, home):
        return {"HOME": home}


class JavaClient(Client):
    pulls = ("pull", "lite-pull")

    def __init__(self, version, serialization, work):
        super().__init__(f"java-{version}-{serialization.lower()}", work)
        self.version = version
        self.serialization = serialization
        self.classes = os.path.join(work, f"java-{version}")
        self.class_path = None

    def build(self):
        need("java", "javac", "mvn")
        self.class_path = maven_class_path(os.path.join(SOURCES, "java", "pom.xml"), self.version, self.work)
        source = os.path.join(SOURCES, "java", "Client.java")
        if not fresh(self.classes, [source], self.version):
            shutil.rmtree(self.classes, ignore_errors=True)
            os.makedirs(self.classes)
            run(["javac", "-nowarn", "-encoding", "UTF-8", "-cp", self.class_path, "-d", self.classes, source])
            built(self.classes, [source], self.version)

    def cannot(self, mode, server):
        if mode == "lite-pull" and self.version == "5.3.3" and server.name == "Apache RocketMQ 4.9.7":
            return "the broker of 4.9.7 refuses code 361"
        return None

    def command(self, home):
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Duser.home={home}",
                f"-Drocketmq.client.localOffsetStoreDir={home}/offsets",
                f"-Drocketmq.serialize.type={self.serialization}", "-cp", f"{self.classes}:{self.class_path}",
                "Client"]


class GoClient(Client):
    def __init__(self, work):
        super().__init__("go-v2", work)
        self.directory = os.path.join(work, "go")
        self.program = os.path.join(self.directory, "client")

    def build(self):
        need("go")
        sources = [os.path.join(SOURCES, "go", name) for name in ("go.mod", "main.go")]
        if fresh(self.program, sources):
            return
        os.makedirs(self.directory, exist_ok=True)
        for source in sources:
            shutil.copy(source, self.directory)
        run(["go", "mod", "tidy"], self.directory)
        run(["go", "build", "-o", self.program, "."], self.directory)
        built(self.program, sources)

    def command(self, home):
        return [self.program]


class NodeClient(Client):
    hows = ("sync", "async")
    pulls = ()
    own_all_seconds = 30
    creates_topics = False

    def __init__(self, work):
        super().__init__("node-ali-ons", work)
        self.directory = os.path.join(work, "node")

    def build(self):
        need("node", "npm")
        sources = [os.path.join(SOURCES, "node", name) for name in ("package.json", "client.js")]
        modules = os.path.join(self.directory, "node_modules")
        if fresh(modules, sources):
            return
        os.makedirs(self.directory, exist_ok=True)
        for source in sources:
            shutil.copy(source, self.directory)
        run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], self.directory)
        built(modules, sources)

    def command(self, home):
        return ["node", os.path.join(self.directory, "client.js")]


class PythonClient(Client):
    """The wheel carries the C++ client for x86-64 Linux with glibc.

    Its batches aren't sent here: it marks them `batch=1`, which Java's broker reads as false and stores as one message.
    """

    hows = ("sync", "async", "oneway")
    zero_bytes = False

    def __init__(self, work):
        super().__init__("python-cpp", work)
        self.directory = os.path.join(work, "python")
        self.interpreter = os.path.join(self.directory, "bin", "python")

    def build(self):
        requirements = os.path.join(SOURCES, "python", "requirements.txt")
        if not fresh(self.interpreter, [requirements]):
            shutil.rmtree(self.directory, ignore_errors=True)
            self._make_environment()
            run([self.interpreter, "-m", "pip", "install", "-q", "-r", requirements])
            built(self.interpreter, [requirements])

    def _make_environment(self):
        try:
            import ensurepip  # noqa: F401  (Debian keeps it in a package of its own)
        except ImportError:
            if not in_ci():
                raise MissingTool("Python's venv not found (Debian: apt-get install python3-venv)") from None
            run(["apt-get", "update", "-q"], seconds=300)
            run(["apt-get", "install", "-y", "-q", "python3-venv", "python3-pip"], seconds=900)
        run([sys.executable, "-m", "venv", self.directory])

    def command(self, home):
        return [self.interpreter, os.path.join(SOURCES, "python", "client.py")]

    def start(self, label, directory, command, **options):
        if command in ("consume", "pull"):
            options["props"] = ",".join(plan.PROPERTY_NAMES)
        return super().start(label, directory, command, **options)


def all_clients(work):
    return [
        *(JavaClient(version, kind, work) for version in ("4.9.7", "5.3.3") for kind in ("JSON", "ROCKETMQ")),
        GoClient(work),
        NodeClient(work),
        PythonClient(work),
    ]
