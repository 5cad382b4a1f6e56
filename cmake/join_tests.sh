#!/bin/sh
# join_tests.sh OUT ROOT FILE...: writes several test files below ROOT into one, for one run of the compiler (ZERO_UNITY).
#
# Each file's `namespace {` becomes a namespace named after the file, so that two files may use one name. That holds as
# long as all of a test file is inside that namespace: a use after its end is an error of the compiler here, too.
set -e
out=$1
root=$2
shift 2
for file in "$@"; do
  printf '#line 1 "%s"\n' "${file#"$root/"}"
  sed "s/^namespace {\$/namespace $(basename "$file" .cpp) {/" "$file"
done >"$out.new"
mv "$out.new" "$out"
