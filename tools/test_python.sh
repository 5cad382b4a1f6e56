# shellcheck shell=bash
# A Python with torch, transformers, TensorBoard and Pillow, for the tests that compare with them, and torchrun. Sourced, not run.
#
#   provide_test_python      sets ZERO_TEST_PYTHON and ZERO_TORCHRUN, where they are not set; `./test.sh full` calls it
#
# It lies in the cache, beside libtorch: 6 GB, since PyTorch's package of Python needs the libraries of CUDA even where there is
# no GPU. Where it can't be had, the tests skip and say so.
test_python="$zero_cache/python-$libtorch_version"
small_modules=(pillow numpy mypy==2.4.1 ruff==0.17.6) # a Python that was made before lacks them
test_modules=("torch==$libtorch_version" "transformers==5.24.*" safetensors tensorboard "${small_modules[@]}")

# DeepSpeed's sources, whose defaults a test reads: nothing of it is imported, so it comes without what it needs.
add_deepspeed() {
  "$test_python/bin/python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("deepspeed") is None)' ||
    DS_BUILD_OPS=0 "$test_python/bin/pip" install -q --no-deps deepspeed==0.19.8 ||
    say "There is no DeepSpeed 0.19.8: the test that compares its defaults skips, and says so."
}

make_test_python() {
  local free_kib
  free_kib=$(df -Pk "$zero_cache" | awk 'NR == 2 {print $4}')
  [ "$free_kib" -ge $((10 * 1024 * 1024)) ] || { say "It needs 10 GiB of free space while it is made; $zero_cache has $((free_kib / 1024)) MiB."; return 1; }
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
      "$test_python/bin/python" -c 'import PIL, numpy, mypy, ruff' 2>/dev/null ||
        "$test_python/bin/pip" install -q --only-binary=:all: "${small_modules[@]}"
      add_deepspeed
    ) 9>"$test_python.lock" || { say "There is no Python with torch and transformers: tests that compare with them skip, and say so."; return 0; }
    export ZERO_TEST_PYTHON="$test_python/bin/python"
  fi
  local torchrun
  torchrun="$(dirname "$ZERO_TEST_PYTHON")/torchrun"
  if [ -z "${ZERO_TORCHRUN:-}" ] && [ -x "$torchrun" ]; then export ZERO_TORCHRUN="$torchrun"; fi
  say "Python of the tests: $ZERO_TEST_PYTHON"
}
