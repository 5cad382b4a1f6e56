#!/usr/bin/env bash
# Tries zero.cpp on a GPU, in three batches of less than ten minutes each, and writes one JSON file a batch.
#
#   ./gpu_check.sh 1 [OUT.json]     # right: probes, kernels and engines bit for bit, compute-sanitizer, losses beside the CPU's
#   ./gpu_check.sh 2 [OUT.json]     # speed: update and training, with the states on the GPU
#   ./gpu_check.sh 3 [OUT.json]     # offload: states on the host and on a disk
#
# From a bundle (tools/bundle.sh) or a checkout with build/release. It needs python3 that finds torch 2.11.0 with CUDA 13. Each
# check has passed, failed or been skipped, with a reason; the file is written after each, so that one which is stopped has said
# what it knows. With ZERO_CHECK_LOGS=FOLDER what each check printed is kept there; with ZERO_CHECK_SECONDS=N no check takes
# longer. The batch ends after 590 seconds (ZERO_CHECK_TOTAL=N: N), and what did not fit is skipped. Exit status: 0 all that ran
# passed; 1 one failed; 2 there is no GPU here, or the batch does not exist: the file then says why nothing was tried.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
  1 | 2 | 3) batch=$1 ;;
  *) sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//'; exit 2 ;;
esac
if [ -x "$here/bin/zero" ]; then
  root=$here libs=$here/lib tests=$here/tests
else
  root=$here/../build/release libs=$root/lib tests=$root/tests
