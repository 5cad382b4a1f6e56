#!/usr/bin/env bash
# Collects the command, its libraries and the tests of GPUs in one archive for a bare machine. That machine needs only
# Python 3.12 and torch 2.11.0+cu130: no compiler, and no packages of ours.
#
#   tools/bundle.sh [-o FILE.tar.gz] [BUILD] [CUDA_BUILD]   # default: build/bundle.tar.gz of build/release, build/cuda
#   tar xf bundle.tar.gz && cd zero-bundle && ./gpu_check.sh 1
#
# Content: bin/zero, lib/ (our libraries, the plug-in for GPUs, and their dependencies), tests/, gpu_check.sh with its
# scripts, and BUILT. BUILT names the commit and the libtorch. The archive lacks libc, libstdc++, libgcc, libgomp and
# libtorch, because that machine has them. All files are stripped. An archive of 64 MiB or more is refused
# (ZERO_BUNDLE_MIB=N changes the limit).
#
# Build first: cmake --build --preset release --target zero_executable zero zero_engine_test zero_torch_test \
#                zero_parity_test
#              cmake --build build/cuda --target zero_device_cuda zero_cuda_test zero_device_test  # test.sh, stage cuda
set -euo pipefail
cd "$(dirname "$0")/.."

out=build/bundle.tar.gz
if [ "${1:-}" = -h ] || [ "${1:-}" = --help ]; then
  sed -n '2,/^set /p' "$0" | sed '$d; s/^# \{0,1\}//'
  exit 0
fi
if [ "${1:-}" = -o ]; then
  [ $# -ge 2 ] || { echo "bundle.sh: -o needs a file" >&2; exit 2; }
  out=$2
  shift 2
fi
build=${1:-build/release} cuda=${2:-build/cuda}
limit=${ZERO_BUNDLE_MIB:-64}
refuse() { echo "bundle.sh: $*" >&2; exit 2; }

find_one() {  # NAME FOLDER...: prints the first existing file
  local name=$1 folder
  shift
  for folder in "$@"; do
    [ -f "$folder/$name" ] && { echo "$folder/$name"; return; }
  done
  return 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/zero-bundle
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/tests"
add() {  # FILE FOLDER
  cp -L "$1" "$bundle/$2/"
}

command=$(find_one zero "$build/bin") ||
  refuse "$build/bin/zero is not there: cmake --build --preset release --target zero_executable"
add "$command" bin
for library in libzero_app.so libzero.so libzero_core.so libzero_transport_nccl.so; do
  found=$(find_one $library "$build/lib") ||
    refuse "$build/lib/$library is not there: cmake --build --preset release --target zero"
  add "$found" lib
done
plugin=$(find_one libzero_device_cuda.so "$build/lib" "$cuda/lib") ||
  refuse "libzero_device_cuda.so is neither in $build/lib nor in $cuda/lib: configure with -DZERO_CUDA=ON"
add "$plugin" lib
if solver=$(find_one libzero_plan_clp.so "$build/lib"); then
  add "$solver" lib
else
  echo "without libzero_plan_clp.so, which is not built: zero.placement auto with a budget does not work there"
fi
for test in zero_cuda_test zero_device_test zero_engine_test zero_torch_test zero_parity_test; do
  if found=$(find_one $test "$build/tests" "$cuda/tests"); then
    add "$found" tests
  elif [ $test = zero_cuda_test ] || [ $test = zero_engine_test ]; then
    refuse "$test is neither in $build/tests nor in $cuda/tests"
  else
    echo "without $test, which is not built"
  fi
done

# Copies their libraries, except those of the driver and those that every machine with Python and torch has.
elsewhere='^(ld-linux|libc\.so|libm\.so|libdl|libpthread|librt|libresolv|libutil|libstdc\+\+|libgcc_s|libgomp'
elsewhere+='|libtorch|libc10|libcu|libnv|libnccl|libzero|linux-vdso)'
needs() { { ldd "$@" 2>/dev/null || true; } | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u; }
needs "$bundle"/bin/* "$bundle"/lib/* "$bundle"/tests/* | { grep -Ev "$elsewhere" || true; } |
  while read -r name path; do
    cp -L "$path" "$bundle/lib/$name"
  done
# The CUDA runtime comes with torch. Without it the plug-in's error names it.
strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/* "$bundle"/tests/* 2>/dev/null || true

cp tools/gpu_check.sh benchmarks/gpu_plain.py benchmarks/gpu_largest.py "$bundle/"
torch=$(sed -n 's/^ZERO_TORCH:PATH=//p' "$build/CMakeCache.txt" 2>/dev/null | head -1) || true
version() { sed -n "s/^$1.*= '\(.*\)'/\1/p" "$torch/version.py" 2>/dev/null | head -1; }
commit=unknown  # also for sources inside another repository
[ "$(git rev-parse --show-toplevel 2>/dev/null)" != "$(pwd -P)" ] || commit=$(git rev-parse --short=12 HEAD)
cat > "$bundle/BUILT" <<BUILT
commit=$commit
torch=$(version __version__)
torch_git=$(version git_version)
built_on=$(. /etc/os-release 2>/dev/null && echo "${PRETTY_NAME:-unknown}"), glibc $(ldd --version | sed -n '1s/.* //p')
BUILT

mkdir -p "$(dirname "$out")"
tar -C "$work" -czf "$out" zero-bundle
size=$(stat -c %s "$out")
unpacked=$(du -sb "$bundle" | cut -f1)
if [ "$size" -ge $((limit << 20)) ]; then
  rm -f "$out"
  refuse "the archive would have $((size >> 20)) MiB, and $limit is the limit"
fi
mib=$(awk "BEGIN {printf \"%.1f\", $size / 1048576}")
num_files=$(find "$bundle" -type f | wc -l)
echo "$out: $mib MiB ($((unpacked >> 20)) unpacked), $num_files files, for torch $(version __version__)"
