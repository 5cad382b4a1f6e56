#!/usr/bin/env bash
# Turns a bare Debian into one that trains: the second half of the Containerfile. Runs as root, inside the container.
#
#   tools/packaging/container_runtime.sh FOLDER    installs FOLDER/zero-cpp_*.deb, creates a user `zero` with examples
#
# It can run again.
set -euo pipefail
[ $# = 1 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$0"; exit 2; }

package=("$(cd "$1" && pwd)"/zero-cpp_*.deb)
[ -e "${package[0]}" ] ||
  { echo "container_runtime.sh: there is no zero-cpp_*.deb in $1: package_deb.sh makes it." >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends "${package[0]}"
rm -rf /var/lib/apt/lists/*

id zero >/dev/null 2>&1 || useradd --create-home --shell /bin/bash zero
ln -sfn /usr/share/zero-cpp/examples /home/zero/examples
