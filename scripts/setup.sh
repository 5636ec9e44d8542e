#!/usr/bin/env bash
# Create or update .venv from requirements.lock. Fast if nothing has changed.
# NMT_EXTRAS adds requirements-NAME.lock, whose packages stay installed: gpu for TensorFlow on NVIDIA
# GPUs, jax-gpu for JAX on them, jax for JAX on CPUs, dev for the tests. Several: "gpu dev".
# NMT_PYTHON names the interpreter of a new .venv (default: the first supported of python3.13, 3.12, 3.11, python3).
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="$root/.venv"
stamp="$venv/.locked"     # checksum of the installed lock files
installed="$venv/.extras" # names of the installed extras

fits() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
    >/dev/null 2>&1
}

has_environment() { # no pip: its creation was interrupted, or another tool made it
  [[ -x "$venv/bin/python" ]] && fits "$venv/bin/python" \
    && "$venv/bin/python" -c 'import pip' >/dev/null 2>&1
}

find_python() {
  local candidate candidates=(python3.13 python3.12 python3.11 python3 python)
  [[ -z "${NMT_PYTHON:-}" ]] || candidates=("$NMT_PYTHON")
  for candidate in "${candidates[@]}"; do
    if fits "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "setup: none of ${candidates[*]} is Python 3.11, 3.12 or 3.13 with venv: install one (on Debian" \
    "and Ubuntu with its venv, such as python3.12-venv), or name it in NMT_PYTHON" >&2
  exit 2
}

NMT_EXTRAS="${NMT_EXTRAS:-}"
extras=()
locks=("$root/requirements.lock")
for name in $(printf '%s\n' ${NMT_EXTRAS//,/ } $(cat "$installed" 2>/dev/null) | sort -u); do
  lock="$root/requirements-$name.lock"
  if [[ ! -f "$lock" ]]; then
    choices="$(cd "$root" && printf '%s\n' requirements-*.lock | sed 's/requirements-\(.*\)\.lock/\1/')"
    echo "setup: NMT_EXTRAS=$name is unknown; choose from:" $choices >&2
    exit 2
  fi
  extras+=("$name")
  locks+=("$lock")
done

want="$(cat "${locks[@]}" "$root/pyproject.toml" | cksum) $root"
if [[ -f "$stamp" && "$(cat "$stamp")" == "$want" && -x "$venv/bin/python" ]]; then
  exit 0
fi

if [[ -f "$stamp" && "$(cat "$stamp")" != *" $root" ]]; then
  rm -rf "$venv" # the checkout was moved, but scripts in .venv name the old place
fi
if ! has_environment; then
  python="$(find_python)"
  echo "setup: creating $venv with $("$python" --version)" >&2
  rm -rf "$venv"
  "$python" -m venv "$venv"
fi
echo "setup: installing the locked packages (2.8 GB on disk, 7 to 8 GB with those for GPUs; minutes the first time)" >&2
echo "unfinished $root" >"$stamp" # until all packages are those of the lock files
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --require-hashes "${locks[@]/#/--requirement=}"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
  --no-deps --no-build-isolation --editable "$root"
echo "${extras[*]:-}" >"$installed"
echo "$want" >"$stamp"
