"""Measures RingMQ and Apache RocketMQ alternately under the same `loadgen` plan and prints the ratios.

The peer runs with its default settings, unpinned, and is warmed up for at least 20 s; ours is one shard on one core,
the generator has the other core for both. Both servers stay up, one is measured at a time, and the disk is synced
before each measurement so that nobody pays for what another one left in the page cache. What is shown is the median
of the pairwise ratios of the rounds, with the smallest and the largest. Raw results go to benches/runs/.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "server", "tests", "clients"))

from harness.process import Child, free_ports, install_signal_handlers  # noqa: E402
from harness.servers import START_SECONDS, STOP_SECONDS, Apache, Ringmq  # noqa: E402
from harness.tools import MissingTool, need  # noqa: E402

OURS, PEER, NULL = "ringmq", "peer", "null"
FREE_BYTES = 40 << 30

# What is to be reached: messages per second against the peer, 99th percentile against the peer, messages per second
# against a server that stores nothing, CPU per message against the peer.
BARS = {
    ("SYNC_FLUSH", "1x1"): {"rate": 2.0, "cpu": 1 / 2},
    ("SYNC_FLUSH", "64x1"): {"rate": 2.5, "p99": 1 / 2, "cpu": 1 / 2},
    ("SYNC_FLUSH", "256x1"): {"rate": 2.5, "p99": 1 / 3, "cpu": 1 / 2},
    ("SYNC_FLUSH", "16x32"): {"rate": 5.0, "p99": 1 / 4, "cpu": 1 / 4},
    ("ASYNC_FLUSH", "1x1"): {"rate": 1.5, "cpu": 1 / 2},
    ("ASYNC_FLUSH", "64x1"): {"rate": 1.8, "p99": 1 / 3, "null": 0.8, "cpu": 1 / 2},
    ("ASYNC_FLUSH", "256x1"): {"rate": 1.8, "p99": 1 / 4, "null": 0.8, "cpu": 1 / 2},
    ("ASYNC_FLUSH", "16x32"): {"rate": 6.0, "p99": 1 / 4, "cpu": 1 / 4},
}
AT_LEAST = ("rate", "null")


def arguments():
    release = os.path.join(ROOT, "target", "release")
    parser = argparse.ArgumentParser(prog="peers.sh", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duration", type=float, default=5, help="seconds measured (default 5)")
    parser.add_argument("--warmup", type=float, default=2, help="seconds of load before each measurement (default 2)")
    parser.add_argument("--peer-warmup", type=float, default=20, help="seconds of load on the fresh peer (default 20)")
    parser.add_argument("--cells", default="1x1,64x1,256x1,16x32", help="connections x outstanding requests")
    parser.add_argument("--flush", default="SYNC_FLUSH,ASYNC_FLUSH")
    parser.add_argument("--body", type=int, default=1024)
    parser.add_argument("--version", default="4.9.7", help="of Apache RocketMQ")
    parser.add_argument("--heap", default="2g", help="-Xms and -Xmx of the peer (default 2g)")
    parser.add_argument("--server-cmd", default=f"{release}/ringmq serve --backend direct",
                        help="ours; --cores, --flush, --data, --ip, --port, --shards, --embedded-namesrv are added")
    parser.add_argument("--server-core", default="0")
    parser.add_argument("--loadgen-cmd", default=f"{release}/loadgen")
    parser.add_argument("--loadgen-core", default="1")
    parser.add_argument("--null-cmd", default=f"{release}/null_server",
                        help="a server that stores nothing, measured with ASYNC_FLUSH when it is there; "
                             "--cores, --ip, --port and --embedded-namesrv are added")
    parser.add_argument("--out", default=os.path.join(ROOT, "benches", "runs"))
    parser.add_argument("--data", default=os.path.join(ROOT, "target"), help="where stores are kept while it runs")
    parser.add_argument("--check", action="store_true", help="fail when a bar isn't reached")
    return parser.parse_args()


def main():
    options = arguments()
    problem = missing(options)
    if problem:
        print(problem, file=sys.stderr)
        return 2
    install_signal_handlers()
    os.makedirs(options.out, exist_ok=True)
    work = os.path.join(ROOT, "target", "clients")
    os.makedirs(work, exist_ok=True)
    facts = machine(options)
    print(f"{facts['machine']}; commit {facts['commit']}; about {expected_minutes(options):.0f} minutes", flush=True)
    results = {}
    servers = {}
    for flush in options.flush.split(","):
        with tempfile.TemporaryDirectory(prefix="peers-", dir=options.data) as directory:
            servers[flush], results[flush] = measure_mode(options, flush, directory, work)
    return report(options, facts, servers, results)


def missing(options):
    """What isn't there, in one line; None when all is."""
    try:
        need("java", "mvn")
    except MissingTool as tool:
        return str(tool)
    for what, command in (("server", options.server_cmd), ("loadgen", options.loadgen_cmd)):
        program = shlex.split(command)[0]
        if shutil.which(program) is None:
            return f"{program} isn't there (cargo build --release; or --{what}-cmd)"
    free = shutil.disk_usage(options.data).free
    if free < FREE_BYTES:
        return f"{free >> 30} GiB free at {options.data}, {FREE_BYTES >> 30} GiB are wanted for the stores of one mode"
    return None


