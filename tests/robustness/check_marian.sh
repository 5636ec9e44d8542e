#!/usr/bin/env bash
# Compare import and export of MarianMT with `transformers`, which gets a separate environment:
#   bash tests/robustness/check_marian.sh [--run RUN]
# Ids, logits and beam search are compared for random weights in ten shapes, from safetensors and both
# kinds of pytorch_model.bin. Every model is exported and compared again. For a RUN with model=marian,
# both also translate 200 sentences of its test split.
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
