#!/usr/bin/env python3
"""What single settings are worth on this machine: each against its default, in alternating rounds.

Needs the release build of loadgen; carries its own server. Prints a Markdown table: the median of the pairwise
ratios of the rounds, with the smallest and the largest. A ratio whose range holds 1 says nothing either way.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# setting, what it is compared with, what it is changed to, flush mode, connections x outstanding
EXPERIMENTS = [
    ("flushDiskType", ["--flush", "async"], ["--flush", "sync"], None, "1x1"),
    ("flushDiskType", ["--flush", "async"], ["--flush", "sync"], None, "64x1"),
    ("flushDiskType", ["--flush", "async"], ["--flush", "sync"], None, "16x32"),
    ("backend", ["--backend", "mapped"], ["--backend", "direct"], "sync", "64x1"),
    ("backend", ["--backend", "mapped"], ["--backend", "direct"], "async", "16x32"),
    ("flushMethod", ["--set", "flushMethod=fdatasync"], ["--set", "flushMethod=dsync"], "sync", "1x1"),
    ("flushMethod", ["--set", "flushMethod=fdatasync"], ["--set", "flushMethod=dsync"], "sync", "64x1"),
    ("prepareMode", ["--set", "prepareMode=allocate"], ["--set", "prepareMode=zero"], "sync", "1x1"),
    ("prepareMode", ["--set", "prepareMode=allocate"], ["--set", "prepareMode=zero"], "async", "16x32"),
    ("spinBeforePark", ["--set", "spinBeforePark=0"], ["--set", "spinBeforePark=50us"], "async", "1x1"),
    ("spinBeforePark", ["--set", "spinBeforePark=0"], ["--set", "spinBeforePark=50us"], "sync", "1x1"),
    ("flushIntervalCommitLog", ["--set", "flushIntervalCommitLog=500"], ["--set", "flushIntervalCommitLog=50"], "async",
     "16x32"),
    ("tailCacheBytes", ["--set", "tailCacheBytes=16MiB"], ["--set", "tailCacheBytes=128MiB"], "async", "16x32"),
]


def measure(loadgen, data, extra, flush, load, seconds):
    connections, depth = load.split("x")
    out = os.path.join(data, "run.json")
    command = [loadgen, "run", "--connections", connections, "--depth", depth, "--duration", f"{seconds}s",
               "--warmup", "1s", "--data", os.path.join(data, "store"), "--json", out]
    if flush:
        command += ["--flush", flush]
    subprocess.run(command + extra, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120)
    with open(out, encoding="utf-8") as file:
        report = json.load(file)
    cell = report["cells"][0] if "cells" in report else report
    value = cell["messages_per_second"]
    p99 = cell["p99_us"]
    median = lambda figure: figure["median"] if isinstance(figure, dict) else figure
    return median(value), median(p99)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", default="", help="settings whose name contains this")
    parser.add_argument("--loadgen", default=os.path.join(ROOT, "target/release/loadgen"))
    args = parser.parse_args()
    if not os.path.exists(args.loadgen):
        sys.exit(f"{args.loadgen} is missing; build it: cargo build --release -p loadgen")
    print("| setting | from | to | mode, load | messages/s | p99 |\n| --- | --- | --- | --- | ---: | ---: |", flush=True)
    for setting, before, after, flush, load in EXPERIMENTS:
        if args.only not in setting:
            continue
        rates, tails = [], []
        with tempfile.TemporaryDirectory(dir=".") as data:
            for number in range(args.rounds):
                # The order changes from round to round, so that neither always comes first.
                order = [before, after] if number % 2 == 0 else [after, before]
                seen = {id(extra): measure(args.loadgen, data, extra, flush, load, args.seconds) for extra in order}
                rates.append(seen[id(after)][0] / seen[id(before)][0])
                tails.append(seen[id(after)][1] / seen[id(before)][1])
        show = lambda ratios: f"{statistics.median(ratios):.2f} × ({min(ratios):.2f}–{max(ratios):.2f})"
        value = lambda extra: extra[-1].rsplit("=", 1)[-1]
        mode = f"{flush + ', ' if flush else ''}{load.replace('x', ' × ')}"
        print(f"| `{setting}` | {value(before)} | {value(after)} | {mode} | {show(rates)} | {show(tails)} |", flush=True)


if __name__ == "__main__":
    main()
