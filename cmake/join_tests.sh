#!/bin/sh
# join_tests.sh OUT ROOT FILE...: joins several test files below ROOT into one, for one run of the compiler
# (ZERO_UNITY).
#
# Each file's `namespace {` becomes a namespace named after the file, so two files may use the same name. This requires
# that the whole test file is inside that namespace: a use after its end is a compile error.
set -e
out=$1
root=$2
shift 2
for file in "$@"; do
  printf '#line 1 "%s"\n' "${file#"$root/"}"
  sed "s/^namespace {\$/namespace $(basename "$file" .cpp) {/" "$file"
done >"$out.new"
mv "$out.new" "$out"
