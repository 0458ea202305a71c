#!/usr/bin/env bash
# Builds the pinned tools once into the cache and prints the folder they are in.
#
#   hack/tools/ensure.sh             the generators: the `tool` lines of hack/tools/go.mod
#   hack/tools/ensure.sh golangci    golangci-lint: hack/tools/golangci/go.mod
#
# The folder's name ends in a digest of go.mod, go.sum and the Go version, so it
# never changes; `make cache-clean` removes it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"

set_name=${1:-}
module=$here${set_name:+/$set_name}
[ -f "$module/go.mod" ] || die "usage: ensure.sh [golangci]"
need_commands go flock sha256sum

digest=$( (go env GOVERSION GOARCH GOOS && cat "$module/go.mod" "$module/go.sum") | sha256sum | cut -c1-12)
entry=$CACHE_DIR/tools${set_name:+-$set_name}-$digest

build_tools() { # FOLDER
  local tool
  # `go list tool` would load every package; the tools are named in go.mod itself.
  go mod edit -json "$module/go.mod" | sed -n '/"Tool"/,/]/s/.*"Path": "\(.*\)".*/\1/p' | while read -r tool; do
    say "building $(basename "$tool")"
    go_build "$module" "$1/$(basename "$tool")" "$tool"
  done
}

if [ ! -d "$entry" ]; then
  mkdir -p "$CACHE_DIR"
  exec 9> "$CACHE_DIR/.lock-tools$set_name"
  flock 9
  if [ ! -d "$entry" ]; then
    # Built beside it and renamed, so that the folder is whole or absent.
    temp=$(mktemp -d "$CACHE_DIR/.build-tools.XXXXXX")
    trap 'rm -rf "$temp"' EXIT
    build_tools "$temp"
    chmod 755 "$temp"
    mv -T "$temp" "$entry"
  fi
  exec 9>&-
fi
printf '%s\n' "$entry"
