#!/usr/bin/env bash
# Train on several machines of a SLURM cluster, with one process per machine that has all of its GPUs:
#   sbatch --nodes=4 scripts/launch/slurm.sh data=files data.train=/shared/corpus.tsv \
#     data.source_language=de data.target_language=en size=xl
# The arguments are overrides of nmt.train. The checkout, its .venv, the corpus and runs/ must be on a
# file system that all machines share. Two minutes before its time limit, the job saves and is requeued;
# it is also requeued if a machine is lost. It then resumes from its last checkpoint. KERAS_BACKEND
# selects tf.distribute or jax.distributed.
#SBATCH --job-name=nmt
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=16
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x_%j.log
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:?this script is for sbatch}"
runs=runs
for override in "$@"; do
  [[ $override != runs_dir=* ]] || runs="${override#runs_dir=}"
done
runs="${runs/#\~\//$HOME/}/slurm_$SLURM_JOB_ID" # the same after every requeue
devices=multiworker
[[ ${SLURM_JOB_NUM_NODES:-2} -gt 1 ]] || devices=auto # one process uses all GPUs of its machine

overrides=()
if compgen -G "$runs/latest/checkpoints/step_*.npz" >/dev/null; then
  overrides+=(training.resume=latest)
else
  overrides+=("$@")
fi
overrides+=("training.devices=$devices" "runs_dir=$runs") # of a key given twice, the last counts
# A worker that is gone must not take the others' last words: each says itself that it stops.
status=0
srun --kill-on-bad-exit=0 ${SLURM_CPUS_PER_TASK:+--cpus-per-task=$SLURM_CPUS_PER_TASK} \
  .venv/bin/python -m nmt.train "${overrides[@]}" || status=$?
if [[ $status == 75 || $status -gt 128 ]]; then # told to stop, or killed
  if [[ ${SLURM_RESTART_COUNT:-0} -lt 20 ]]; then # a job that is killed every time must end
    scontrol requeue "$SLURM_JOB_ID"
  fi
fi
exit "$status"
