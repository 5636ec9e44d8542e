#!/usr/bin/env bash
# Measure every GPU figure of the project in under ten minutes: bash scripts/gpu/gpu_check.sh --help
# GPU_CHECK_PYTHON names the interpreter to use (default: the environment's, else python3).
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
python="${GPU_CHECK_PYTHON:-$root/.venv/bin/python}"
if ! command -v "$python" >/dev/null; then
  python=python3
fi
export PYTHONPATH="$root:$root/scripts/bench${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" "$root/scripts/gpu/gpu_check.py" "$@"
