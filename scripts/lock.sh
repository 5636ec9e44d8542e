#!/usr/bin/env bash
# Renew requirements.lock (names, versions, hashes; every platform) from pyproject.toml. Needs `uv`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
  --group dev pyproject.toml --output-file requirements.lock \
  --custom-compile-command "bash scripts/lock.sh" "$@"
