#!/usr/bin/env bash
# Makes the Debian package zero-cpp: the command, the libraries with headers, libtorch, and the examples.
#
#   tools/packaging/package_deb.sh    makes build/packages/zero-cpp_VERSION_ARCHITECTURE.deb
#
# It packs build/release, and builds that first if needed. The package depends on packages of the distribution on which
# it was made: install it on the same one. It contains MPI and Gloo if libopenmpi-dev and libgloo-dev are installed.
# Installs missing packages, as quickstart.sh does, and dpkg-dev. It can run again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case "${1:-}" in
  "") ;;
  -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' tools/packaging/package_deb.sh; exit 0 ;;
  *) printf "package_deb.sh: unknown option '%s'.\n" "$1" >&2; exit 2 ;;
esac

# shellcheck source=tools/setup.sh
. tools/setup.sh
set_up build package

options=("-DZERO_TORCH=$ZERO_TORCH")
[ -e build/release/CMakeCache.txt ] || options+=(-DZERO_UNITY=ON -DZERO_TESTS=OFF)
cmake --preset release "${options[@]}" >/dev/null || die "CMake could not set up the build; its reason is above."
cmake --build --preset release --target zero_executable zero ||
  die "The build failed; the first error above says where."

rm -f build/packages/zero-cpp_*.deb
cpack -G DEB --config build/release/CPackConfig.cmake -B build/packages ||
  die "CPack could not make the package; its reason is above."
rm -rf build/packages/_CPack_Packages  # a copy of the tree
package=$(echo build/packages/zero-cpp_*.deb)
installed_mb=$(dpkg-deb --field "$package" Installed-Size | awk '{print int($1 / 1024)}')
say "$package: $(du -m "$package" | cut -f1) MB; installed $installed_mb MB"
say "To install it: apt-get install ./$package"