def expected_minutes(options):
    cells, modes = len(options.cells.split(",")), options.flush.split(",")
    one = options.warmup + options.duration + 1.5
    measured = options.rounds * cells * sum(3 if null_is_there(options) and m == "ASYNC_FLUSH" else 2 for m in modes)
    return (measured * one + len(modes) * (options.peer_warmup + 15)) / 60


def null_is_there(options):
    return shutil.which(shlex.split(options.null_cmd)[0]) is not None


class NullServer:
    """Frames in, answers out, nothing stored: what the sockets alone allow."""

    def __init__(self, command, directory):
        self._command = shlex.split(command)
        self._directory = directory
        self.child = None
        self.namesrv = None

    def start(self):
        port, namesrv_port = free_ports([0]), free_ports([0])
        self.namesrv = f"127.0.0.1:{namesrv_port}"
        self.child = Child("null", [*self._command, "--ip", "127.0.0.1", "--port", str(port),
                                    "--embedded-namesrv", str(namesrv_port)], self._directory)
        self.child.wait_line(lambda line: line.startswith("ready"), time.monotonic() + START_SECONDS, "line 'ready'")

    @property
    def pids(self):
        return [self.child.pid]

    def stop(self):
        if self.child is not None:
            self.child.terminate(STOP_SECONDS)


def measure_mode(options, flush, directory, work):
    """One flush mode: (facts about the servers, {cell: {server: [result of each round]}})."""
    ours_cmd = f"{options.server_cmd} --cores {options.server_core} --flush {flush.split('_')[0].lower()}"
    servers = {
        PEER: Apache(options.version, os.path.join(directory, "peer"), work, flush=flush, heap=options.heap),
        OURS: Ringmq(ours_cmd, os.path.join(directory, "ours")),
    }
    if flush == "ASYNC_FLUSH" and null_is_there(options):
        servers[NULL] = NullServer(f"{options.null_cmd} --cores {options.server_core}", os.path.join(directory, "null"))
    facts = {}
    try:
        for name, server in servers.items():
            began = time.monotonic()
            server.start()
            facts[name] = {"start_seconds": round(time.monotonic() - began, 2)}
        print(f"\n{flush}: warming the peer up", flush=True)
        for cell in ("64x1", "16x32"):
            load(options, servers[PEER], cell, directory, options.peer_warmup / 2, 0)
        results = {cell: {name: [] for name in servers} for cell in options.cells.split(",")}
        for number in range(options.rounds):
            for cell, by_server in results.items():
                order = list(servers) if number % 2 == 0 else [OURS, PEER, *list(servers)[2:]]
                for name in order:
                    result = load(options, servers[name], cell, directory, options.duration, options.warmup)
                    by_server[name].append(result)
                print(f"{flush} round {number + 1} {cell:6} "
                      + "  ".join(f"{name} {by_server[name][-1]['rate']:9,.0f}/s" for name in servers), flush=True)
        for name, server in servers.items():
            facts[name].update(memory(server.pids[0]))
    finally:
        for server in servers.values():
            server.stop()
    return facts, results


