#!/usr/bin/env bash
# Builds the documentation as a site, from the files of the repository: build/site/html/index.html.
#
#   tools/site.sh          builds it; a broken link is an error (with --quiet mkdocs would not report it)
#   tools/site.sh serve    builds it, and serves it at http://127.0.0.1:8000 (the search needs a server)
#
# Material for MkDocs is installed once with pip into the cache. Needs Python 3.9 or later with venv. Exit status 77: it
# could not be installed, and the reason is printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache="${XDG_CACHE_HOME:-$HOME/.cache}/zero.cpp/site"
version=9.6.14
install_in_cache() {
  python3 -m venv "$cache" &&
    "$cache/bin/pip" install --quiet --disable-pip-version-check "mkdocs-material==$version"
}
if [ "$("$cache/bin/pip" show mkdocs-material 2>/dev/null | awk '/^Version:/ {print $2}')" != "$version" ]; then
  if ! said=$(install_in_cache 2>&1); then
    printf '%s\n' "$said" | tail -n 3
    echo "mkdocs-material $version cannot be installed here."
    exit 77
  fi
fi

# The documents link to each other, to headers of the source and to examples. In the site all have the same paths.
source=build/site/source
rm -rf "$source"
mkdir -p "$source"
cp -r docs README.md CONTRIBUTING.md CHANGELOG.md LICENSE tools/site.css "$source"
find zero app plugins include \
  \( -name '*.h' -o -name README.md -o -name main.cpp -o -name verbs.cpp -o -name option_table.cpp \) \
  -exec cp --parents -t "$source" {} +
cp --parents -t "$source" examples/README.md examples/*/README.md examples/api/*.cpp examples/cluster/* \
  examples/python/*.py tests/issues/README.md python/README.md

case "${1:-}" in
  '') "$cache/bin/mkdocs" build --strict --config-file tools/site.yml ;;
  serve) exec "$cache/bin/mkdocs" serve --config-file tools/site.yml --dev-addr 127.0.0.1:8000 ;;
  *) echo "site.sh: unknown argument '$1' (the only argument is serve)." >&2; exit 2 ;;
esac
echo "build/site/html/index.html"
