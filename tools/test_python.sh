# shellcheck shell=bash A Python with torch, transformers, accelerate, peft, Lightning, TensorBoard and Pillow, for
# tests that compare with them, and torchrun. Sourced, not run.
#
#   provide_test_python      sets ZERO_TEST_PYTHON, ZERO_TORCHRUN and ZERO_TEST_DEEPSPEED if they are not set;
#                            `./test.sh` and `./test.sh full` call it
#   find_ruff                prints the path of ruff: $ZERO_RUFF, else that of this Python, else the one on the PATH;
#                            tools/format.sh calls it. Fails if there is none
#
# It is in the cache, beside libtorch: 6 GB, because PyTorch's package of Python needs the libraries of CUDA even
# without a GPU. If it cannot be installed, the tests skip, and say so; the full tier then fails.
test_python="$zero_cache/python-$libtorch_version"
test_deepspeed="$zero_cache/deepspeed-0.19.8"
test_modules=("torch==$libtorch_version" "transformers==5.24.*" safetensors tensorboard pillow numpy
  "accelerate==1.15.*" "peft==0.21.*" "lightning==2.6.*" mypy==2.4.1 ruff==0.17.6)
test_imports=(torch transformers safetensors tensorboard PIL numpy accelerate peft lightning mypy ruff)
# trl and bitsandbytes need 120 MB more. Each has one test.
[ "${tier:-}" != full ] || { test_modules+=("trl==1.16.*" "bitsandbytes==0.50.*"); test_imports+=(trl bitsandbytes); }

find_ruff() {
  local own
  own="$(dirname "${ZERO_TEST_PYTHON:-$test_python/bin/python}")/ruff"
  if [ -n "${ZERO_RUFF:-}" ]; then
    echo "$ZERO_RUFF"
  elif [ -x "$own" ]; then
    echo "$own"
  else
    command -v ruff
  fi
}

# Whether the Python finds all modules. It does not import them, because that takes 10 s.
has_test_modules() {
  "$test_python/bin/python" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' \
    "${test_imports[@]}"
}

# DeepSpeed's sources, whose defaults a test reads. They are in a separate folder, because accelerate imports any
# DeepSpeed that it finds, and no dependency of DeepSpeed is installed. An older Python of the cache has them among its
# packages.
add_deepspeed() {
  "$test_python/bin/python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("deepspeed") is not None)' ||
    "$test_python/bin/pip" uninstall -q -y deepspeed
  [ -d "$test_deepspeed/deepspeed" ] ||
    DS_BUILD_OPS=0 "$test_python/bin/pip" install -q --no-deps --target "$test_deepspeed" deepspeed==0.19.8 ||
    say "There is no DeepSpeed 0.19.8: the test that compares its defaults skips, and says so."
}

make_test_python() {
  local free_kib
  free_kib=$(df -Pk "$zero_cache" | awk 'NR == 2 {print $4}')
  if [ "$free_kib" -lt $((10 * 1024 * 1024)) ]; then
    say "Its creation needs 10 GiB of free space; $zero_cache has $((free_kib / 1024)) MiB."
    return 1
  fi
  rm -rf "$test_python" && python3 -m venv "$test_python" &&
    "$test_python/bin/pip" install -q --only-binary=:all: "${test_modules[@]}" &&
    "$test_python/bin/python" -c 'import torch, transformers, safetensors, tensorboard' && touch "$test_python/complete"
}

provide_test_python() {
  if [ -z "${ZERO_TEST_PYTHON:-}" ]; then
    mkdir -p "$zero_cache"
    (
      flock 9
      if [ ! -e "$test_python/complete" ]; then
        say "Making a Python with torch, transformers and TensorBoard (3 GB to fetch) in $test_python"
        make_test_python || exit 1
      fi
      add_deepspeed
      has_test_modules || "$test_python/bin/pip" install -q --only-binary=:all: "${test_modules[@]}" ||
        say "The Python of the tests lacks some of ${test_imports[*]}: their tests skip, and say so."
    ) 9>"$test_python.lock" || {
      say "There is no Python with torch and transformers: tests that compare with them skip, and say so."
      return 0
    }
    export ZERO_TEST_PYTHON="$test_python/bin/python"
  fi
  if [ -z "${ZERO_TEST_DEEPSPEED:-}" ] && [ -d "$test_deepspeed" ]; then
    export ZERO_TEST_DEEPSPEED="$test_deepspeed"
  fi
  local torchrun
  torchrun="$(dirname "$ZERO_TEST_PYTHON")/torchrun"
  if [ -z "${ZERO_TORCHRUN:-}" ] && [ -x "$torchrun" ]; then export ZERO_TORCHRUN="$torchrun"; fi
  say "Python of the tests: $ZERO_TEST_PYTHON"
}
