#!/usr/bin/env bash
# Unchanged official clients against a broker; see README.md here. run.sh --help tells the options.
set -euo pipefail
cd "$(dirname "$0")"
exec python3 -m harness.run "$@"
