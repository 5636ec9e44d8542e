#!/usr/bin/env bash
# Set up if needed, then train: bash scripts/train.sh [Hydra overrides]
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bash "$root/scripts/setup.sh"
exec "$root/.venv/bin/python" -m nmt.train "$@"
