#!/usr/bin/env bash
# Start a cluster of our own, run what is marked `slurm` on it, stop it again, whatever comes: `make slurm-test`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
trap '"$here/stop.sh" </dev/null' EXIT
"$here/start.sh" </dev/null
eval "$("$here/start.sh" env)"
cd "$here/../.."
"${PY:-python}" -m pytest -q -m slurm tests/slurm "$@"
