# shellcheck shell=bash
# The distribution's packages: which are needed, which are missing, and how to install them. Sourced, not run.
#
# A line of the table is GROUP PACKAGE PROBE. The names are those of Debian and Ubuntu. The probe checks the machine,
# not the package manager. Therefore a compiler from elsewhere counts, and users of other distributions can see which
# packages are missing:
#   command:X   X is on the PATH          header:X   the compiler finds X
#   file:X      X exists                  module:X   python3 has module X        fuzzer   some clang can link a fuzzer
#   scipy       python3, or the system's python3 if it is another one, has SciPy
#   compiler    the compiler that CXX names, or g++, is there
#   python_headers  python3 has Python.h
#   browser     one of the browsers of tests/tools/report_page.py is on the PATH
# Groups: build (quickstart.sh), fetch (only if libtorch must be downloaded), package (tools/packaging/package_deb.sh),
# test and plugin (test.sh), full (test.sh full). Tests use the packages of plugin and full if they are installed;
# otherwise they skip, and say so.
packages() {
  cat <<'TABLE'
build  g++                 compiler
build  cmake               command:cmake
build  ninja-build         command:ninja
build  ccache              command:ccache
build  pkg-config          command:pkg-config
build  libfmt-dev          header:fmt/format.h
build  libspdlog-dev       header:spdlog/spdlog.h
build  nlohmann-json3-dev  header:nlohmann/json.hpp
build  libtomlplusplus-dev header:toml++/toml.h
build  libcli11-dev        header:CLI/CLI.hpp
build  libhwy-dev          header:hwy/highway.h
build  libhwloc-dev        header:hwloc.h
build  liburing-dev        header:liburing.h
build  libxxhash-dev       header:xxhash.h
build  libssl-dev          header:openssl/evp.h
build  zlib1g-dev          header:zlib.h
build  libpcre2-dev        header:pcre2.h
build  libutf8proc-dev     header:utf8proc.h
build  libpng-dev          header:png.h
build  libturbojpeg0-dev   header:turbojpeg.h
build  coinor-libclp-dev   header:coin/Clp_C_Interface.h
fetch  python3             command:python3
fetch  python3-pip         module:pip
fetch  ca-certificates     file:/etc/ssl/certs/ca-certificates.crt
package dpkg-dev           command:dpkg-shlibdeps
test   python3             command:python3
test   libgtest-dev        header:gtest/gtest.h
test   librapidcheck-dev   header:rapidcheck.h
test   libbenchmark-dev    header:benchmark/benchmark.h
plugin libopenmpi-dev      command:mpicxx
plugin openmpi-bin         command:mpirun
plugin libgloo-dev         header:gloo/context.h
plugin iproute2            command:ip
plugin strace              command:strace
plugin e2fsprogs           command:mkfs.ext4
plugin python3-scipy       scipy
plugin clang-format-14     command:clang-format-14
plugin python3-venv        module:ensurepip
plugin python3-dev         python_headers
full   clang               command:clang++
full   libclang-rt-dev     fuzzer
full   chromium            browser
TABLE
}

# A clang++ that can link a libFuzzer program, the distribution's default first; fails if there is none.
fuzzing_compiler() {
  local compiler scratch
  scratch=$(mktemp -d)
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$scratch/probe.cpp"
  for compiler in clang++ clang++-{14,15,16,17,18,19,20}; do
    if command -v "$compiler" >/dev/null &&
       "$compiler" -fsanitize=fuzzer,address "$scratch/probe.cpp" -o "$scratch/probe" 2>/dev/null; then
      rm -rf "$scratch"
      echo "$compiler"
      return 0
    fi
  done
  rm -rf "$scratch"
  return 1
}

# The Python with the second solver of placements for tests/plan. SciPy's package belongs to the system's Python, which
# need not be the first in PATH.
scipy_python() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -c 'import scipy.optimize, scipy.sparse' 2>/dev/null; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

has_browser() {
  local browser
  for browser in chromium chromium-browser google-chrome google-chrome-stable; do
    ! command -v "$browser" >/dev/null || return 0
  done
  return 1
}

