#!/usr/bin/env bash
# Make or refresh .venv from requirements.lock. Quick when nothing has changed.
# NMT_PYTHON names the interpreter to use (default: the first of python3.13, 3.12, 3.11, python3 that fits).
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"
stamp="$venv/.locked"

fits() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
    >/dev/null 2>&1
}

find_python() {
  local candidate
  for candidate in ${NMT_PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    if fits "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "setup: no Python 3.11, 3.12 or 3.13 with venv was found; install one or name it in NMT_PYTHON" >&2
  exit 2
}

want="$(cat "$root/requirements.lock" "$root/pyproject.toml" | cksum) $root"
if [[ -f "$stamp" && "$(cat "$stamp")" == "$want" ]]; then
  exit 0
fi

if [[ ! -x "$venv/bin/python" ]] || ! fits "$venv/bin/python"; then
  python="$(find_python)"
  echo "setup: creating $venv with $("$python" --version)" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi
echo "setup: installing the locked packages (about 2.5 GB on disk; minutes the first time)" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --require-hashes --requirement "$root/requirements.lock"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-deps --no-build-isolation --editable "$root"
echo "$want" >"$stamp"
