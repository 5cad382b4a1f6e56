# shellcheck shell=bash
# libtorch: the folder of a PyTorch wheel that holds include/ and lib/. Sourced, not run.
#
# It is searched in this order: $ZERO_TORCH, the cache, the PyTorch that python3 imports. If none exists, it is
# downloaded into the cache. The download goes to a separate folder, which is renamed when it is complete, so an
# interrupted download is never used. A lock lets two scripts start at once.
libtorch_version=2.11.0
libtorch_cache="$zero_cache/torch-$libtorch_version"

is_libtorch() {  # FOLDER: a libtorch with headers, of the series for which this code is written
  local header="$1/include/torch/headeronly/version.h" version
  [ -e "$1/lib/libtorch_cpu.so" ] && [ -d "$1/include/torch/csrc/api/include" ] && [ -e "$header" ] || return 1
  version=$(sed -n 's/^#define TORCH_VERSION_M[A-Z]* *\([0-9]*\).*/\1/p' "$header" | paste -s -d.)
  [ "$version" = "${libtorch_version%.*}" ]
}

# Sets ZERO_TORCH, or fails if libtorch must be downloaded.
find_libtorch() {
  if [ -n "${ZERO_TORCH:-}" ]; then
    local needed="lib/libtorch_cpu.so and include/torch/"
    is_libtorch "$ZERO_TORCH" ||
      die "ZERO_TORCH='$ZERO_TORCH' is not a libtorch ${libtorch_version%.*}: it must hold $needed." \
          "Correct it, or unset it to fetch libtorch $libtorch_version."
    ZERO_TORCH=$(cd "$ZERO_TORCH" && pwd)
    return 0
  fi
  local installed
  if is_libtorch "$libtorch_cache/torch"; then
    ZERO_TORCH="$libtorch_cache/torch"
  elif command -v python3 >/dev/null &&
       installed=$(python3 -c 'import os, torch; print(os.path.dirname(torch.__file__))' 2>/dev/null) &&
       is_libtorch "$installed"; then
    ZERO_TORCH="$installed"
  else
    return 1
  fi
}

download_libtorch() {  # into FOLDER
  local free_kib
  free_kib=$(df -Pk "$1" | awk 'NR == 2 {print $4}')
  [ "$free_kib" -ge $((3 * 1024 * 1024)) ] ||
    die "libtorch needs 3 GiB of free space while it is unpacked; $zero_cache has $((free_kib / 1024)) MiB." \
        "Make room, or set XDG_CACHE_HOME to a folder on a larger disk."
  # Two small CUDA packages are needed to load the wheel on any machine; the large packages are not.
  mkdir "$1/tmp"
  TMPDIR="$1/tmp" python3 -m pip install --root-user-action=ignore --no-deps --only-binary=:all: --target "$1/torch" \
      "torch==$libtorch_version" 'nvidia-cuda-runtime==13.*' 'nvidia-cuda-cupti==13.*' ||
    die "libtorch could not be fetched; pip's reason is above. If it names connecting or resolving, this machine has" \
        "no network, or is behind a proxy (pip reads PIP_CERT, PIP_INDEX_URL and https_proxy)." \
        "Without a network: copy a PyTorch $libtorch_version wheel's torch/ folder here and set ZERO_TORCH to it."
  is_libtorch "$1/torch/torch" || die "pip downloaded something else than libtorch $libtorch_version; see $1/torch."
  if ldd "$1/torch/torch/lib/libtorch_cpu.so" | grep 'not found'; then
    die "libtorch was fetched, but this system lacks the libraries above, which it needs."
  fi
}

# Sets and exports ZERO_TORCH. Downloads libtorch if none is found.
provide_libtorch() {
  if ! find_libtorch; then
    mkdir -p "$zero_cache"
    (
      flock -n 9 || { say "Another script is fetching libtorch; waiting for it."; flock 9; }
      find_libtorch && exit 0  # another script downloaded it
      rm -rf "$zero_cache"/torch.partial.*
      partial=$(mktemp -d "$zero_cache/torch.partial.XXXXXX") || exit 1
      trap 'rm -rf "$partial"' EXIT
      say "Fetching libtorch $libtorch_version (about 0.5 GB) into $libtorch_cache"
      download_libtorch "$partial"
      rm -rf "$libtorch_cache"
      mv "$partial/torch" "$libtorch_cache"
    ) 9>"$zero_cache/torch.lock" || exit 1
    find_libtorch || die "libtorch was fetched into $libtorch_cache but can't be found there."
  fi
  export ZERO_TORCH
  say "libtorch: $ZERO_TORCH"
}
