#!/usr/bin/env bash
# Data diversification (Nguyen et al. 2020): a model of each direction translates its training pairs,
# and a third one is trained on the pairs and both translations:
#   bash scripts/diversify.sh PAIRS.tsv FOLDER data.source_language=de data.target_language=en \
#     [more overrides of all three trainings]
# PAIRS.tsv is source TAB target. The same command resumes after an interruption. As in any source,
# translations that share a side with dev or test are left out.
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
corpus=(data=files "data.sources.pairs.path=$pairs")

train() { # train NAME overrides: start a run, or resume an interrupted one
  local runs="$folder/$1"
  [[ -e "$runs/done" ]] && return
  if compgen -G "$runs/latest/checkpoints/step_*.npz" >/dev/null; then
    "$python" -m nmt.train "training.resume=$runs/latest"
  else
    "$python" -m nmt.train "runs_dir=$runs" "name=$1" "${corpus[@]}" "${@:2}"
  fi
  touch "$runs/done"
}

translate() { # translate KIND RUN COLUMN
  local table="$folder/$1.tsv" resume=()
  [[ -e "$table.done" ]] && return
  cut -f "$3" "$pairs" >"$folder/$1.txt"
  [[ ! -e "$table" ]] || resume=(--resume)
  "$python" -m nmt.synthesize --kind "$1" --run "$folder/$2/latest" \
    --file "$folder/$1.txt" --output "$table" --beam 4 ${resume[@]+"${resume[@]}"} # bash 3.2 takes an empty array for unset
  touch "$table.done"
}

train there "$@"
train back "$@" data.reverse=true
translate forward there 1
translate back back 2
more=()
for kind in forward back; do
  source="data.sources.translated_$kind"
  more+=("$source.kind=files" "$source.path=$folder/$kind.tsv" "$source.split=train")
done
train diversified "${more[@]}" "$@"
