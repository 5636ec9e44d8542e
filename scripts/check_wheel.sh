#!/usr/bin/env bash
# Build the wheel, install it alone in a clean environment, and use it from another folder:
# train for two updates, translate, ask TensorBoard for the plugin. Needs scripts/setup.sh before.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
echo "check_wheel: building" >&2
"$root/.venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
  --no-build-isolation --wheel-dir "$place/dist" "$root"
echo "check_wheel: installing it alone" >&2
"$root/.venv/bin/python" -m venv "$place/venv"
# The versions of the lock file, without its hashes: pip takes hashes for all packages or for none.
sed -nE 's/^([A-Za-z0-9._-]+==[^ ;\\]+( *;[^\\]*)?).*/\1/p' "$root/requirements.lock" >"$place/versions.txt"
"$place/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --constraint "$place/versions.txt" "$place"/dist/nmt-*.whl
cd "$place"
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}" NMT_BIN="$place/venv/bin"
"$NMT_BIN/python" "$root/scripts/use_installed.py"
echo "check_wheel: ok" >&2
