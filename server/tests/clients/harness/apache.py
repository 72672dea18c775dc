"""Runs Apache RocketMQ on its own: one line `ready …` on standard output, then until SIGTERM, Ctrl-C or the end of a pipe on
standard input."""

import argparse
import os
import signal
import stat
import sys
import tempfile

from .process import install_signal_handlers
from .servers import Apache, ApacheNamesrv

DEFAULT_WORK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "..", "target", "clients")


def main():
    parser = argparse.ArgumentParser(prog="apache.sh", description=__doc__)
    parser.add_argument("--version", default="4.9.7", help="of broker and name server (4.9.7, 5.1.4)")
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=["ASYNC_FLUSH", "SYNC_FLUSH"])
    parser.add_argument("--heap", default="512m", help="-Xms and -Xmx of each broker; the peer of benches uses 2g")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a line for broker.conf")
    parser.add_argument("--namesrv-only", action="store_true", help="start no broker")
    parser.add_argument("--work", default=os.path.normpath(DEFAULT_WORK), help="where class paths are kept")
    options = parser.parse_args()
    install_signal_handlers()
    os.makedirs(options.work, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="apache-rocketmq-") as directory:
        if options.namesrv_only:
            server = ApacheNamesrv(options.version, directory, options.work)
            server.start()
            print(f"ready namesrv={server.address} pid={server.child.pid}", flush=True)
        else:
            settings = dict(pair.split("=", 1) for pair in options.set)
            server = Apache(options.version, directory, options.work, options.brokers, options.flush, options.heap,
                            settings)
            server.start()
            pids = ",".join(str(pid) for pid in server.pids)
            print(f"ready namesrv={server.namesrv} brokers={','.join(server.broker_names)} pids={pids}", flush=True)
        try:
            if stat.S_ISFIFO(os.fstat(0).st_mode):
                sys.stdin.read()
            else:
                signal.pause()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
