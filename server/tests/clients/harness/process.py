"""Child processes: started in a directory of their own, read line by line, always ended by their own id."""

import atexit
import json
import os
import signal
import socket
import subprocess
import threading
import time

_CHILDREN = []


def end_all():
    """Ends what still runs; called at exit and on signals."""
    for child in list(_CHILDREN):
        child.kill()


def install_signal_handlers():
    def leave(number, _frame):
        raise SystemExit(128 + number)

    atexit.register(end_all)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)


class Child:
    """A process whose standard output is kept as lines with the time each arrived; standard error goes to a file."""

    def __init__(self, name, command, directory, environment=None):
        os.makedirs(directory, exist_ok=True)
        self.name = name
        self.lines = []
        self.stderr_path = os.path.join(directory, name + ".stderr")
        self._changed = threading.Condition()
        self._ended = False
        with open(self.stderr_path, "ab") as stderr:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self.pid = self._process.pid
        _CHILDREN.append(self)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self.lines.append((time.monotonic(), line.decode("utf-8", "replace").rstrip("\n")))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_line(self, accepts, deadline, what):
        """The first line that `accepts` takes; raises when the process ends or the time is over before it."""
        seen = 0
        with self._changed:
            while True:
                for _, line in self.lines[seen:]:
                    if accepts(line):
                        return line
                seen = len(self.lines)
                if self._ended:
                    raise RuntimeError(f"{self.name} ended before {what}: {self.last_words()}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"{self.name}: no {what} in time: {self.last_words()}")
                self._changed.wait(left)

    def snapshot(self, since=0):
        with self._changed:
            return self.lines[since:]

    def say(self, text="go"):
        try:
            self._process.stdin.write(text.encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise RuntimeError(f"{self.name} has ended: {self.last_words()}") from None

    @property
    def running(self):
        return self._process.poll() is None

    def wait(self, seconds):
        """Exit status, or TimeoutError."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} didn't end within {seconds:.0f} s") from None
        self._forget()
        return status

    def terminate(self, seconds):
        """SIGTERM, then SIGKILL when that doesn't end it; returns the exit status."""
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self.wait(seconds)
        except TimeoutError:
            self.kill()
            raise

    def kill(self):
        if self.running:
            self._process.kill()
        self._process.wait()
        self._forget()

    def _forget(self):
        if self in _CHILDREN:
            _CHILDREN.remove(self)

    def last_words(self):
        with open(self.stderr_path, "rb") as stderr:
            tail = stderr.read()[-1500:].decode("utf-8", "replace").strip()
        last_lines = [line for _, line in self.lines[-3:]]
        return f"exit {self._process.poll()}, last output {last_lines}, standard error: {tail or 'empty'}"


class ClientProcess(Child):
    """A client program: its lines are events (see ../README.md)."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._parsed = []

    def events(self, kind):
        """[(arrival time, event)] of one kind so far."""
        for at, line in self.snapshot(len(self._parsed)):
            try:
                event = json.loads(line)
            except ValueError:
                event = {}
            # A client library that prints to standard output isn't an event.
            self._parsed.append((at, event if isinstance(event, dict) else {}))
        return [(at, event) for at, event in self._parsed if event.get("ev") == kind]

    def wait_event(self, kind, deadline):
        prefix = (f'{{"ev":"{kind}"', f'{{"ev": "{kind}"')
        self.wait_line(lambda line: line.startswith(prefix), deadline, f"event {kind!r}")

    def leave(self, seconds=30):
        """Asks it to stop as an application would, and checks that it did."""
        self.say("stop")
        status = self.wait(seconds)
        if status != 0:
            raise RuntimeError(f"{self.name} didn't stop cleanly: {self.last_words()}")


def free_ports(offsets_wanted, attempts=200):
    """A port given by the kernel such that it and the ports at the given offsets from it are free."""
    for _ in range(attempts):
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            base = first.getsockname()[1]
        if base + max(offsets_wanted) > 65535:
            continue
        held = []
        try:
            for offset in offsets_wanted:
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", base + offset))
            return base
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    raise RuntimeError(f"no free range of ports found for offsets {offsets_wanted}")
