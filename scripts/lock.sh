#!/usr/bin/env bash
# Update the lock files (names, versions, hashes; every platform) from pyproject.toml. Needs `uv`, which
# downloads only metadata. Arguments go to `uv pip compile`: --upgrade selects newer versions.
# requirements.lock is for every command; requirements-NAME.lock holds the additions of NMT_EXTRAS=NAME.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

compile() { # compile LOCK arguments; keeps the versions of an existing LOCK if possible
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
    --custom-compile-command "bash scripts/lock.sh" pyproject.toml --output-file "$@"
}

compile requirements.lock --group build --extra serve --extra prepare --extra documents "$@"
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
