# shellcheck shell=bash
# Prepares a machine to build zero.cpp. quickstart.sh and test.sh source it from the repository's root.
#
#   set_up build          installs the packages of quickstart.sh
#   set_up build test     installs the packages of test.sh
#
# Installs only missing packages. Outside the clone it writes only packages and the cache.
zero_cache="${XDG_CACHE_HOME:-$HOME/.cache}/zero.cpp"

say() { printf '%s\n' "$*"; }

die() {  # one line for each argument
  printf '\n' >&2
  printf '%s\n' "$@" >&2
  exit 1
}

# shellcheck source=tools/packages.sh
. tools/packages.sh
# shellcheck source=tools/libtorch.sh
. tools/libtorch.sh
# shellcheck source=tools/compile_jobs.sh
. tools/compile_jobs.sh

set_up() {  # GROUP...
  [ "$(uname -s)" = Linux ] || die "zero.cpp builds and runs on Linux; this is $(uname -s)."
  local groups=("$@")
  find_libtorch || groups+=(fetch)
  install_packages "${groups[@]}"
  check_versions
  provide_libtorch
  export CCACHE_DIR="${CCACHE_DIR:-$zero_cache/ccache}"
  export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(compile_jobs)}"
}
