#!/usr/bin/env bash
# Tests the batch script of examples/cluster under Slurm: two nodes, whose daemons run on this machine, with two ranks
# each.
#
#   tools/try_slurm.sh        as root on Debian 12, after ./quickstart.sh; installs Slurm and MUNGE with apt-get
#
# The job trains until Slurm signals the end of its time, saves, returns to the queue, and continues to the end. Prints
# "tried: slurm-wlm ..." and exits with 0 if the weights are those of an undisturbed run. It starts the daemons with
# their own files in a temporary folder, and stops them. It neither uses nor changes the machine's own Slurm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
zero=$PWD/build/release/bin/zero
[ -x "$zero" ] || { echo "try_slurm.sh: build first: ./quickstart.sh" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "try_slurm.sh: the daemons need root" >&2; exit 2; }

export PATH="$(dirname "$zero"):/usr/sbin:$PATH"
command -v slurmctld munged srun >/dev/null || {
  apt-get update -q &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      slurmd slurmctld slurm-client munge
}

folder=$(mktemp -d)
stop() {
  [ ! -e "$folder/job" ] || scancel "$(cat "$folder/job")" 2>/dev/null || true
  for daemon in slurmd-one slurmd-two slurmctld munged; do
    [ ! -e "$folder/$daemon.pid" ] || kill "$(cat "$folder/$daemon.pid")" 2>/dev/null || true
  done
  sleep 1
  rm -rf "$folder"
}
trap stop EXIT

# ---- a cluster of two nodes ------------------------------------------------------------------------------------------
chmod 755 "$folder"
mkdir -m 755 "$folder"/{state,one,two}
head -c 1024 /dev/urandom >"$folder/munge.key" && chmod 400 "$folder/munge.key"
munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
cat >"$folder/slurm.conf" <<CONF
ClusterName=tried
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
SlurmdParameters=config_overrides
NodeName=one NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=16818 CPUs=4
NodeName=two NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=16819 CPUs=4
PartitionName=all Nodes=one,two Default=YES State=UP
CONF
export SLURM_CONF=$folder/slurm.conf
slurmctld
slurmd -N one
slurmd -N two
for _ in $(seq 100); do
  [ "$(sinfo -h -o %T 2>/dev/null)" != idle ] || break
  sleep 0.2
done
sinfo

# ---- a run that is interrupted and continued, and an undisturbed run -------------------------------------------------
keys=(examples/shakespeare/shakespeare.toml --train.steps 200 --train.log_every 1 --train.eval_every 0 --run.threads 1)
"$zero" train "${keys[@]}" -n 4 --comm.transport shared_memory --run.dir "$folder/alone" --overwrite >/dev/null
export ZERO_COMM_INTERFACE=lo  # both nodes are here, and no name service knows them, so rank 0's address must be given
sbatch --parsable --ntasks-per-node=2 --output="$folder/job.log" \
  examples/cluster/slurm.sh "${keys[@]}" --run.dir "$folder/run" --master-addr 127.0.0.1 >"$folder/job"
steps() { if [ -e "$folder/run/metrics.jsonl" ]; then wc -l <"$folder/run/metrics.jsonl"; else echo 0; fi; }
for _ in $(seq 600); do [ "$(steps)" -lt 40 ] || break; sleep 0.2; done
echo "after $(steps) steps: Slurm says that the job's time is over"
scancel --batch --signal=TERM "$(cat "$folder/job")"
for _ in $(seq 1200); do
  [ ! -e "$folder/run/report.json" ] || [ -n "$(squeue -h -j "$(cat "$folder/job")")" ] || break
  sleep 0.5
done
tail -5 "$folder/job.log"
python3 - "$folder" <<'CHECK'
import json, sys
alone, run = (json.load(open(f"{sys.argv[1]}/{name}/report.json")) for name in ("alone", "run"))
restarted = run["losses"] != [] and open(f"{sys.argv[1]}/job.log").read().count("ranks: 4") >= 2
print(f"losses of the last step: {alone['losses'][-1]} undisturbed, {run['losses'][-1]} under Slurm")
sys.exit(0 if restarted and alone["parameters_sha256"] == run["parameters_sha256"] else 1)
CHECK
echo "tried: $(slurmd -V), two nodes, a job that returned to the queue and continued to its end"
