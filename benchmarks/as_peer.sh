#!/usr/bin/env bash
# Runs `zero train` on the work of a peer's benchmark, for a side-by-side comparison in one table: the same first weights, the same
# batches (sequential bytes), AdamW 3e-4 with betas .9/.95 and decay .1, constant learning rate, one thread a rank.
#
#   benchmarks/as_peer.sh STAGE MODEL INIT DATA STEPS BATCH CONTEXT WORLD ACCUMULATE LR CLIP REPORT [zero train's options ...]
#
# MODEL: tiny | small | gpt2. REPORT: where the run's report goes.
set -euo pipefail
if [ $# -lt 12 ]; then
  sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  exit 2
fi
stage=$1 model=$2 init=$3 data=$4 steps=$5 batch=$6 context=$7 world=$8 accumulate=$9
shift 9
lr=$1 clip=$2 report=$3
shift 3
case $model in
  tiny) shape="--model.layers 2 --model.width 64 --model.heads 2 --model.context 64 --model.vocab 256" ;;
  small) shape="--model.layers 6 --model.width 384 --model.heads 6 --model.context 256 --model.vocab 256" ;;
  gpt2) shape="--model.layers 12 --model.width 768 --model.heads 12 --model.context 1024 --model.vocab 50257" ;;
  *) echo "as_peer.sh: no such model: $model" >&2; exit 2 ;;
esac
zero=${ZERO_COMMAND:-$(dirname "${BASH_SOURCE[0]}")/../build/release/bin/zero}
run=$(mktemp -d "${TMPDIR:-/tmp}/as_peer.XXXXXX")
trap 'rm -rf "$run"' EXIT
# shellcheck disable=SC2086  # $shape is several words
"$zero" train -n "$world" --model.name gpt2 $shape --model.init "$init" --data.kind text --data.path "$data" --data.order sequential \
  --data.context "$context" --data.validation 0 --train.steps "$steps" --train.batch "$batch" --train.accumulate "$accumulate" \
  --train.clip "$clip" --train.eval_every 0 --train.log_every 1000 --optimizer.name adamw --optimizer.lr "$lr" \
  --optimizer.betas "[0.9, 0.95]" --optimizer.eps 1e-8 --optimizer.weight_decay 0.1 --schedule.name constant --schedule.warmup 0 \
  --zero.stage "$stage" --run.dir "$run/run" --run.threads 1 --overwrite "$@"
# The peers' table has one number for what a rank sends; ours has one a rank.
python3 - "$run/run/report.json" "$report" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
report["sent_bytes_per_step"] = max(report["sent_bytes_per_step"])
json.dump(report, open(sys.argv[2], "w"))
PYTHON
