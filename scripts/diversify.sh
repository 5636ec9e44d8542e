#!/usr/bin/env bash
# Data diversification (Nguyen et al. 2020): a model of each direction translates what it was trained
# on, and a third one is trained on the pairs and on both of their translations:
#   bash scripts/diversify.sh PAIRS.tsv FOLDER data.source_language=de data.target_language=en \
#     [more overrides of all three trainings]
# PAIRS.tsv is source TAB target. Interrupted, the same command goes on where it was. What shares a
# side with dev or test is left out of the translations as of any other source.
set -euo pipefail
[[ $# -ge 2 && -f "$1" ]] || {
  echo "usage: bash scripts/diversify.sh PAIRS.tsv FOLDER data.source_language=… data.target_language=… [overrides]" >&2
  exit 2
}
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
pairs="$(realpath "$1")"
mkdir -p "$2"
folder="$(realpath "$2")"
shift 2
bash "$root/scripts/setup.sh"
cd "$root"
python="$root/.venv/bin/python"
corpus=(data=tsv "data.sources.pairs.path=$pairs")

train() { # train NAME overrides: a new run, or on with one that was interrupted
  local runs="$folder/$1"
  [[ -e "$runs/done" ]] && return
  if [[ -e "$runs/latest" ]]; then
    "$python" -m nmt.train "training.resume=$runs/latest"
  else
    "$python" -m nmt.train "runs_dir=$runs" "name=$1" "${corpus[@]}" "${@:2}"
  fi
  touch "$runs/done"
}

translate() { # translate KIND RUN COLUMN
  local table="$folder/$1.tsv" go_on=()
  [[ -e "$table.done" ]] && return
  cut -f "$3" "$pairs" >"$folder/$1.txt"
  [[ ! -e "$table" ]] || go_on=(--resume)
  "$python" -m nmt.synthesize --kind "$1" --run "$folder/$2/latest" \
    --file "$folder/$1.txt" --output "$table" --beam 4 "${go_on[@]}"
  touch "$table.done"
}

train there "$@"
train back "$@" data.reverse=true
translate forward there 1
translate back back 2
more=()
for kind in forward back; do
  source="data.sources.translated_$kind"
  more+=("$source.kind=tsv" "$source.path=$folder/$kind.tsv" "$source.split=train")
done
train diversified "${more[@]}" "$@"
