#!/usr/bin/env bash
# From a fresh clone to a trained model: installs missing packages, builds, and trains a small GPT on Shakespeare with
# ZeRO stage 3 on two ranks. It can run again: then it installs nothing, builds little, and starts a new run. It also
# builds the Python package, and trains the README's example with it, if python3 already has PyTorch 2.11.
#
# Installs missing packages only (Debian 12, Ubuntu 24.04; with root or sudo): a C++ compiler, CMake, Ninja, ccache, pip
# and a few libraries with apt-get, and libtorch with pip into ~/.cache/zero.cpp (XDG_CACHE_HOME is honoured). To use
# your own libtorch, set ZERO_TORCH to its folder.
#
# Arguments are passed on to `zero train`: ./quickstart.sh --train.steps 200; -n 4 starts four ranks instead of two
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

case "${1:-}" in
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' quickstart.sh; exit 0 ;;
esac

# shellcheck source=tools/setup.sh
. tools/setup.sh
set_up build

# A first build leaves out the tests, because they need libraries that a user does not. A folder of test.sh keeps them.
options=("-DZERO_TORCH=$ZERO_TORCH" -DZERO_UNITY=ON)
[ -e build/release/CMakeCache.txt ] || options+=(-DZERO_TESTS=OFF)
configured=$(cmake --preset release "${options[@]}") || die "CMake could not set up the build; its reason is above."
sed -n 's/^-- \(transport .*not built\)/\1/p' <<<"$configured"  # names the package that each needs
targets=(zero_executable zero)
# The Python package is for users who have PyTorch: without it the build stays as short as it was.
if python3 -c 'import sys, torch; sys.exit(not torch.__version__.startswith("2.11."))' 2>/dev/null; then
  reason=$(sed -n 's/^-- Python package: not built, because //p' <<<"$configured")
else
  reason="python3 has no torch 2.11. To get it: python3 -m venv ~/zero && . ~/zero/bin/activate && "
  reason+="pip install 'torch==2.11.*'; then ./quickstart.sh"
fi
[ -n "$reason" ] || targets+=(zero_python_package)
cmake --build --preset release --target "${targets[@]}" || die "The build failed; the first error above says where."

if [ -n "$reason" ]; then
  say "Python: zerocpp is not built, because $reason"
else
  say "Python: the example of README.md, with the built package on two ranks:"
  built=$PWD/build/release example=build/python_example
  rm -rf $example && mkdir -p $example
  python3 tools/readme_example.py >$example/train.py
  (cd $example && PYTHONPATH=$built/python "$built/bin/zero" launch -n 2 -- python3 train.py) ||
    die "The Python package is built, but its example failed: the error is above. Without Python you can train by" \
        "build/release/bin/zero train examples/shakespeare/shakespeare.toml -n 2"
  say "Python: export PYTHONPATH=$built/python; then: import zerocpp (docs/guide/python.md)"
fi
ranks=(-n 2)
for argument in "$@"; do
  case $argument in -n* | --nproc[-_]per[-_]node | --nproc[-_]per[-_]node=* | --rank | --rank=*) ranks=() ;; esac
done
exec build/release/bin/zero train examples/shakespeare/shakespeare.toml "${ranks[@]}" --overwrite "$@"
