#!/usr/bin/env bash
# Set up if needed, then measure a track of the record table in README.md and print its row:
#   bash scripts/record.sh TRACK [--archive /path/to/spa-eng.zip] [--seeds 1 2 3]
# TRACK is cpu-10, cpu-60, default or gpu. Nothing else should run on the machine meanwhile.
# Skips finished runs of this commit, machine and backend: remove runs/record_TRACK to measure again.
set -euo pipefail
if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  sed -n '2,5s/^# //p' "$0"
  exit
fi
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bash "$root/scripts/setup.sh"
exec "$root/.venv/bin/python" "$root/scripts/record.py" "$@"
