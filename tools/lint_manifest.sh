#!/usr/bin/env bash
# Checks Kubernetes manifests against the schemas of Kubernetes: all keys are known, none is missing, and values have
# their types.
#
#   tools/lint_manifest.sh            checks examples/cluster/kubernetes.yaml, and that broken copies of it are refused
#   tools/lint_manifest.sh FILE...    checks your own manifests
#
# kubernetes-validate, which has the schemas, is installed once with pip into the cache. Needs Python 3.9 or later with
# venv. Exit status 1: a manifest is wrong, or a broken copy passed; 77: kubernetes-validate could not be installed, and
# the reason is printed.
set -euo pipefail

cache="${XDG_CACHE_HOME:-$HOME/.cache}/zero.cpp/kubernetes-validate"
version=1.37.0
install_in_cache() {
  python3 -m venv "$cache" &&
    "$cache/bin/pip" install --quiet --disable-pip-version-check "kubernetes-validate==$version"
}
if [ "$("$cache/bin/kubernetes-validate" --version 2>/dev/null)" != "$version" ]; then
  if ! said=$(install_in_cache 2>&1); then
    printf '%s\n' "$said" | tail -n 3
    echo "kubernetes-validate $version cannot be installed here."
    exit 77
  fi
fi

check() {  # a resource without a schema is only a warning, and the file would pass
  local said status=0
  said=$("$cache/bin/kubernetes-validate" --strict "$@" 2>&1) || status=1
  printf '%s\n' "$said"
  [ $status = 0 ] && ! grep -q '^WARN' <<<"$said"
}

if [ $# -gt 0 ]; then
  check "$@"
  exit
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
manifest=examples/cluster/kubernetes.yaml
check "$manifest"

broken=$(mktemp --suffix=.yaml)
trap 'rm -f "$broken"' EXIT
refused() {  # EXPECTED TEXT, SED COMMAND
  sed "$2" "$manifest" >"$broken"
  ! cmp -s "$manifest" "$broken" || { echo "lint_manifest.sh: '$2' changes nothing of $manifest."; exit 1; }
  local said
  ! said=$(check "$broken") || { echo "lint_manifest.sh: $manifest also passes with '$2'."; exit 1; }
  case $said in
    *"$1"*) ;;
    *) printf 'lint_manifest.sh: refused with %s, without a word of %s:\n%s\n' "'$2'" "'$1'" "$said"; exit 1 ;;
  esac
}
refused completionsMode 's/completionMode/completionsMode/'   # an unknown key
refused "'two'" 's/completions: 2/completions: two/'          # a value of another type
refused template 's/^  template:/  templates:/'               # a required key is missing
refused Jobs 's/^kind: Job$/kind: Jobs/'                      # a resource that does not exist
echo "$manifest: passed; four broken copies were refused"
