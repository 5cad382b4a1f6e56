#!/usr/bin/env bash
# Formats every C++ file by the rules of .clang-format, and every Python file by those of python/ruff.toml.
#
#   tools/format.sh           rewrites files with another format
#   tools/format.sh --check   changes nothing; names these files and fails
#
# The version of clang-format is fixed, because versions of clang-format disagree. ruff is the one of the Python of the
# tests (tools/test_python.sh), else the one on the PATH. Without ruff the script formats only C++, and says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=clang-format-14
command -v "$formatter" >/dev/null || { echo "$formatter is not installed (apt-get install $formatter)." >&2; exit 1; }

case "${1:-}" in
  --check) options=(--dry-run -Werror) python_options=(--check) ;;
  '') options=(-i) python_options=() ;;
  *) echo "format.sh: unknown argument '$1' (the only option is --check)." >&2; exit 2 ;;
esac

status=0
find zero app plugins python include tests benchmarks examples cmake -type f \
    \( -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r -n 20 -P "$(nproc)" "$formatter" "${options[@]}" || status=1

# shellcheck source=tools/setup.sh
. tools/setup.sh
# shellcheck source=tools/test_python.sh
. tools/test_python.sh
if ruff=$(find_ruff); then
  "$ruff" format --quiet --no-cache --config python/ruff.toml "${python_options[@]}" . || status=1
else
  echo "There is no ruff here (pip install ruff, or ZERO_RUFF): Python was not formatted." >&2
fi
exit $status
