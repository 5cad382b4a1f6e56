#!/usr/bin/env bash
# Builds zero.cpp and tests it. The last lines list the stages that ran, their times, and failures.
#
#   ./test.sh                     the tests that a change is likely to break: all suites with samples of their long
#                                 sweeps, the core's quick suites under sanitizers, each fuzzer's seeds: 20 to 35
#                                 minutes on 2 cores without caches
#   ./test.sh fast                the quick suites, after the build
#   ./test.sh changed [BASE]      the quick tests that the change since BASE (HEAD) can break: those of its rooms, and
#                                 those that include its headers (tools/changed_tests.py): 1 to 6 minutes for a
#                                 change in one room
#   ./test.sh full                everything: whole sweeps, all suites of the core under sanitizers, half a minute of
#                                 each fuzzer, the Kubernetes manifest, the site, packages: two to four hours on 2 cores
#   ./test.sh [TIER] --from STAGE resumes at that stage
#   ./test.sh --list              the stages of each tier, with their last times here
#
# Installs missing packages, as quickstart.sh does, and for the tests GoogleTest, RapidCheck, Google Benchmark, Open
# MPI, Gloo, strace, e2fsprogs, iproute2, SciPy, clang-format, Python's venv and headers, and a Python with torch and
# transformers (6 GB in the cache; ZERO_TEST_PYTHON names another). The full tier also installs clang and Chromium. It
# can run again. Exit status 0: no stage failed; the summary names skipped stages. The full tier fails if a test is
# skipped for a reason that tools/allowed_skips.txt does not have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' test.sh; }
refuse() { printf 'test.sh: %s\n\n' "$1" >&2; usage >&2; exit 2; }

tier=standard
from=
list=no
base=HEAD
while [ $# -gt 0 ]; do
  case $1 in
    standard | fast | full) tier=$1 ;;
    changed) tier=$1; case ${2:-} in '' | --*) ;; *) base=$2; shift ;; esac ;;
    --from) [ $# -gt 1 ] || refuse "--from names no stage."; from=$2; shift ;;
    --list) list=yes ;;
    -h | --help) usage; exit 0 ;;
    *) refuse "'$1' is neither a tier nor an option." ;;
  esac
  shift
done

# STAGE TIERS WHAT IT DOES. A backslash continues a row.
stages() {
  cat <<TABLE
tools   standard,full      tests of the scripts in tools/
layers  standard,full,changed      the rules of rooms and headers (tools/check_layers.py)
sizes   standard,full,changed      no file above 600 lines (tools/check_sizes.py)
words   standard,full,changed      plain comments and pages, no wide line, short names of tests (tools/check_words.py)
format  standard,full,changed      clang-format 14, and ruff if it is here
build   fast,standard,full compiles everything, optimized
changes changed            builds the programs that have tests of the change, and runs these tests
tests   fast,standard,full the suites (fast: those of a few seconds; standard: sampled sweeps; full: whole sweeps, and \
benchmarks that are tests)
python  standard,full      the Python package: training with models of PyTorch and transformers, wrong use, types and \
style (full: also pip's wheel)
asan    standard,full      the core, and the fuzzers' seeds, under AddressSanitizer and UndefinedBehaviorSanitizer \
(standard: quick suites; full: also sampled sweeps)
tsan    standard,full      code with threads, under ThreadSanitizer (standard: the quick suites; full: also sampled \
sweeps)
cuda    full               the plug-in for GPUs, if there is nvcc: bodies of kernels on the host, the device on a \
libcudart without a GPU, the PTX
fuzz    full               each fuzzer for half a minute, from its seeds
manifest full              the manifest of examples/cluster against the schemas of Kubernetes, and broken copies of \
it, which are refused
site    full               the documentation as a site (mkdocs build --strict): every link and anchor
packages full              the Debian package, installed in a bare system, and the container if there is an engine: \
each trains
TABLE
}

times=${ZERO_TEST_TIMES:-build/test_times}  # TIER STAGE RESULT SECONDS DATE COMMIT, a line for each stage that ended
last_time() {  # TIER STAGE
  awk -v t="$1" -v s="$2" '
    $1 == t && $2 == s {l = $4 " s, " $3 ", " $5 ", " $6}
    END {print l ? l : "not run here"}
  ' $times 2>/dev/null || echo "not run here"
}
if [ $list = yes ]; then
  for tier in changed fast standard full; do
    printf '\n%s\n' "$tier"
    while read -r name tiers what; do
      [[ ,$tiers, == *,$tier,* ]] || continue
      printf '  %-8s %-34s %s\n' "$name" "$(last_time $tier "$name")" "$what"
    done < <(stages)
  done
  exit 0
fi
[ -z "$from" ] || stages | awk -v t=$tier '$2 ~ t {print $1}' | grep -qx "$from" ||
  refuse "'$from' is no stage of $tier."

# shellcheck source=tools/setup.sh
. tools/setup.sh
packages=(build test plugin)
[ $tier != full ] || packages+=(full)
set_up "${packages[@]}"
# shellcheck source=tools/test_python.sh
[ $tier != full ] || { . tools/test_python.sh; provide_test_python; }
export ZERO_TEST_TIER=$tier

fixed_addresses=()  # a command that runs ctest
skipped=77  # exit status of a stage that cannot run here and printed why
summary=()
failures=()
num_failed=0
skipped_stages=

# Runs a stage of this tier and notes its result. After a failure the next stages still run, so one run shows all
# failures.
stage() {  # NAME COMMAND...
  local name=$1 begin=$SECONDS status=0 result commit
  shift
  stages | awk -v t=$tier -v s="$name" '$1 == s && $2 ~ t {f = 1} END {exit !f}' || return 0
  [ -z "$from" ] || [ "$from" = "$name" ] || return 0
  from=
  printf '\n== %s\n' "$name"
  "$@" || status=$?
  case $status in
    0) result=passed ;;
    "$skipped") result=skipped; skipped_stages+=" $name" ;;
    *) result=FAILED; num_failed=$((num_failed + 1)) ;;
  esac
  summary+=("$(printf '%-10s %-8s %6d s' "$name" "$result" $((SECONDS - begin)))")
  mkdir -p build
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo -)
  echo "$tier $name $result $((SECONDS - begin)) $(date +%F) $commit" >>$times
}

