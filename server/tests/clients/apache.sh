#!/usr/bin/env bash
# Runs Apache RocketMQ (name server and brokers, resolved by Maven) on free ports until it is told to stop.
# apache.sh --help tells the options.
set -euo pipefail
cd "$(dirname "$0")"
exec python3 -m harness.apache "$@"
