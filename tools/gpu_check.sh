#!/usr/bin/env bash
# Tests zero.cpp on a GPU, in three batches of less than ten minutes each. Writes one JSON file for each batch.
#
#   ./gpu_check.sh 1 [OUT.json]     # right: probes, kernels and engines bit for bit, runs compared, compute-sanitizer
#   ./gpu_check.sh 2 [OUT.json]     # speed: training and update, with the states on the GPU
#   ./gpu_check.sh 3 [OUT.json]     # offload: states on the host and on a disk, the largest model
#
# Each batch begins with its most important checks among those that never ran on a GPU.
#
# It runs from a bundle (tools/bundle.sh) or a checkout with build/release. It needs a python3 that finds torch 2.11.0
# with CUDA 13. Each check has passed, failed or been skipped, with a reason. The file is written after each check, so a
# killed batch has its results so far. ZERO_CHECK_LOGS=FOLDER keeps the output of each check there. ZERO_CHECK_SECONDS=N
# limits each check. The batch ends after 590 seconds (ZERO_CHECK_TOTAL=N: N), and the remaining checks are skipped. The
# largest model takes 40 percent of the free memory of the host and of the free disk below TMPDIR (ZERO_CHECK_SHARE=N:
# N). ZERO_CHECK_ONLY=REGEX runs only checks whose whole name matches. Exit status: 0: all checks that ran passed; 1:
# one failed; 2: there is no GPU here, or the batch does not exist. The file then has the reason.
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
keep_logs() {
  [ -z "${ZERO_CHECK_LOGS:-}" ] ||
    { mkdir -p "$ZERO_CHECK_LOGS" && cp "$work"/*.out "$work"/*.json "$work"/*.err "$ZERO_CHECK_LOGS/"; }
}
leave() {
  keep_logs 2>/dev/null
  rm -rf "$work"
}
trap leave EXIT
results=$work/results
: > "$results"
gpu=

# torch's folder, found without importing torch.
torch=$(python3 - 2>/dev/null <<'PY' || true
import importlib.util as u
s = u.find_spec("torch")
print(s.submodule_search_locations[0] if s else "")
PY
)
[ -n "$torch" ] || torch=${ZERO_TORCH:-}
path=$libs${torch:+:$torch/lib}
for folder in ${torch:+"$torch"/../nvidia/*/lib}; do [ -d "$folder" ] && path=$path:$folder; done
export LD_LIBRARY_PATH=$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ZERO_LOG_LEVEL=error

note() { printf '%s\n' "$*" >&2; }
# SKIPPED [NAME STATUS SECONDS REASON [FILE]]: records a check, and writes the file with all checks so far. SKIPPED: the
# reason why nothing was tested, or empty. FILE: figures, a JSON object.
record() {
  python3 - "$results" "$out" "$batch" "$gpu" "$here/BUILT" "$@" <<'PY'
import json, os, sys, time
results, out, batch, gpu, built, skipped, *noted = sys.argv[1:]
if noted:
    name, status, seconds, reason, *figures = noted
    check = {"check": name, "status": status, "seconds": float(seconds), "reason": reason}
    if figures:
        try:
            check["figures"] = json.load(open(figures[0]))
        except (OSError, ValueError) as error:
            check.update(status="failed", reason=f"no figures: {error}")
    with open(results, "a") as file:
        file.write(json.dumps(check) + "\n")
facts = {}
if os.path.exists(built):
    facts = dict(line.rstrip("\n").split("=", 1) for line in open(built) if "=" in line)
document = {"batch": int(batch), "gpu": gpu or None, "built": facts, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "checks": [json.loads(line) for line in open(results)]}
if skipped:
    document["skipped"] = skipped
with open(out + ".part", "w") as file:
    json.dump(document, file, indent=2)
os.replace(out + ".part", out)
PY
}
add() {  # NAME STATUS SECONDS REASON [FILE]
  record "" "$@"
  note "$2 ${3}s $1${4:+: $4}"
}
wanted() { [[ "$1" =~ ^(${ZERO_CHECK_ONLY:-.*})$ ]]; }
skip() { ! wanted "$1" || add "$1" skipped 0 "$2"; }
# NAME LIMIT COMMAND...: passes with status 0. Status 77: skipped, with its last line as the reason. Its output is in
# $work/NAME.out.
check() {
  local name=$1 limit=$2 begin status reason='' cut=
  shift 2
  wanted "$name" || return 1
  [ "$limit" -le "${ZERO_CHECK_SECONDS:-$limit}" ] || limit=$ZERO_CHECK_SECONDS
  local total=${ZERO_CHECK_TOTAL:-590}
  local left=$((total - SECONDS))
  if [ $left -lt 5 ]; then skip "$name" "the $total s of the batch are over"; return 1; fi
  [ "$limit" -le $left ] || { limit=$left cut=1; }
  begin=${EPOCHREALTIME/./}  # microseconds
  # After SIGTERM a run may still evaluate and save. After five more seconds it is killed.
  timeout -k 5 "$limit" "$@" > "$work/$name.out" 2>&1
  status=$?
  [ $status != 137 ] || [ $((${EPOCHREALTIME/./} - begin)) -lt $((limit * 1000000)) ] || status=124
  if [ $status = 0 ]; then
    status=passed
    # A test program that skipped all its tests prints the reason in its first lines.
    if grep -q '^\[  PASSED  \] 0 tests' "$work/$name.out"; then
      status=skipped
      reason=$(grep -A1 'Skipped$' "$work/$name.out" | grep -v 'Skipped$' | head -1 | cut -c1-300)
      [ -n "$reason" ] || reason="no test ran"
    fi
  elif [ $status = 77 ]; then
    status=skipped reason=$(tail -1 "$work/$name.out" | cut -c1-300)
  elif [ $status = 124 ] && [ -n "$cut" ]; then
    status=skipped reason="not done when the $total s of the batch were over"
  else
    [ $status = 124 ] && reason="not done after $limit s; "
    reason="$reason$(grep -E 'FAILED|Failure|error|zero ' "$work/$name.out" | head -3 | cut -c1-300 | tr '\n' ' ')"
    [ -n "${reason# }" ] || reason="status $status: $(tail -2 "$work/$name.out" | cut -c1-300 | tr '\n' ' ')"
    status=failed
  fi
  local tenths=$(((${EPOCHREALTIME/./} - begin + 50000) / 100000))
  add "$name" $status "$((tenths / 10)).$((tenths % 10))" "$reason"
  [ $status = passed ]
}
# GTEST NAME LIMIT PROGRAM FILTER: runs a test program on the GPU, if it exists. If all tests are skipped, so is the
# check.
gtest() {
  [ -x "$tests/$3" ] || { skip "$1" "$3 is not there"; return; }
  check "$1" "$2" env ZERO_TEST_DEVICE=cuda "$tests/$3" --gtest_filter="$4" --gtest_brief=1
}
finish() {  # EXIT REASON
  record "$2"
  note "$out"
  exit "$1"
}

# ---- the GPU, if libtorch and the plug-in can use it -----------------------------------------------------------------
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

# NAME RANKS ARGUMENTS...: a run on its own text, with its report in $work/NAME/report.json.
python3 - "$work/text.txt" <<'PY'
import random, sys
draw = random.Random(7)
words = ["".join(draw.choice("etaoinshrdlu") for _ in range(draw.randint(2, 8))) for _ in range(400)]
with open(sys.argv[1], "w") as file:
    for _ in range(60000):
        file.write(" ".join(draw.choice(words) for _ in range(8)) + "\n")
PY
train() {
  local name=$1 ranks=$2 limit=$3 status=0
  shift 3
  check "$name" "$limit" "$zero" train -n "$ranks" --data.path "$work/text.txt" --run.dir "$work/$name.run" \
    --checkpoint.every 0 --train.eval_every 0 --train.eval_batches 1 --train.log_every 1 --run.device cuda "$@" ||
    status=$?
  rm -f "$work/$name.run/"*.safetensors*  # gigabytes for a large model
  [ $status != 0 ] || figures "$name"
  return $status
}
# NAME: records the figures of this run's report, as a separate check.
figures() {
  python3 - "$work/$1.run/report.json" > "$work/$1.json" <<'PY'
import json, statistics, sys
report = json.load(open(sys.argv[1]))
seconds = report.get("step_seconds", [])[2:] or report.get("step_seconds", [])
row = {"losses": report.get("losses", [])[:20], "step_seconds_median": statistics.median(seconds) if seconds else None}
for key in ("parameters_sha256", "num_parameters", "tokens_per_step"):
    if report.get(key):
        row[key] = report[key]
for key in ("tokens_per_step", "flops_per_step"):
    if report.get(key) and seconds:
        row[key.replace("_per_step", "_per_second")] = report[key] / statistics.median(seconds)
if report.get("predicted"):
    row["predicted"] = {key: report["predicted"].get(key) for key in ("seconds", "bound")}
if report.get("profile"):
    row["profile"] = {key: value for key, value in report["profile"].items() if key.endswith("_seconds")}
# Bytes of the first rank. States by tier: the states that the formula counts.
tiers = {"device": "memory_bytes", "host": "host_memory_bytes", "disk": "disk_bytes"}
states = ("parameter", "gradient", "master", "moment")
if report.get("memory_bytes"):
    row["state_bytes"] = {
        tier: sum(report[key][0].get(state, 0) for state in states) if report.get(key) else 0
        for tier, key in tiers.items()
    }
    row["formula_bytes"] = report.get("formula", {}).get("state_bytes")
if "updated_meanwhile_seconds" in report:
    row["updated_meanwhile_seconds"] = report["updated_meanwhile_seconds"]
if report.get("link_hidden"):
    row["link_hidden"] = report["link_hidden"][0]
if report.get("transfers"):
    row["transfers"] = report["transfers"][0]
    disk = row["transfers"].get("disk", {})
    if disk.get("busy_seconds"):
        row["disk_hidden"] = disk["hidden_seconds"] / disk["busy_seconds"]
json.dump(row, sys.stdout)
PY
  add "$1_figures" passed 0 "" "$work/$1.json"
}

# NAME LIKE RANKS ARGUMENTS...: a small run. It must have the bits of the run LIKE, an earlier one; `-`: of no run.
small="--model.layers 4 --model.width 128 --model.heads 4 --model.context 128 --train.steps 20 --schedule.warmup 5"
small+=" --train.batch 8"
on_disk="--train.checkpoint_activations true --train.offload_activations disk"
small_runs=(
  "gpu1_stage3 - 1"
  "host gpu1_stage3 1 --zero.optimizer {host=1}"
  "half_host gpu1_stage3 1 --zero.optimizer {host=0.5}"
  "disk gpu1_stage3 1 --zero.optimizer {disk=1} --zero.disk $work/disk"
  "budget gpu1_stage3 1 --zero.device_memory 10MiB"
  "activations_host gpu1_stage3 1 --train.checkpoint_activations true --train.offload_activations host"
  "activations_disk gpu1_stage3 1 $on_disk --zero.disk $work/disk"
  "nccl gpu1_stage3 1 --comm.transport nccl"
  "gpu2_stage3 - 2 --train.batch 4"
  "gpu2_host gpu2_stage3 2 --train.batch 4 --zero.optimizer {host=1}"
  "gpu2_copies gpu2_stage3 2 --train.batch 4 --zero.group 1"
  "gpu1_muon - 1 --optimizer.name muon"
  "muon_host gpu1_muon 1 --optimizer.name muon --zero.optimizer {host=1}"
  "cpu - 1 --run.device cpu"
  "cpu_muon - 1 --run.device cpu --optimizer.name muon"
  "gpu2_muon - 2 --train.batch 4 --optimizer.name muon"
  "lamb - 1 --optimizer.name lamb"
  "lamb_host lamb 1 --optimizer.name lamb --zero.optimizer {host=1}"
  "adafactor - 1 --optimizer.name adafactor"
  "adafactor_host adafactor 1 --optimizer.name adafactor --zero.optimizer {host=1}"
  "adamw8bit - 1 --optimizer.name adamw8bit"
  "adamw8bit_host adamw8bit 1 --optimizer.name adamw8bit --zero.optimizer {host=1}"
  "gpu1_bf16 - 1 --train.dtype bf16"
  "bf16_host gpu1_bf16 1 --train.dtype bf16 --zero.optimizer {host=1}"
  "gpu2_stage0 gpu2_stage3 2 --train.batch 4 --zero.stage 0"
  "dropout - 1 --model.dropout 0.1"
  "dropout_again dropout 1 --model.dropout 0.1 --train.checkpoint_activations true"
  "gpu1_deterministic - 1 --run.deterministic true"
)
# Their losses against those of the CPU: a GPU multiplies in another order. On the CPU zero.cpp has the bits of plain
# libtorch (tests/parity).
near="gpu1_stage3 cpu 2e-3  gpu2_stage3 cpu 2e-3  gpu1_deterministic cpu 2e-3  gpu1_bf16 cpu 5e-2"
near+="  gpu1_muon cpu_muon 2e-3  gpu2_muon cpu_muon 2e-3"

small_runs() {
  mkdir -p "$work/disk"
  local line words
  for line in "${small_runs[@]}"; do
    read -ra words <<< "$line"
    # shellcheck disable=SC2086
    train "${words[0]}" "${words[2]}" 60 $small "${words[@]:3}"
  done
  # Runs that did not take place are not compared; their own checks report them.
  printf '%s\n' "${small_runs[@]}" > "$work/small_runs"
  python3 - "$work" "$near" > "$work/compared.out" <<'PY'
import json, sys
work, near = sys.argv[1], sys.argv[2].split()
rows = [line.split() for line in open(f"{work}/small_runs")]
runs = {}
for name, *_ in rows:
    try:
        runs[name] = json.load(open(f"{work}/{name}.json"))
    except (OSError, ValueError):
        pass


def apart(name, like):  # None: another number of steps
    mine, other = runs[name]["losses"], runs[like]["losses"]
    return max(abs(a - b) for a, b in zip(mine, other)) if mine and len(mine) == len(other) else None


bits, differ, far = {}, [], []
for name, like, *_ in rows:
    if name not in runs or like not in runs:
        continue
    losses = apart(name, like)
    same = losses == 0 and runs[name].get("parameters_sha256") == runs[like].get("parameters_sha256")
    bits[name] = {"like": like, "same": same, "apart": losses}
    if not same:
        if losses is None:
            what = "has another number of losses"
        elif losses:
            what = f"differs in bits, losses by {losses:.2e}"
        else:
            what = "differs in its last weights"
        differ.append(f"{name} {what} ({like})")
compared = [row for row in zip(near[::3], near[1::3], near[2::3]) if row[0] in runs and row[1] in runs]
for name, like, most in compared:
    losses = apart(name, like)
    if losses is None:
        far.append(f"{name} and {like}: other numbers of losses")
    elif not losses <= float(most):
        far.append(f"{name} is off by {losses:.2e}")
json.dump(bits, open(f"{work}/same_bits.json", "w"))
for wrong, some in ((differ, bits), (far, compared)):
    status = "failed" if wrong else "passed" if some else "skipped"
    print(status, "; ".join(wrong) if wrong or some else "no two runs to compare")
PY
  local status reason
  {
    read -r status reason; add same_bits "$status" 0 "$reason" "$work/same_bits.json"
    read -r status reason; add losses_agree "$status" 0 "$reason"
  } < "$work/compared.out"
}

right() {
  if [ -f "$here/BUILT" ] && [ -n "$torch" ]; then
    local built there
    built=$(sed -n 's/^torch_git=//p' "$here/BUILT")
    there=$(sed -n "s/^git_version.*= '\(.*\)'/\1/p" "$torch/version.py" | head -1)
    if [ "$built" = "$there" ]; then
      add torch passed 0 ""
    else
      add torch failed 0 "built for torch $built, and $there is here"
    fi
  else
    skip torch "no BUILT beside this script, or no torch"
  fi
  cp "$work/doctor.json" "$work/probes.json"
  add probes passed 0 "" "$work/probes.json"
  ZERO_GPU_SPANS=${ZERO_GPU_SPANS:-3000} gtest kernels 150 zero_cuda_test '*OnTheGpu*'
  gtest engine 120 zero_engine_test 'OnADevice.*'
  gtest seam 60 zero_torch_test 'Autocast.*:DeferredModule.*:Dropout.*'
  small_runs
  gtest nccl_engine 60 zero_engine_test 'LinkedDevices.*'
  gtest plain_libtorch 60 zero_parity_test 'Losses.*'
  if command -v compute-sanitizer > /dev/null && [ -x "$tests/zero_cuda_test" ]; then
    check sanitizer 120 env ZERO_TEST_DEVICE=cuda ZERO_GPU_SPANS=20 compute-sanitizer --error-exitcode 9 \
      "$tests/zero_cuda_test" --gtest_filter='*OnTheGpu*' --gtest_brief=1
  else
    skip sanitizer "compute-sanitizer is not there"
  fi
}

bench() {  # NAME ARGUMENTS...
  local name=$1
  shift
  check "$name" 60 "$zero" bench "$@" --json && add "${name}_figures" passed 0 "" "$work/$name.out"
}
gpt() {  # LAYERS WIDTH HEADS BATCH STEPS: bf16, with samples of 1024 tokens, without validation
  echo "--model.layers $1 --model.width $2 --model.heads $3 --model.context 1024 --train.batch $4 --train.steps $5" \
    "--schedule.warmup 2 --train.dtype bf16 --data.validation 0"
}
recompute="--train.checkpoint_activations true"

# A script beside this one, or in benchmarks/ of a checkout. Its last line is an object of figures.
script() {  # NAME FILE LIMIT ARGUMENTS...
  local name=$1 file=$here/$2 limit=$3
  [ -f "$file" ] || file=$here/../benchmarks/$2
  shift 3
  check "$name" "$limit" python3 "$file" "$@" && tail -1 "$work/$name.out" > "$work/$name.json" &&
    add "${name}_figures" passed 0 "" "$work/$name.json"
}
# Plain PyTorch with the same shapes, its FSDP2, and DeepSpeed.
plain() { script "$1" gpu_plain.py 120 "${@:2}"; }

speed() {
  # shellcheck disable=SC2046,SC2086
  {
    train gpt_124m 1 90 $(gpt 12 768 12 16 8) --model.vocab 50304
    plain plain_124m --layers 12 --width 768 --heads 12 --batch 16 --vocab 50304
    train gpt_1b5 1 150 $(gpt 48 1600 25 8 8) --model.vocab 50304 $recompute
    plain plain_1b5 --layers 48 --width 1600 --heads 25 --batch 8 --vocab 50304 --recompute --systems compute,fsdp2
    train gpt_124m_muon 1 90 $(gpt 12 768 12 16 8) --model.vocab 50304 --optimizer.name muon
  }
  # Matrices of GPT-2 of 124 million and of 1.56 billion parameters.
  bench muon_768 muon --device cuda --rows 768 --columns 3072
  bench muon_1600 muon --device cuda --rows 1600 --columns 6400
  local rule
  for rule in adamw muon_direct muon_step adamw8bit lion sgd; do
    bench "update_$rule" optimizer --device cuda --name $rule --mib 1024
  done
  # shellcheck disable=SC2046
  train gpt_124m_tf32 1 90 $(gpt 12 768 12 16 8) --model.vocab 50304 --train.dtype fp32 --train.matmul tf32
}

# NAME PROFILE ARGUMENTS...: predicts a step of the run NAME by `zero plan`, with the times and rates of the run
# PROFILE.
foresee() {
  local name=$1 profile=$2
  shift 2
  [ -f "$work/$name.json" ] && [ -f "$work/$profile.run/report.json" ] || return 0  # reported by its own check
  check "foresee_$name" 60 "$zero" plan --data.path "$work/text.txt" --run.device cuda "$@" \
    --profile "$work/$profile.run" --json || return
  python3 - "$work/foresee_$name.out" "$work/$name.json" > "$work/foresee_$name.json" <<'PY'
import json, sys
text = open(sys.argv[1]).read()
predicted = json.loads(text[text.index("{"):])["predicted"]
measured = json.load(open(sys.argv[2]))["step_seconds_median"]
row = {"seconds": predicted["seconds"], "bound": predicted["bound"], "step_seconds_median": measured}
print(json.dumps(row))
PY
  add "foresee_${name}_figures" passed 0 "" "$work/foresee_$name.json"
}

# The largest model for which the GPU and parts of the host's memory and of the disk have room, and the formula's.
largest() {
  local shape flags
  shape="$(gpt 1 4096 32 4 4) $recompute"
  # shellcheck disable=SC2086
  script largest_plan gpu_largest.py 150 --zero "$zero" --disk "$work/disk" --share "${ZERO_CHECK_SHARE:-40}" \
    -- --data.path "$work/text.txt" $shape || return
  local print_flags='import json, sys; print(*json.load(open(sys.argv[1]))["flags"])'
  read -ra flags < <(python3 -c "$print_flags" "$work/largest_plan.json")
  # shellcheck disable=SC2086
  train largest 1 240 $shape "${flags[@]}"
}

offload() {
  local medium="--layers 24 --width 1024 --heads 16 --batch 8 --vocab 256 --recompute"
  mkdir -p "$work/disk"
  bench copies offload --device cuda --mib 512 --threads "$(nproc)" --dir "$work/disk"
  # shellcheck disable=SC2046,SC2086
  {
    # 2.99 billion parameters.
    train b3_half_16k 1 120 $(gpt 38 2560 20 16 6) $recompute --zero.optimizer '{host=0.5}'
    train b3_resident 1 120 $(gpt 38 2560 20 16 6) $recompute
    foresee b3_half_16k b3_resident $(gpt 38 2560 20 16 6) $recompute --zero.optimizer '{host=0.5}'
    train b3_half_4k 1 120 $(gpt 38 2560 20 4 6) $recompute --zero.optimizer '{host=0.5}'
    largest
    train moments_on_disk 1 120 $(gpt 24 1024 16 8 6) $recompute --zero.optimizer '{disk=1}' --zero.disk "$work/disk"
    train moments_on_host 1 120 $(gpt 24 1024 16 8 8) $recompute --zero.optimizer '{host=1}'
    if python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("deepspeed") is None)'; then
      plain deepspeed $medium --systems ds2-offload,ds3-offload
    else
      skip deepspeed "python3 finds no deepspeed: pip install deepspeed==0.19.8"
    fi
    plain plain_offload $medium --systems compute,fsdp2,offload
    train half_on_host 1 120 $(gpt 24 1024 16 8 8) $recompute --zero.optimizer '{host=0.5}'
    train resident 1 120 $(gpt 24 1024 16 8 8) $recompute
    bench collectives comm --device cuda -n 2 --transports shared_memory
    train in_8_gib 1 120 $(gpt 48 1600 25 8 6) --model.vocab 50304 $recompute --zero.device_memory 8GiB
    plain plain_3b --layers 38 --width 2560 --heads 20 --batch 16 --vocab 256 --recompute --systems compute --steps 6
    train b3_half_64k 1 150 $(gpt 38 2560 20 64 5) $recompute --zero.optimizer '{host=0.5}'
    train b7_capped 1 200 $(gpt 33 4096 32 16 5) $recompute --zero.device_memory 30GiB
  }
}

case $batch in
  1) right ;;
  2) speed ;;
  3) offload ;;
esac
failed=$(grep -c '"status": "failed"' "$results")
if [ "$failed" = 0 ]; then finish 0 ""; else finish 1 ""; fi
