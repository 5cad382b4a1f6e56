#!/usr/bin/env bash
# Formats every C++ file by the rules of .clang-format.
#
#   tools/format.sh           rewrites files with another format
#   tools/format.sh --check   changes nothing; names these files and fails
#
# The version is fixed, because versions of clang-format disagree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=clang-format-14
command -v "$formatter" >/dev/null || { echo "$formatter is not installed (apt-get install $formatter)." >&2; exit 1; }

case "${1:-}" in
  --check) options=(--dry-run -Werror) ;;
  '') options=(-i) ;;
  *) echo "format.sh: unknown argument '$1' (the only option is --check)." >&2; exit 2 ;;
esac

find zero app plugins python include tests benchmarks examples cmake -type f \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r -n 20 -P "$(nproc)" "$formatter" "${options[@]}"