def load(options, server, cell, directory, duration, warmup):
    """One measurement by loadgen, from a synced disk."""
    os.sync()
    connections, depth = cell.split("x")
    out = os.path.join(directory, "loadgen.json")
    command = [
        *shlex.split(options.loadgen_cmd), "run", "--namesrv", server.namesrv, "--connections", connections,
        "--depth", depth, "--duration", f"{duration:g}s", "--warmup", f"{warmup:g}s", "--body", str(options.body),
        "--cores", options.loadgen_core, "--server-pid", str(server.pids[0]), "--json", out,
    ]
    if os.path.exists(out):
        os.remove(out)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=duration + warmup + 120, cwd=directory)
    # Refused requests make loadgen fail, yet it writes what it measured: the table shows them.
    if done.returncode != 0 and not os.path.exists(out):
        raise SystemExit(f"{' '.join(command)}\nfailed: {done.stdout.decode('utf-8', 'replace')[-2000:]}")
    with open(out, encoding="utf-8") as text:
        return flat(json.load(text))


def flat(loadgen_report):
    """The values that are compared, out of loadgen's report (one cell, one round)."""
    cell = loadgen_report["cells"][0] if "cells" in loadgen_report else loadgen_report
    latency = cell.get("latency") or cell
    cpu = cell.get("server_cpu_us_per_message", cell.get("cpu_us_per_message"))
    failures = cell.get("failures") or []
    failed = sum(f.get("count", 1) for f in failures) if isinstance(failures, list) else failures
    return {
        "rate": median(cell["messages_per_second"]),
        **{name: latency[f"{name}_us"] for name in ("p50", "p90", "p99", "p999", "max")},
        "cpu": None if cpu is None else median(cpu),
        "failed": failed + cell.get("unanswered", 0) + cell.get("connections_lost", 0),
        "cell": {name: value for name, value in cell.items() if not name.endswith("curve")},
    }


def median(value):
    return value["median"] if isinstance(value, dict) else value


