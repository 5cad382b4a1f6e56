#!/usr/bin/env bash
# Builds zero.cpp and runs every test; the last lines say what ran, for how long, and what failed.
#
#   ./test.sh         everything: layers, sizes, format, all tests, the core under sanitizers, two minutes of fuzzing
#   ./test.sh fast    the quick tests alone
#
# Installs what is missing, as quickstart.sh does, and for the tests GoogleTest, RapidCheck, Google Benchmark, Open MPI,
# Gloo, clang, strace, e2fsprogs, iproute2 and SciPy. Safe to run again. Exit status 0: all passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

case "${1:-all}" in
  all | fast) ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' test.sh; exit 0 ;;
  *) echo "test.sh: '$1' is neither 'all' nor 'fast'." >&2; exit 2 ;;
esac

# shellcheck source=tools/setup.sh
. tools/setup.sh
set_up build test plugin

fixed_addresses=()  # a command before ctest
skipped=77  # a stage's exit status when it could not run here and said why
summary=()
failures=()
num_failed=0

# Runs a stage and notes how it ended. Stages go on after a failure, so that one run shows everything that is wrong.
stage() {  # NAME COMMAND...
  local name=$1 begin=$SECONDS status=0 result
  shift
  printf '\n== %s\n' "$name"
  "$@" || status=$?
  case $status in
    0) result=passed ;;
    "$skipped") result=skipped ;;
    *) result=FAILED; num_failed=$((num_failed + 1)) ;;
  esac
  summary+=("$(printf '%-10s %-8s %6d s' "$name" "$result" $((SECONDS - begin)))")
}

configure_and_build() {  # PRESET [CMAKE OPTION...]
  local preset=$1
  shift
  cmake --preset "$preset" "$@" >/dev/null && cmake --build --preset "$preset"
}

# A skipped test counts as passed with ctest; here it is told, with its reason.
skips() {  # BUILD_FOLDER
  grep -h -A1 ': Skipped$' "$1/Testing/Temporary/LastTest.log" 2>/dev/null | grep -v -e ': Skipped$' -e '^--$' | sort |
    uniq -c | sed 's/^ *\([0-9]*\) /  skipped, \1 x: /' || true
}

# What failed, for the end of a long output: checks that did not hold, tests by name, what a sanitizer found.
failed_in() {  # BUILD_FOLDER
  grep -hE -A4 ': Failure$|^\[  FAILED  \] [A-Za-z]|^SUMMARY: |^WARNING: Thread|^(FAILED|ERROR|FAIL): |Falsifiable|[Tt]imeout' \
    "$1/Testing/Temporary/LastTest.log" 2>/dev/null | cut -c1-200 | head -60 || true
}

run_ctest() {  # BUILD_FOLDER [CTEST OPTION...]
  local folder=$1
  shift
  local status=0
  "${fixed_addresses[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error "$@" || status=$?
  skips "$folder"
  [ $status = 0 ] || failures+=("$folder" "$(failed_in "$folder")")
  return $status
}

build_release() { configure_and_build release "-DZERO_TORCH=$ZERO_TORCH" -DZERO_TESTS=ON; }

check_format() {
  command -v clang-format-14 >/dev/null || { say "clang-format-14 is not here."; return $skipped; }
  tools/format.sh --check
}

address_sanitizer() { configure_and_build asan -DZERO_TESTS=ON && run_ctest build/asan; }

thread_sanitizer() {
  # ThreadSanitizer wants its shadow where a newer kernel may have put something else; without randomization it fits.
  local fixed_addresses=()
  setarch "$(uname -m)" -R true 2>/dev/null && fixed_addresses=(setarch "$(uname -m)" -R)
  # Where threads meet.
  local threaded=(base comm memory engine checkpoint world) targets
  targets=("${threaded[@]/#/zero_}")
  targets=("${targets[@]/%/_test}")
  cmake --preset tsan -DZERO_TESTS=ON >/dev/null && cmake --build --preset tsan --target "${targets[@]}" || return $?
  run_ctest build/tsan -R "^($(IFS='|' && echo "${threaded[*]}"))(_slow)?\$"
}

fuzz() {
  local compiler
  compiler=$(fuzzing_compiler) || { say "No clang here that can link a fuzzer."; return $skipped; }
  cmake -S . -B build/fuzz -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" -DZERO_WITH_TORCH=OFF -DZERO_TESTS=OFF -DZERO_FUZZ=ON >/dev/null &&
    cmake --build build/fuzz --target fuzzers && run_ctest build/fuzz -L fuzz
}

if [ "${1:-all}" = fast ]; then
  stage build build_release
  stage tests run_ctest build/release -L fast
else
  stage tools python3 tests/tools_test.py --quiet
  stage layers python3 tools/check_layers.py
  stage sizes python3 tools/check_sizes.py
  stage format check_format
  stage build build_release
  stage tests run_ctest build/release
  stage asan address_sanitizer
  stage tsan thread_sanitizer
  stage fuzz fuzz
fi

[ ${#failures[@]} = 0 ] || printf '\n== failures\n'
[ ${#failures[@]} = 0 ] || printf '%s\n' "${failures[@]}"
printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
[ "$num_failed" = 0 ] || { say "$num_failed of ${#summary[@]} stages failed."; exit 1; }
say "All passed in $SECONDS s."
