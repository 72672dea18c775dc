"""Runs unchanged official RocketMQ clients against a broker and writes the table of what each could do."""

import argparse
import contextlib
import datetime
import os
import platform
import sys
import tempfile
import threading
import time

from . import scenarios, table
from .clients import all_clients
from .process import install_signal_handlers
from .servers import Apache, ApacheNamesrv, Elsewhere, Ringmq
from .tools import MissingTool, in_ci

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", ".."))
SERVER_COMMAND = os.path.join(ROOT, "target", "release", "ringmq") + " serve --set mappedFileSizeCommitLog=67108864"


def arguments():
    parser = argparse.ArgumentParser(prog="run.sh", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--server-cmd", default=os.environ.get("RINGMQ_SERVER_CMD", SERVER_COMMAND), metavar="COMMAND",
                      help="starts our server; --data --ip --port --shards and --embedded-namesrv or --namesrv are added "
                           "(default: the release build; environment: RINGMQ_SERVER_CMD)")
    what.add_argument("--apache", metavar="VERSION", help="test Apache RocketMQ's own broker of that version instead")
    what.add_argument("--namesrv", metavar="ADDR", help="test brokers that run already (no restart)")
    parser.add_argument("--shards", "--brokers", type=int, default=1, dest="shards",
                        help="number of brokers; with more than one, each client must use them all")
    parser.add_argument("--apache-namesrv", metavar="VERSION", help="our server under Apache RocketMQ's name server")
    parser.add_argument("--clients", default="", help="only those whose name contains one of these, comma separated")
    parser.add_argument("--modes", default="", help="only these: push,broadcast,pull,lite-pull,restart,share")
    parser.add_argument("--count", type=int, default=1000, help="messages each way (default 1000)")
    parser.add_argument("--seconds", type=int, default=1800, help="end everything after this long (default 1800)")
    parser.add_argument("--table", metavar="FILE", help="write the table there, as Markdown")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and stores there")
    parser.add_argument("--work", default=os.path.join(ROOT, "target", "clients"), help="where clients are built")
    return parser.parse_args()


def main():
    options = arguments()
    install_signal_handlers()
    os.makedirs(options.work, exist_ok=True)
    limit = threading.Timer(options.seconds, out_of_time, [options.seconds])
    limit.daemon = True
    limit.start()
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        return drive(options, os.path.abspath(options.keep))
    with tempfile.TemporaryDirectory(prefix="ringmq-clients-") as directory:
        return drive(options, directory)


def out_of_time(seconds):
    print(f"not done after {seconds} s", file=sys.stderr, flush=True)
    os.kill(os.getpid(), 15)


def drive(options, directory):
    try:
        server = make_server(options, directory)
    except MissingTool as missing:
        raise SystemExit(str(missing)) from None
    clients = buildable(chosen_clients(options))
    modes = [mode for mode in options.modes.split(",") if mode]
    results = Results()
    server.start()
    try:
        for client in clients:
            for mode, scenario in scenarios.modes_of(client).items():
                if not modes or mode in modes:
                    results.add(client, run_one(server, client, mode, scenario, directory, options.count))
                    server.check()
        if server.can_restart and (not modes or "restart" in modes):
            run_restart(server, clients, directory, options.count, results)
    finally:
        server.stop()
    return report(options, server, results.sorted(clients))


class Results:
    def __init__(self):
        self.rows = []

    def add(self, client, rows):
        for row in rows:
            print(f"{client.name:22} {row.mode:28} {row.seconds:6.2f} s  {table.verdict(row)}", flush=True)
            self.rows.append((client.name, row))

    def sorted(self, clients):
        order = [client.name for client in clients]
        return sorted(self.rows, key=lambda result: order.index(result[0]))


def make_server(options, directory):
    at = os.path.join(directory, "server")
    if options.namesrv:
        return Elsewhere(options.namesrv, options.shards)
    if options.apache:
        return Apache(options.apache, at, options.work, options.shards)
    namesrv = None
    if options.apache_namesrv:
        namesrv = ApacheNamesrv(options.apache_namesrv, os.path.join(directory, "namesrv"), options.work)
    return Ringmq(options.server_cmd, at, options.shards, namesrv)


def chosen_clients(options):
    wanted = [part for part in options.clients.split(",") if part]
    clients = [c for c in all_clients(options.work) if not wanted or any(part in c.name for part in wanted)]
    if not clients:
        raise SystemExit(f"no client's name contains {options.clients!r}")
    return clients


def buildable(clients):
    ready = []
    for client in clients:
        try:
            client.build()
            ready.append(client)
        except MissingTool as missing:
            if in_ci():
                raise
            print(f"{client.name}: skipped, {missing}", flush=True)
    return ready


def run_one(server, client, mode, scenario, directory, count):
    reason = client.cannot(mode, server)
    seconds = 5 if reason else scenarios.RECEIVE_SECONDS
    bench = scenarios.Bench(server, client, mode, os.path.join(directory, client.name), count, seconds)
    with bench:
        rows = attempt(mode, lambda: scenario(bench))
    if reason:
        for row in rows:
            row.problems, row.note = ([], f"can't: {reason}") if row.problems else (["works, though " + reason], "")
    return rows


def attempt(mode, action):
    began = time.monotonic()
    try:
        return action()
    except scenarios.FAILURES as failure:
        row = scenarios.Row(mode, seconds=time.monotonic() - began)
        row.problems.append(f"{type(failure).__name__}: {failure}")
        return [row]


def run_restart(server, clients, directory, count, results):
    """All clients live through the same restart."""
    with contextlib.ExitStack() as stack:
        steps = []
        for client in clients:
            bench = scenarios.Bench(server, client, "restart", os.path.join(directory, client.name), count)
            steps.append((client, scenarios.restart(stack.enter_context(bench))))
        steps = advance(steps, results)
        server.restart()
        steps = advance(steps, results)
        steps = advance(steps, results)
        assert not steps, "a restart scenario didn't end"


def advance(steps, results):
    """Takes every generator one step further; returns those that aren't at their end, and keeps the rows of the others."""
    left = []
    for client, step in steps:
        def go_on(step=step):
            try:
                next(step)
            except StopIteration as end:
                return end.value
            return None

        rows = attempt("push, through a restart", go_on)
        if rows is None:
            left.append((client, step))
        else:
            results.add(client, rows)
    return left


def report(options, server, results):
    title = f"Official clients on {server.name}, {options.shards} broker(s)"
    if options.apache_namesrv:
        title += f", under Apache RocketMQ {options.apache_namesrv}'s name server"
    facts = {
        "server": server.name,
        "brokers": options.shards,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}",
    }
    text = table.markdown(results, title)
    print("\n" + text)
    if options.table:
        with open(options.table, "w", encoding="utf-8") as out:
            out.write(text + f"\n{facts['date']}, {facts['machine']}.\n")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            out.write(table.as_json(results, facts))
    failed = sum(not row.passed for _, row in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 0 if results and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
