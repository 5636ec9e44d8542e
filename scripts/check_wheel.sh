#!/usr/bin/env bash
# Build the wheel, install it alone in a clean environment, and use it from another folder:
# train for two updates, translate, ask TensorBoard for the plugin. Needs scripts/setup.sh before.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
echo "check_wheel: building" >&2
"$root/.venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir "$scratch/dist" "$root"
echo "check_wheel: installing it alone" >&2
"$root/.venv/bin/python" -m venv "$scratch/venv"
# The versions of the lock file, without its hashes: pip takes hashes for all packages or for none.
sed -nE 's/^([A-Za-z0-9._-]+==[^ ;\\]+( *;[^\\]*)?).*/\1/p' "$root/requirements.lock" >"$scratch/versions.txt"
"$scratch/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --constraint "$scratch/versions.txt" "$scratch"/dist/nmt-*.whl
cd "$scratch"
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}" NMT_BIN="$scratch/venv/bin"
"$NMT_BIN/python" "$root/scripts/use_installed.py"
echo "check_wheel: ok" >&2
