#!/bin/bash
# A run on two nodes under Slurm:
#
#   sbatch examples/cluster/slurm.sh config.toml
#
# config.toml, its data and its run.dir are on a file system that all nodes share. Two minutes before the job's time
# ends, the run saves. The job then returns to the queue, and later continues from there.
#SBATCH --job-name=zero
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=zero-%j.log

export ZERO_TOKEN=${ZERO_TOKEN:-$(openssl rand -hex 32)}  # one secret for all ranks, passed on by srun

stopped=no
trap 'stopped=yes; scancel --signal=TERM "$SLURM_JOB_ID"' TERM  # to the ranks
srun --kill-on-bad-exit=1 zero train "$@" --comm.transport gloo &
wait $!
status=$?
if [ $stopped = yes ]; then
  wait $!
  status=$?
  [ $status -ne 0 ] || scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
