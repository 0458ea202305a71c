#!/usr/bin/env bash
# Puts the license header into the Go files that lack it.
#
#   hack/boilerplate.sh [--check] [FOLDER...]     the whole repository by default
#
# Generated files are left alone: their generators are told the header.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
header=$(cat hack/boilerplate.go.txt)

check=
if [ "${1:-}" = --check ]; then
  check=1
  shift
fi

status=0
while IFS= read -r file; do
  # Files that start with the header, and files that a generator wrote.
  [ "$(head -n 2 "$file")" != "$header" ] || continue
  ! grep -q '^// Code generated .* DO NOT EDIT\.$' "$file" || continue
  if [ -n "$check" ]; then
    printf '%s: has no license header; run make fmt\n' "$file" >&2
    status=1
    continue
  fi
  # The blank line keeps the header from becoming the package's documentation.
  temp=$(mktemp "$file.XXXXXX")
  { printf '%s\n\n' "$header" && cat "$file"; } > "$temp"
  chmod --reference="$file" "$temp"
  mv "$temp" "$file"
done < <(find "${@:-.}" -name .git -prune -o -name testdata -prune -o -name '*.go' -type f -print | LC_ALL=C sort)
exit $status