fi
zero=$root/bin/zero
out=$(realpath -m "${2:-gpu_check_$batch.json}")
work=$(mktemp -d)
leave() {
  [ -z "${ZERO_CHECK_LOGS:-}" ] || { mkdir -p "$ZERO_CHECK_LOGS" && cp "$work"/*.out "$work"/*.json "$work"/*.err "$ZERO_CHECK_LOGS/"; } 2>/dev/null
  rm -rf "$work"
}
trap leave EXIT
results=$work/results
: > "$results"
gpu=

# torch's folder, without importing it.
torch=$(python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' 2>/dev/null || true)
[ -n "$torch" ] || torch=${ZERO_TORCH:-}
path=$libs${torch:+:$torch/lib}
for folder in ${torch:+"$torch"/../nvidia/*/lib}; do [ -d "$folder" ] && path=$path:$folder; done
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ZERO_LOG_LEVEL=error

note() { printf '%s\n' "$*" >&2; }
# REASON: writes the file, with all checks so far. REASON: why nothing was tried, or nothing.
write() {
  python3 - "$results" "$out" "$batch" "$gpu" "$1" "$here/BUILT" <<'PY'
import json, os, sys, time
results, out, batch, gpu, skipped, built = sys.argv[1:]
facts = dict(line.rstrip("\n").split("=", 1) for line in open(built) if "=" in line) if os.path.exists(built) else {}
document = {"batch": int(batch), "gpu": gpu or None, "built": facts, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "checks": [json.loads(line) for line in open(results)]}
if skipped:
    document["skipped"] = skipped
with open(out + ".part", "w") as file:
    json.dump(document, file, indent=2)
os.replace(out + ".part", out)
PY
}
# NAME STATUS SECONDS REASON [FILE]: one check. FILE: figures, a JSON object.
add() {
  python3 - "$results" "$@" <<'PY'
import json, sys
results, name, status, seconds, reason, *figures = sys.argv[1:]
check = {"check": name, "status": status, "seconds": float(seconds), "reason": reason}
if figures:
    try:
        check["figures"] = json.load(open(figures[0]))
    except (OSError, ValueError) as error:
        check.update(status="failed", reason=f"no figures: {error}")
with open(results, "a") as file:
    file.write(json.dumps(check) + "\n")
PY
  write ""
  note "$2 ${3}s $1${4:+: $4}"
}
skip() { add "$1" skipped 0 "$2"; }
# NAME LIMIT COMMAND...: passes with status 0. Its output is in $work/NAME.out.
check() {
  local name=$1 limit=$2 begin status reason=
  shift 2
  [ "$limit" -le "${ZERO_CHECK_SECONDS:-$limit}" ] || limit=$ZERO_CHECK_SECONDS
  local total=${ZERO_CHECK_TOTAL:-590}
  local left=$((total - SECONDS))
  if [ $left -lt 5 ]; then skip "$name" "the $total s of the batch are over"; return 1; fi
  [ "$limit" -le $left ] || limit=$left
  begin=$(date +%s.%N)
  timeout "$limit" "$@" > "$work/$name.out" 2>&1
  status=$?
  if [ $status = 0 ]; then
    status=passed
    # A test program that passed over all that it was asked for says why in its first lines.
    if grep -q '^\[  PASSED  \] 0 tests' "$work/$name.out"; then
      status=skipped
      reason=$(grep -A1 'Skipped$' "$work/$name.out" | grep -v 'Skipped$' | head -1 | cut -c1-300)
      [ -n "$reason" ] || reason="no test ran"
    fi
  else
    [ $status = 124 ] && reason="not done after $limit s; "
    reason="$reason$(grep -E 'FAILED|Failure|error|zero ' "$work/$name.out" | head -3 | cut -c1-300 | tr '\n' ' ')"
    [ -n "${reason# }" ] || reason="status $status: $(tail -2 "$work/$name.out" | cut -c1-300 | tr '\n' ' ')"
    status=failed
  fi
  add "$name" $status "$(python3 -c "print(round($(date +%s.%N) - $begin, 1))")" "$reason"
  [ $status != failed ]
}
# GTEST NAME LIMIT PROGRAM FILTER: a test program that is there, on the GPU. All passed over: skipped.
gtest() {
  [ -x "$tests/$3" ] || { skip "$1" "$3 is not there"; return; }
  check "$1" "$2" env ZERO_TEST_DEVICE=cuda "$tests/$3" --gtest_filter="$4" --gtest_brief=1
}
finish() {  # EXIT REASON
  write "$2"
  note "$out"
  exit "$1"
}

# ---- is there a GPU that libtorch and the plug-in can use? --------------------------------------------------------------
[ -x "$zero" ] || { echo "no command here: $zero is not there" >&2; finish 2 "$zero is not there"; }
"$zero" doctor --json > "$work/doctor.json" 2> "$work/doctor.err"
found=$(python3 - "$work/doctor.json" <<'PY'
import json, sys
try:
    row = next(c for c in json.load(open(sys.argv[1]))["checks"] if c["check"] == "GPU")
    print(("yes " if row["status"] == "OK" and row["found"].startswith("cuda:") else "no ") + row["found"])
except (OSError, ValueError, StopIteration):
    print("no zero doctor does not run: " + " ".join(open(sys.argv[1].replace(".json", ".err")).read().split())[:300])
PY
)
if [ "${found%% *}" != yes ]; then
  echo "no GPU here: ${found#* }"
  finish 2 "no GPU here: ${found#* }"
fi
gpu=${found#* }
note "$gpu"

# NAME RANKS ARGUMENTS...: a run on text of its own; its report in $work/NAME/report.json.
python3 - "$work/text.txt" <<'PY'
import random, sys
draw = random.Random(7)
words = ["".join(draw.choice("etaoinshrdlu") for _ in range(draw.randint(2, 8))) for _ in range(400)]
with open(sys.argv[1], "w") as file:
    for _ in range(60000):
        file.write(" ".join(draw.choice(words) for _ in range(8)) + "\n")
PY
train() {
  local name=$1 ranks=$2 limit=$3
  shift 3
  check "$name" "$limit" "$zero" train -n "$ranks" --data.path "$work/text.txt" --run.dir "$work/$name.run" \
    --checkpoint.every 0 --train.eval_every 0 --train.eval_batches 1 --train.log_every 1 --run.device cuda "$@"
}
# NAME...: what reports say, as figures of one check.
figures() {
  local name=$1
  shift
  python3 - "$work" "$@" > "$work/$name.json" <<'PY'
import json, statistics, sys
work, *names = sys.argv[1:]
figures = {}
for name in names:
    try:
        report = json.load(open(f"{work}/{name}.run/report.json"))
    except OSError:
        continue
    seconds = report.get("step_seconds", [])[2:] or report.get("step_seconds", [])
    row = {"losses": report.get("losses", [])[:20], "step_seconds_median": statistics.median(seconds) if seconds else None}
    for key in ("tokens_per_step", "flops_per_step"):
        if report.get(key) and seconds:
            row[key.replace("_per_step", "_per_second")] = report[key] / statistics.median(seconds)
    figures[name] = row
json.dump(figures, sys.stdout)
PY
  add "$name" passed 0 "" "$work/$name.json"
}

small="--model.layers 4 --model.width 128 --model.heads 4 --model.context 128 --train.steps 20 --schedule.warmup 5 --train.batch 8"

right() {
  if [ -f "$here/BUILT" ] && [ -n "$torch" ]; then
    local built there
    built=$(sed -n 's/^torch_git=//p' "$here/BUILT")
    there=$(sed -n "s/^git_version.*= '\(.*\)'/\1/p" "$torch/version.py" | head -1)
    if [ "$built" = "$there" ]; then add torch passed 0 ""; else add torch failed 0 "built for torch $built, and $there is here"; fi
  else
    skip torch "no BUILT beside this script, or no torch"
  fi
  cp "$work/doctor.json" "$work/probes.json"
  add probes passed 0 "" "$work/probes.json"
  ZERO_GPU_SPANS=${ZERO_GPU_SPANS:-3000} gtest kernels 150 zero_cuda_test '*OnTheGpu*'
  gtest engine 120 zero_engine_test 'OnADevice.*:-*RunsAsLate*'
  gtest nccl 60 zero_engine_test 'LinkedDevices.*'
  if command -v compute-sanitizer > /dev/null && [ -x "$tests/zero_cuda_test" ]; then
    check sanitizer 120 env ZERO_TEST_DEVICE=cuda ZERO_GPU_SPANS=20 compute-sanitizer --error-exitcode 9 \
      "$tests/zero_cuda_test" --gtest_filter='*OnTheGpu*' --gtest_brief=1
  else
    skip sanitizer "compute-sanitizer is not there"
  fi
  gtest seam 60 zero_torch_test 'Autocast.*:DeferredModule.*:Dropout.*'
  gtest plain_libtorch 60 zero_parity_test 'Losses.*'
  # On the CPU zero.cpp has the bits of plain libtorch (tests/parity). A GPU multiplies in another order.
  # shellcheck disable=SC2086
  {
    train cpu 1 60 $small --run.device cpu
    train gpu1_stage3 1 60 $small
    train gpu2_stage3 2 60 $small --train.batch 4
    train gpu2_stage0 2 60 $small --train.batch 4 --zero.stage 0
    train gpu1_bf16 1 60 $small --train.dtype bf16
    train gpu1_deterministic 1 60 $small --run.deterministic true
    train dropout 1 60 $small --model.dropout 0.1
    train dropout_again 1 60 $small --model.dropout 0.1 --train.checkpoint_activations true
    train cpu_muon 1 60 $small --run.device cpu --optimizer.name muon
    train gpu1_muon 1 60 $small --optimizer.name muon
    train gpu2_muon 2 60 $small --train.batch 4 --optimizer.name muon
  }
  figures losses cpu gpu1_stage3 gpu2_stage3 gpu2_stage0 gpu1_bf16 gpu1_deterministic dropout dropout_again cpu_muon gpu1_muon gpu2_muon
  python3 - "$work/losses.json" > "$work/near.out" <<'PY'
import json, sys
runs = {name: run["losses"] for name, run in json.load(open(sys.argv[1])).items()}
wrong = [f"the run {name} has no losses" for name in ("cpu", "cpu_muon") if not runs.get(name)]
for name, most in (("gpu1_stage3", 2e-3), ("gpu2_stage3", 2e-3), ("gpu1_deterministic", 2e-3), ("gpu1_bf16", 5e-2),
                   ("gpu1_muon", 2e-3), ("gpu2_muon", 2e-3)):
    mine, cpu = runs.get(name, []), runs.get("cpu_muon" if name.endswith("_muon") else "cpu", [])
    if len(mine) != len(cpu) or not mine:
        wrong.append(f"{name} has no losses of as many steps")
    elif max(abs(a - b) for a, b in zip(mine, cpu)) > most:
        wrong.append(f"{name} is off by {max(abs(a - b) for a, b in zip(mine, cpu)):.2e}")
if runs.get("gpu2_stage3") != runs.get("gpu2_stage0"):
    wrong.append("stages 0 and 3 differ in bits")
if runs.get("dropout") != runs.get("dropout_again"):
    wrong.append("with dropout, activation checkpoints change bits")
print("; ".join(wrong))
PY
  local wrong
  wrong=$(cat "$work/near.out")
  if [ -z "$wrong" ]; then add losses_agree passed 0 ""; else add losses_agree failed 0 "$wrong"; fi
}

bench() {  # NAME ARGUMENTS...
  local name=$1
  shift
  check "$name" 60 "$zero" bench "$@" --json && add "${name}_figures" passed 0 "" "$work/$name.out"
}
gpt() {  # LAYERS WIDTH HEADS CONTEXT BATCH
  echo "--model.layers $1 --model.width $2 --model.heads $3 --model.context $4 --train.batch $5 --train.steps 8 --schedule.warmup 2 --train.dtype bf16"
}

# PyTorch alone with the same shapes, and its FSDP2.
plain() {  # NAME ARGUMENTS...
  local name=$1 script=$here/gpu_plain.py
  shift
  [ -f "$script" ] || script=$here/../benchmarks/gpu_plain.py
  check "$name" 120 python3 "$script" "$@" && tail -1 "$work/$name.out" > "$work/$name.json" &&
    add "${name}_figures" passed 0 "" "$work/$name.json"
}

speed() {
  for rule in adamw adamw8bit lion sgd muon_direct muon_step; do bench "update_$rule" optimizer --device cuda --name $rule --mib 1024; done
  # Matrices of GPT-2 of 124 million and of 1.56 billion parameters.
  bench muon_768 muon --device cuda --rows 768 --columns 3072
  bench muon_1600 muon --device cuda --rows 1600 --columns 6400
  # shellcheck disable=SC2046
  {
    train gpt_124m 1 90 $(gpt 12 768 12 1024 16) --model.vocab 50304
    train gpt_124m_tf32 1 90 $(gpt 12 768 12 1024 16) --model.vocab 50304 --train.dtype fp32 --train.matmul tf32
    train gpt_124m_muon 1 90 $(gpt 12 768 12 1024 16) --model.vocab 50304 --optimizer.name muon
    train gpt_1b5 1 150 $(gpt 48 1600 25 1024 8) --model.vocab 50304 --train.checkpoint_activations true
  }
  figures speed gpt_124m gpt_124m_tf32 gpt_124m_muon gpt_1b5
  plain plain_124m --layers 12 --width 768 --heads 12 --batch 16 --vocab 50304
  plain plain_1b5 --layers 48 --width 1600 --heads 25 --batch 8 --vocab 50304 --recompute --systems compute,fsdp2
}

offload() {
  mkdir -p "$work/disk"
  bench copies offload --device cuda --mib 512 --threads "$(nproc)" --dir "$work/disk"
  bench collectives comm --device cuda -n 2 --transports shared_memory
  # shellcheck disable=SC2046
  {
    train resident 1 120 $(gpt 24 1024 16 1024 8) --train.checkpoint_activations true
    train half_on_host 1 120 $(gpt 24 1024 16 1024 8) --train.checkpoint_activations true --zero.optimizer '{host=0.5}'
    train moments_on_host 1 150 $(gpt 24 1024 16 1024 8) --train.checkpoint_activations true --zero.optimizer '{host=1}'
    train moments_on_disk 1 150 $(gpt 24 1024 16 1024 8) --train.checkpoint_activations true --zero.optimizer '{disk=1}' --zero.disk "$work/disk"
    train in_8_gib 1 150 $(gpt 48 1600 25 1024 8) --model.vocab 50304 --train.checkpoint_activations true --zero.device_memory 8GiB
  }
  figures offload resident half_on_host moments_on_host moments_on_disk in_8_gib
  plain plain_offload --layers 24 --width 1024 --heads 16 --batch 8 --vocab 256 --recompute --systems compute,fsdp2,offload
}

case $batch in
  1) right ;;
  2) speed ;;
  3) offload ;;
esac
failed=$(grep -c '"status": "failed"' "$results")
if [ "$failed" = 0 ]; then finish 0 ""; else finish 1 ""; fi