configure_and_build() {  # PRESET [CMAKE OPTION...] [-- TARGET...]
  local preset=$1 options=()
  shift
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  [ $# = 0 ] || shift
  # Whole sweeps take longer. In the full tier sanitizers also check the tests' own files.
  case $tier in
    full) options+=(-DZERO_TEST_PATIENCE=12 -DZERO_SANITIZE_TESTS=ON) ;;
    *) options+=(-DZERO_TEST_PATIENCE=1 -DZERO_SANITIZE_TESTS=OFF) ;;
  esac
  cmake --preset "$preset" -DZERO_UNITY=ON -DZERO_TESTS=ON "${options[@]}" >/dev/null &&
    cmake --build --preset "$preset" ${1:+--target "$@"}
}

# Prints skipped tests with their reasons: CTest and unittest count them as passed.
print_skips() { python3 tools/skips.py "$@"; }  # LOG...

# Also fails in the full tier if tools/allowed_skips.txt does not have a reason.
check_skips() {  # LOG...
  local options=()
  [ $tier != full ] || options=(--allowed tools/allowed_skips.txt)
  print_skips "${options[@]}" "$@"
}

# The failures, for the end of a long output: checks, tests by name, and reports of sanitizers.
failed_in() {  # BUILD_FOLDER
  local marks=': Failure$|^\[  FAILED  \] [A-Za-z]|^SUMMARY: |^WARNING: Thread|^(FAILED|ERROR|FAIL): '
  marks+='|Falsifiable|[Tt]imeout'
  grep -hE -A4 "$marks" "$1/Testing/Temporary/LastTest.log" 2>/dev/null | cut -c1-200 | head -60 || true
}

# Runs more tests at once than there are cores, because tests of faults wait more than they compute. Tests send signals.
# A shell in the background ignores SIGINT, and must not pass that on.
run_ctest() {  # BUILD_FOLDER [CTEST OPTION...]
  local folder=$1
  shift
  local status=0
  env --default-signal "${fixed_addresses[@]}" \
    ctest --test-dir "$folder" --output-on-failure --no-tests=error -j "$((2 * $(nproc)))" "$@" || status=$?
  if [ "$folder" = build/release ]; then
    check_skips "$folder/Testing/Temporary/LastTest.log" || status=$?
  else  # a part of zero.cpp: tests of the other parts skip
    print_skips "$folder/Testing/Temporary/LastTest.log"
  fi
  [ $status = 0 ] || failures+=("$folder" "$(failed_in "$folder")")
  return $status
}

# The suites of a build that ctest runs in this tier.
suites() {  # BUILD_FOLDER [CTEST OPTION...]
  case $tier in
    fast) run_ctest "$@" -L fast ;;
    standard) run_ctest "$@" -LE full ;;
    full) run_ctest "$@" ;;
  esac
}