def memory(pid):
    """Resident and anonymous MiB."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        fields = dict(line.split(":", 1) for line in status if ":" in line)
    return {f"{name}_mib": int(fields[key].split()[0]) // 1024
            for name, key in (("resident", "VmRSS"), ("anonymous", "RssAnon"))}


def machine(options):
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as info:
        model = re.search(r"model name\s*:\s*(.*)", info.read())
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True).stdout.strip()
    java = subprocess.run(["java", "-version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit or "unknown",
        "machine": f"{os.cpu_count()} cores {model.group(1).strip() if model else platform.machine()}, "
                   f"Linux {platform.release()}",
        "java": java.splitlines()[0] if java else "unknown",
        # Paths say nothing to a reader elsewhere.
        "options": {name: str(value).replace(ROOT + "/", "") for name, value in vars(options).items()
                    if name not in ("data", "out")},
    }


class Ratio:
    """Pairwise ratios of the rounds of two servers."""

    def __init__(self, over, under, name):
        pairs = [(a[name], b[name]) for a, b in zip(over, under)]
        self.values = [a / b for a, b in pairs if a is not None and b]

    def __str__(self):
        if not self.values:
            return "–"
        return f"{self.median:.2f} ({min(self.values):.2f}–{max(self.values):.2f})"

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None

    def reaches(self, bar, at_least):
        if self.median is None:
            return False
        return self.median >= bar if at_least else self.median <= bar


def ratios(by_server):
    ours, peer = by_server[OURS], by_server[PEER]
    out = {"rate": Ratio(ours, peer, "rate"), "p99": Ratio(ours, peer, "p99"), "cpu": Ratio(ours, peer, "cpu")}
    if NULL in by_server:
        out["null"] = Ratio(ours, by_server[NULL], "rate")
    return out


def middle(by_server, name, value):
    values = [r[value] for r in by_server.get(name, []) if r[value] is not None]
    return statistics.median(values) if values else None


def number(value):
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def report(options, facts, servers, results):
    lines = [
        f"# RingMQ against Apache RocketMQ {options.version}",
        "",
        f"{facts['date']}, {facts['machine']}, commit {facts['commit']}. {options.body}-byte bodies, {options.rounds} "
        f"rounds of {options.duration:g} s after {options.warmup:g} s of warm-up, alternating; the peer has "
        f"{facts['java']}, -Xms{options.heap} -Xmx{options.heap} and all cores, ours core {options.server_core}, the generator core "
        f"{options.loadgen_core}. Ratios: median of the pairwise ratios (smallest–largest); everything else: median.",
        "",
    ]
    missed = []
    for flush, cells in results.items():
        lines += [
            f"## {flush}",
            "",
            "| connections × outstanding | peer msg/s | ours msg/s | null msg/s | ratio | of null | peer p99 µs | ours p99 µs "
            "| p99 ratio | peer CPU µs | ours CPU µs | CPU ratio | bars |",
            "| --- " + "| ---: " * 11 + "| --- |",
        ]
        for cell, by_server in cells.items():
            ratio = ratios(by_server)
            verdict, not_reached = judge(flush, cell, ratio)
            failed = sum(r["failed"] for rounds in by_server.values() for r in rounds)
            if failed:
                verdict += f"; {failed} failed requests"
            missed += not_reached
            m = lambda server, value: number(middle(by_server, server, value))  # noqa: E731
            lines.append("| " + " | ".join([
                cell.replace("x", " × "), m(PEER, "rate"), m(OURS, "rate"), m(NULL, "rate"), str(ratio["rate"]),
                str(ratio.get("null", "–")), m(PEER, "p99"), m(OURS, "p99"), str(ratio["p99"]), m(PEER, "cpu"),
                m(OURS, "cpu"), str(ratio["cpu"]), verdict,
            ]) + " |")
        lines.append("")
        for name, fact in servers[flush].items():
            lines.append(f"- {name}: ready after {fact['start_seconds']} s; after the ladder {fact['resident_mib']} MiB "
                         f"resident, {fact['anonymous_mib']} MiB of it anonymous")
        lines.append("")
    text = "\n".join(lines)
    print("\n" + text)
    stem = os.path.join(options.out, f"peers-{time.strftime('%Y%m%d-%H%M', time.gmtime())}-{facts['commit']}")
    with open(stem + ".md", "w", encoding="utf-8") as out:
        out.write(text)
    with open(stem + ".json", "w", encoding="utf-8") as out:
        json.dump({**facts, "servers": servers, "results": results}, out)
    print(f"written to {os.path.relpath(stem)}.md and .json")
    return 1 if options.check and missed else 0


def judge(flush, cell, ratio):
    """Which bars are reached, in words; and those that aren't."""
    bars = BARS.get((flush, cell), {})
    missed, reached = [], []
    for name, bar in bars.items():
        if name == "null" and "null" not in ratio:
            continue
        sign = "≥" if name in AT_LEAST else "≤"
        (reached if ratio[name].reaches(bar, name in AT_LEAST) else missed).append(f"{name} {sign} {bar:.2f}")
    if missed:
        return "**missed: " + ", ".join(missed) + "**", missed
    return ("all reached" if reached else "none set"), []


if __name__ == "__main__":
    sys.exit(main())
