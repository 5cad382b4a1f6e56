#!/usr/bin/env bash
# The full counts of docs/reliability.md, one after the other: about an hour on two cores. What is missing (root, strace, loop
# mounts, a fuzz build) is said by the part that wants it. Exit status 0: all held.
#
#   tests/faults/full_counts.sh             # everything, after ./test.sh (which builds what this runs)
#   tests/faults/full_counts.sh kills       # one part: calls, mutations, crash, power, kills, flips, resume, fuzz, other or export
#
# Not here: speed (zero bench checkpoint) and what a save costs beside its peers (benchmarks/save.py), which want a quiet machine.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
tests=build/release/tests
summary=()
num_failed=0

part() {  # NAME COMMAND...
  local name=$1 begin=$SECONDS result=held
  shift
  [[ -z ${wanted:-} || $wanted == "$name" ]] || return 0
  printf '\n== %s: %s\n' "$name" "$*"
  "$@" || { result=FAILED; num_failed=$((num_failed + 1)); }
  summary+=("$(printf '%-10s %-8s %6d s' "$name" "$result" $((SECONDS - begin)))")
}

# shellcheck disable=SC2317  # called by part()
fuzz() {
  local target
  [ -d build/fuzz ] || { echo "build/fuzz is not there: ./test.sh configures it" >&2; return 1; }
  cmake --build build/fuzz --target fuzzers || return 1
  for target in manifest flight store keeper csv weight_index safetensors config tokens idx; do
    "build/fuzz/bin/${target}_fuzz" -max_total_time=60 "build/fuzz/corpus/$target" "tests/fuzz/seeds/$target" || return 1
  done
}

# shellcheck disable=SC2317  # called by part()
exports() {
  [ -n "${ZERO_TEST_PYTHON:-}" ] || { echo "ZERO_TEST_PYTHON names no python with torch, transformers and safetensors" >&2; return 1; }
  "$tests/zero_train_test" --gtest_filter='ExportLogits*' && "$tests/zero_cli_test" --gtest_filter='Export.Transformers*'
}

wanted=${1:-}
export ZERO_LOG_LEVEL=${ZERO_LOG_LEVEL:-error}
part calls env ZERO_CRASH_POINTS=all "$tests/zero_checkpoint_test" --gtest_filter='*Killed*:*TheFirstOne*:*AFailingCall*:*DiskThatIsFull*:*ButNotTheManifest*:*AnyWorld*'
part mutations env ZERO_MUTATIONS=10000 "$tests/zero_checkpoint_test" --gtest_filter='*NoMutation*'
part crash env ZERO_CRASH_POINTS=all "$tests/zero_faults_test" --gtest_filter='*CrashPoints*'
part power tests/faults/crash_points.py power --commits --saver "$tests/zero_fault_saver"
part kills env ZERO_KILLS=200 "$tests/zero_faults_test" --gtest_filter='ResumeFaults*'
part flips env ZERO_FLIPS=1000 "$tests/zero_engine_test" --gtest_filter='BitFlips*'
part resume env ZERO_RESUME_CELLS=all "$tests/zero_parity_test" --gtest_filter='*ResumeBits*'
part fuzz fuzz
part other env ZERO_LOG_LEVEL=error "$tests/zero_faults_test" --gtest_filter='-ResumeFaults*:*CrashPoints*'
part export exports

[[ ${#summary[@]} -gt 0 ]] || { echo "full_counts.sh: there is no part '$wanted'." >&2; exit 2; }
printf '\n'
printf '%s\n' "${summary[@]}"
exit $((num_failed > 0))
