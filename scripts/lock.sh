#!/usr/bin/env bash
# Renew the lock files (names, versions, hashes; every platform) from pyproject.toml. Needs `uv`;
# nothing but metadata is downloaded. Arguments go to `uv pip compile`: --upgrade takes newer versions.
# requirements.lock is for every command; requirements-NAME.lock holds what NMT_EXTRAS=NAME adds to it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

compile() { # compile LOCK arguments: an existing LOCK says which versions to prefer
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
    --custom-compile-command "bash scripts/lock.sh" pyproject.toml --output-file "$@"
}

compile requirements.lock --group build --extra serve --extra prepare --extra synthesis "$@"
constraints=(--constraint requirements.lock) # any two sets can be installed together
for name in dev jax gpu jax-gpu; do
  lock="requirements-$name.lock"
  full="$work/$name.txt"
  kind=--extra
  [[ "$name" != dev ]] || kind=--group
  cat requirements.lock "$lock" >"$full" 2>/dev/null || true
  compile "$full" "$kind" "$name" "${constraints[@]}" "$@"
  constraints+=(--constraint "$full")
  awk '
    NR == FNR { if (/^[a-z]/) in_base[$1] = 1; next }
    /^[a-z]/ { left_out = $1 in in_base }
    /^#/ || !left_out
  ' requirements.lock "$full" >"$lock"
done