build_release() { configure_and_build release "-DZERO_TORCH=$ZERO_TORCH"; }

check_format() {
  command -v clang-format-14 >/dev/null || { say "clang-format-14 is not here."; return $skipped; }
  tools/format.sh --check
}

# Runs the quick suites of some folders; in the full tier also the slow suites, and the folders after `--`. Sweeps are
# sampled in both tiers: a sanitizer checks lines of code, and whole sweeps only run the same lines with other numbers.
sanitized() {  # PRESET FOLDER... -- FOLDER...
  local preset=$1 folders=() targets names which=(-L fast)
  shift
  while [ "$1" != -- ]; do folders+=("$1"); shift; done
  shift
  [ $tier != full ] || { folders+=("$@"); which=(-LE full); }
  targets=("${folders[@]/#/zero_}")
  configure_and_build "$preset" -- "${targets[@]/%/_test}" || return $?
  names="^($(IFS='|' && echo "${folders[*]}"))(_slow|_full)?(_[0-9]+)?\$"
  ZERO_TEST_TIER=standard run_ctest "build/$preset" -R "$names" "${which[@]}"
}

address_sanitizer() {
  sanitized asan base plan comm memory optim engine serve checkpoint data launch config issues fuzz -- \
    report world cli faults
}

thread_sanitizer() {
  # Newer kernels may use the addresses of ThreadSanitizer's shadow memory. Without randomization they are free.
  local fixed_addresses=()
  setarch "$(uname -m)" -R true 2>/dev/null && fixed_addresses=(setarch "$(uname -m)" -R)
  sanitized tsan base comm memory engine serve checkpoint -- world
}