is_there() {  # PROBE
  case $1 in
    command:*) command -v "${1#*:}" >/dev/null ;;
    header:*) printf '#if !__has_include(<%s>)\n#error absent\n#endif\n' "${1#*:}" |
                "${CXX:-g++}" -std=c++20 -E -x c++ - >/dev/null 2>&1 ;;
    file:*) [ -e "${1#*:}" ] ;;
    module:*) python3 -c "import ${1#*:}" 2>/dev/null ;;
    fuzzer) fuzzing_compiler >/dev/null ;;
    scipy) scipy_python >/dev/null ;;
    browser) has_browser ;;
    compiler) command -v "${CXX:-g++}" >/dev/null ;;
    python_headers)
      python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null ;;
  esac
}

missing_packages() {  # GROUP...
  local group package probe
  while read -r group package probe; do
    case " $* " in *" $group "*) is_there "$probe" || echo "$package" ;; esac
  done < <(packages) | sort -u
}

# Runs a command as root; the caller has checked that this is possible.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

can_be_root() {
  [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

apt_offers() {  # PACKAGE
  # Not `| grep -q`: it ends early, and with pipefail the writer would then fail.
  [[ $(apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]
}

# Installs the missing packages of the groups. All except those of `plugin` and `full` must be installed afterwards, or
# the script ends with an error. If none is missing, it runs nothing and needs no root.
install_packages() {  # GROUP...
  local missing required offered=() list package group required_groups=()
  for group in "$@"; do [[ $group = plugin || $group = full ]] || required_groups+=("$group"); done
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  mapfile -t required < <(missing_packages "${required_groups[@]}")
  list="${missing[*]}"

  if ! command -v apt-get >/dev/null; then
    [ ${#required[@]} -gt 0 ] || { say "Not installed, and not required: $list"; return 0; }
    die "This is not Debian or Ubuntu (there is no apt-get), so packages can't be installed from here." \
        "Install what these Debian packages contain, then run this again:" "  $list"
  fi
  if ! can_be_root; then
    [ ${#required[@]} -gt 0 ] || { say "Not installed, and not required: $list"; return 0; }
    local remedy="Let an administrator run this, then try again:"
    die "Some packages are missing, and installing them needs root or sudo. $remedy" "  apt-get install $list"
  fi

  say "Installing with apt-get: $list"
  as_root apt-get update -q || true  # an unreachable source must not stop us; the installation below reports it
  for package in "${missing[@]}"; do
    if apt_offers "$package"; then
      offered+=("$package")
    elif [[ " ${required[*]} " == *" $package "* ]]; then
      die \
        "apt-get does not offer the package $package." \
        "Without a network this can't go on; with one, this distribution is too old (Debian 12 and Ubuntu 24.04 work)" \
        "or a part of its archive is switched off (on Ubuntu: universe). Needed in all: $list"
    else
      say "This distribution does not offer $package: the tests that use it will be skipped."
    fi
  done
  [ ${#offered[@]} -gt 0 ] || return 0
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${offered[@]}" ||
    die "apt-get could not install the packages; its reason is above. If it names resolving or connecting, this" \
        "machine has no network: connect it, or install these by other means and run this again:" "  $list"
  hash -r
  mapfile -t required < <(missing_packages "${required_groups[@]}")
  [ ${#required[@]} = 0 ] ||
    die "Installed, but not found by ${CXX:-g++} or on the PATH: ${required[*]}" \
        "Is another compiler or another prefix in the way? (CXX='${CXX:-}', PATH='$PATH')"
}

version_at_least() {  # WANTED HAVE
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | sed -n 1p)" = "$1" ]
}

# The versions of the distributions above. Older versions fail later, with long and unhelpful messages.
check_versions() {
  local have
  have=$(cmake --version | sed -n '1s/.*version //p')
  version_at_least 3.24 "$have" || die "CMake $have ($(command -v cmake)) is too old: 3.24 or newer is needed."
  if [[ $("${CXX:-g++}" --version) =~ "Free Software"|GCC ]]; then
    have=$("${CXX:-g++}" -dumpfullversion)
    version_at_least 12 "$have" ||
      die "GCC $have (${CXX:-g++}) is too old: 12 or newer is needed. Set CXX to a newer one."
  fi
}
