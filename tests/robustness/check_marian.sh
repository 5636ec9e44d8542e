#!/usr/bin/env bash
# MarianMT in and out against `transformers` itself, which gets an environment of its own:
#   bash tests/robustness/check_marian.sh [--run RUN]
# Random weights in ten shapes: ids, logits and beam search are compared, from safetensors and from
# both kinds of pytorch_model.bin; every model goes out again and is compared once more. Of a RUN with
# model=marian, 200 sentences of its test split are translated by both.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$root"
work=.cache/marian
bash scripts/setup.sh
[[ -x "$work/venv/bin/python" ]] || python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install -q "torch==2.13.0" "transformers>=5,<6" sentencepiece safetensors numpy
.venv/bin/python tests/robustness/marian_parity.py prepare --work "$work" "$@"
"$work/venv/bin/python" tests/robustness/marian_parity.py reference --work "$work"
.venv/bin/python tests/robustness/marian_parity.py compare --work "$work"
"$work/venv/bin/python" tests/robustness/marian_parity.py reference --work "$work" --again
.venv/bin/python tests/robustness/marian_parity.py report --work "$work"
