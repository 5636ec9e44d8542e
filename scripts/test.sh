#!/usr/bin/env bash
# Set up if needed, then check lint, types and tests: bash scripts/test.sh [--all] [pytest arguments]
# --all: also tests marked long, which largely repeat faster ones. CI runs them.
set -euo pipefail
all=()
which="backend and not slow and not long"
if [[ "${1:-}" == --all ]]; then
  shift
  all=(-m "not slow")
  which="backend and not slow"
fi
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
NMT_EXTRAS="dev ${NMT_EXTRAS:-}" bash "$root/scripts/setup.sh"
cd "$root"
bin="$root/.venv/bin"
export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-2}"
unset PYTHONDONTWRITEBYTECODE # many processes share the compiled test modules
# Two workers share two cores: more threads would only wait for each other.
export TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 OMP_NUM_THREADS=1
# Compile fast: test programs run for milliseconds.
export JAX_DISABLE_MOST_OPTIMIZATIONS=1
cheap="--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
export XLA_FLAGS="--xla_cpu_use_fusion_emitters=false $cheap ${XLA_FLAGS:-}"
"$bin/ruff" check .
"$bin/ruff" format --check .
"$bin/mypy" nmt scripts data tests/robustness tests/fuzz &
types=$!
# JAX first: that run is short.
on_every_backend=($(grep -rl --include='test_*.py' 'mark\.backend' tests))
KERAS_BACKEND=jax "$bin/python" -m pytest -q -n 2 \
  --dist loadgroup -m "$which" "${on_every_backend[@]}"
wait "$types"
"$bin/python" -m pytest -q -n 2 --dist loadgroup ${all[@]+"${all[@]}"} "$@" # bash 3.2 takes an empty array for unset