tool_tests() {  # without page_test.py and page_charts_test.py, which need a browser and are suites of ctest
  local test log failed=0
  rm -rf build/tool_tests && mkdir -p build/tool_tests
  for test in tests/tools/*_test.py; do
    [[ $test != tests/tools/page_*test.py ]] || continue
    log=build/tool_tests/$(basename "$test" .py).log
    python3 "$test" --verbose >"$log" 2>&1 || { failed=1; cat "$log"; }
    printf '%s: %s\n' "$test" "$(grep '^Ran ' "$log")"
  done
  check_skips build/tool_tests/*.log || failed=1
  return $failed
}

# In a subshell, because the C++ suites use this Python only in the full tier.
python_package() (
  # shellcheck source=tools/test_python.sh
  . tools/test_python.sh
  provide_test_python
  if [ -z "${ZERO_TEST_PYTHON:-}" ] &&
     ! python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'; then
    say "No test of the Python package runs: ZERO_TEST_PYTHON is not set, and python3 has no torch."
    [ $tier != full ] || exit 1
    exit $skipped
  fi
  rm -rf build/python_tests && mkdir -p build/python_tests
  failed=0
  tests=(tests/python/*_test.py tests/python/{calls,libraries,pipelines,programs}/*_test.py)
  [ $tier != full ] || tests+=(tests/python/full/*_test.py)
  for test in "${tests[@]}"; do
    log=build/python_tests/$(basename "$test" .py).log
    env --default-signal ZERO_TEST_BUILD="$PWD/build/release" "${ZERO_TEST_PYTHON:-python3}" "$test" --verbose \
      >"$log" 2>&1 || { failed=1; cat "$log"; }
    printf '%s: %s\n' "$test" "$(grep '^Ran ' "$log")"
  done
  check_skips build/python_tests/*.log || failed=1
  exit $failed
)

fuzz() {
  local compiler
  compiler=$(fuzzing_compiler) || { say "No clang here that can link a fuzzer."; return $skipped; }
  cmake -S . -B build/fuzz -G Ninja "-DCMAKE_CXX_COMPILER=$compiler" -DZERO_WITH_TORCH=OFF -DZERO_TESTS=OFF \
      -DZERO_FUZZ=ON -DZERO_FUZZ_SECONDS=30 >/dev/null &&
    cmake --build build/fuzz --target fuzzers && run_ctest build/fuzz -L fuzz
}

# Built without torch. Tests the plug-in, and that no other library links CUDA.
cuda() {
  local nvcc
  nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null) ||
    { say "No nvcc here: the plug-in for GPUs is not built."; return $skipped; }
  cmake -S . -B build/cuda -G Ninja -DZERO_WITH_TORCH=OFF -DZERO_UNITY=ON -DZERO_TESTS=ON -DZERO_CUDA=ON \
      "-DZERO_NVCC=$nvcc" >/dev/null &&
    cmake --build build/cuda --target zero_core zero_cuda_test zero_device_test zero_cuda_ptx &&
    run_ctest build/cuda -R '^(cuda|cuda_ptx|device)$' &&
    planned_gpu && ! built_libraries_need_cuda
}

planned_gpu() {  # if there is a release build
  local program=build/release/tests/zero_cli_test
  [ ! -x $program ] || ZERO_TEST_CUDA_BUILD=build/cuda $program --gtest_filter='PlannedGpu.*' --gtest_brief=1
}

built_libraries_need_cuda() {
  readelf -d build/cuda/lib/libzero_core.so \
      $(ls build/release/bin/zero build/release/lib/libzero*.so 2>/dev/null | grep -v _cuda) |
    grep -i 'NEEDED.*cuda'
}

# The tests that a change can break, as many programs at once as run_ctest has. Prints each program and its filter.
changed_tests() {
  local chosen program filter python targets=() logs=build/changed number=100 running=0
  chosen=$(python3 tools/changed_tests.py "$base") || return 1
  if [[ $chosen == *PYTHON* ]] && ! python=$(python_of_package); then
    say "No Python with torch, or no built package here: the tests of the package are left to ./test.sh."
    chosen=$(grep -v '^PYTHON' <<<"$chosen" || true)
  fi
  [ -n "$chosen" ] || { say "No test of C++, of Python or of a script depends on the change."; return 0; }
  mapfile -t targets < <(awk '$1 !~ /^(SCRIPT|PYTHON)$/ {print $1}
    $2 ~ /page_.*test.py/ || $1 == "PYTHON" {print "zero_executable"}
    $1 == "PYTHON" {print "zero_python_package"}' <<<"$chosen" | sort -u)
  [ ${#targets[@]} = 0 ] || configure_and_build release "-DZERO_TORCH=$ZERO_TORCH" -- "${targets[@]}" || return $?
  rm -rf $logs && mkdir -p $logs
  while read -r program filter; do
    # wait -n fails if the shell has noticed the end of the job before, so each job notes its own failure.
    [ $running -lt $((2 * $(nproc))) ] || { wait -n || true; running=$((running - 1)); }
    number=$((number + 1))
    { changed_test "$program" "$filter" &>$logs/$number || : >$logs/failed; } &
    running=$((running + 1))
  done <<<"$chosen"
  wait
  cat $logs/[0-9]*
  [ ! -e $logs/failed ]
}

# Prints a Python that can import torch, if an earlier build has the package.
python_of_package() (
  # shellcheck source=tools/test_python.sh
  . tools/test_python.sh
  python=${ZERO_TEST_PYTHON:-$test_python/bin/python}
  [ -x "$python" ] || python=python3
  [ -d build/release/python/zerocpp ] && echo "$python" &&
    "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)'
)

changed_test() {  # PROGRAM FILTER, or SCRIPT or PYTHON and a path
  printf '%s %s\n' "$1" "${2:0:100}"
  case $1 in
    SCRIPT)
      local status=0 options=()
      [[ $2 != tests/tools/page_*test.py ]] || options=(--zero build/release/bin/zero)
      python3 "$2" "${options[@]}" || status=$?
      [ $status != $skipped ] || say "$2 skips."
      [ $status = 0 ] || [ $status = $skipped ]
      ;;
    PYTHON) env --default-signal ZERO_TEST_BUILD="$PWD/build/release" "$python" "$2" ;;
    *) cd build/release && ZERO_LOG_LEVEL=error env --default-signal "tests/$1" --gtest_brief=1 --gtest_filter="$2" ;;
  esac
}

stage tools tool_tests
stage layers python3 tools/check_layers.py
stage sizes python3 tools/check_sizes.py
stage words python3 tools/check_words.py
stage format check_format
stage build build_release
stage changes changed_tests
stage tests suites build/release
stage python python_package
stage asan address_sanitizer
stage tsan thread_sanitizer
stage cuda cuda
stage fuzz fuzz
stage manifest tools/lint_manifest.sh
stage site tools/site.sh
stage packages tools/packaging/try_packages.sh

[ ${#failures[@]} = 0 ] || printf '\n== failures\n'
[ ${#failures[@]} = 0 ] || printf '%s\n' "${failures[@]}"
printf '\n== summary (%s)\n' "$tier"
printf '%s\n' "${summary[@]}"
[ "$num_failed" = 0 ] || { say "$num_failed of ${#summary[@]} stages failed."; exit 1; }
say "All passed in $SECONDS s.${skipped_stages:+ Skipped, so not tested:$skipped_stages.}"
