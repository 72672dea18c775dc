#!/usr/bin/env bash
# Unchanged official clients against a broker; see README.md here. run.sh --help tells the options.
set -euo pipefail
cd "$(dirname "$0")"
python3 -m unittest -q harness.test_plan 2>/dev/null || python3 -m unittest harness.test_plan
exec python3 -m harness.run "$@"
