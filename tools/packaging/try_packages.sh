#!/usr/bin/env bash
# Makes the Debian package and the container, and tests both: version, doctor, 20 steps of training on two ranks,
# removal.
#
#   tools/packaging/try_packages.sh              from build/release
#   tools/packaging/try_packages.sh container    only the container
#
# The package is tested in a bare system (debootstrap, as root) with the script of the Containerfile. Without root or
# debootstrap it is unpacked into a folder and run from there. The container is built if podman, docker or (as root)
# buildah works. podman and docker need its base image; ZERO_CONTAINER_BASE names another image. If buildah cannot fetch
# the image, it uses a bare system, and the cached libtorch and compiled objects. The script prints the tests that it
# skipped. Exit status 77: this is not Debian.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

scratch=$(mktemp -d "${TMPDIR:-/tmp}/zero-packages.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT

# The first steps of a user, as text that also runs in a bare system.
first_steps='set -eu; cd "$(mktemp -d)"; export HOME=$PWD; cp -r "$EXAMPLES" examples
zero --version
zero doctor || true  # reports faults on small machines
zero train examples/shakespeare/shakespeare.toml -n 2 --train.steps 20 --train.sample 0 >output ||
  { cat output; exit 1; }
tail -n 3 output; grep -q "^done: runs/shakespeare" output'

end_of_log() { tail -n "$1" "$scratch/log"; }  # LINES

bare_system() {  # FOLDER: a minimal system of this distribution's release
  local mirror release
  mirror=$(apt-get indextargets --format '$(REPO_URI)' | sed -n 1p)
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  debootstrap --variant=minbase "$release" "$1" "$mirror" >"$scratch/log" 2>&1 || return 1
  cp -r /etc/apt/apt.conf.d/. "$1/etc/apt/apt.conf.d/"  # a proxy, if there is one
  cp -L /etc/resolv.conf /etc/hosts "$1/etc/" 2>/dev/null || true
}

inside() {  # FOLDER COMMAND...: its mounts end with the command
  # shellcheck disable=SC2016
  unshare --mount bash -c 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
    mount --rbind /sys "$0/sys" && exec chroot "$0" env -i LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"' "$@"
}

try_installed() {
  local root="$scratch/root"
  [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null || { echo "Not root, or no debootstrap."; return 77; }
  bare_system "$root" || { end_of_log 3; echo "debootstrap could not create a bare system."; return 77; }
  mkdir "$root/mnt/packages"
  cp build/packages/zero-cpp_*.deb tools/packaging/container_runtime.sh "$root/mnt/packages/"
  inside "$root" /mnt/packages/container_runtime.sh /mnt/packages >"$scratch/log" 2>&1 || { end_of_log 20; return 1; }
  inside "$root" su zero -c "EXAMPLES=/home/zero/examples/; $first_steps" || return 1
  inside "$root" apt-get purge -q -y zero-cpp >"$scratch/log" 2>&1 || { end_of_log 20; return 1; }
  local left
  left=$(find "$root/usr" -path '*zero-cpp*' -o -name 'libzero*' -o -path "$root/usr/bin/zero")
  [ -z "$left" ] || { echo "Removed, but left behind: $left"; return 1; }
  echo "Installed, tried and removed in a bare system."
}

try_unpacked() {
  dpkg-deb -x build/packages/zero-cpp_*.deb "$scratch/unpacked"
  PATH="$scratch/unpacked/usr/bin:$PATH" EXAMPLES="$scratch/unpacked/usr/share/zero-cpp/examples" bash -c "$first_steps"
  echo "Unpacked and tried; not installed."
}

# Chroot isolation needs no daemon and no user namespaces, so it also works inside containers.
try_buildah() {  # BASE
  local base=$1 cache="${XDG_CACHE_HOME:-$HOME/.cache}/zero.cpp" container status=0
  if ! buildah inspect --type image "$base" >/dev/null 2>&1 && ! buildah pull -q "$base" >/dev/null 2>&1; then
    base=localhost/zero-cpp-base  # kept for the next time
    buildah inspect --type image "$base" >/dev/null 2>&1 || base_of_bare_system "$base" ||
      { end_of_log 3; echo "buildah has no base image, and none could be created."; return 77; }
  fi
  mkdir -p "$cache"
  buildah bud --isolation chroot --network host --layers=false --volume "$cache:/root/.cache/zero.cpp" \
    -f Containerfile --build-arg "BASE=$base" -t zero-cpp-tried . >"$scratch/log" 2>&1 || { end_of_log 20; return 1; }
  container=$(buildah from --pull-never localhost/zero-cpp-tried) || return 1
  buildah run --isolation chroot "$container" -- env EXAMPLES=/home/zero/examples/ sh -c "$first_steps" || status=1
  buildah rm "$container" >/dev/null
  buildah rmi zero-cpp-tried >/dev/null
  return $status
}

base_of_bare_system() {  # IMAGE
  local container
  command -v debootstrap >/dev/null || { echo "There is no debootstrap." >"$scratch/log"; return 1; }
  bare_system "$scratch/base" || return 1
  container=$(buildah from scratch) || return 1
  buildah add -q "$container" "$scratch/base" / >"$scratch/log" 2>&1 &&
    buildah commit -q "$container" "$1" >"$scratch/log" 2>&1 ||
    { buildah rm "$container" >/dev/null; return 1; }
  buildah rm "$container" >/dev/null
}

try_container() {
  local engine base=${ZERO_CONTAINER_BASE:-docker.io/library/debian:bookworm-slim}
  for engine in podman docker; do
    "$engine" info >/dev/null 2>&1 || continue
    "$engine" image inspect "$base" >/dev/null 2>&1 || "$engine" pull -q "$base" ||
      { echo "$engine cannot fetch $base."; return 77; }
    "$engine" build -q -f Containerfile --build-arg "BASE=$base" -t zero-cpp-tried . || return 1
    "$engine" run --rm -e EXAMPLES=/home/zero/examples/ --entrypoint sh zero-cpp-tried -c "$first_steps" || return 1
    "$engine" image rm zero-cpp-tried >/dev/null
    return 0
  done
  if [ "$(id -u)" = 0 ] && buildah info >/dev/null 2>&1; then
    try_buildah "$base"
    return
  fi
  echo "Neither podman nor docker nor buildah works here."
  return 77
}

try_package() {
  local status=0
  tools/packaging/package_deb.sh || return 1
  try_installed || status=$?
  [ $status != 77 ] || { status=0; (try_unpacked) || status=$?; }
  return $status
}

command -v dpkg-deb >/dev/null || { echo "This is not Debian or Ubuntu: there is no dpkg-deb."; exit 77; }
case "${1:-}" in
  '') try_package || { echo "The Debian package failed."; exit 1; } ;;
  container) ;;
  *) echo "try_packages.sh: unknown argument '$1' (the only argument is container)." >&2; exit 2 ;;
esac
status=0
try_container || status=$?
case $status in
  0) echo "The container was built and tried." ;;
  77) echo "Skipped: the container. Its two scripts in tools/packaging are package_deb.sh and container_runtime.sh." ;;
  *) echo "The container failed."; exit 1 ;;
esac
