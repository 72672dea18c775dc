#!/usr/bin/env bash
# RingMQ against Apache RocketMQ under the same load; peers.sh --help tells the options.
set -euo pipefail
exec python3 "$(dirname "$0")/peers.py" "$@"
