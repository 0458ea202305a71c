#!/usr/bin/env bash
# Runs each fuzz target of the main module for the given time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
time=${1:-10s}

count=0
# go test fuzzes one target of one package at a time.
while IFS=: read -r file name; do
  echo "==> $name in $(dirname "$file")"
  go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$(dirname "$file")"
  count=$((count + 1))
done < <(grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/func //' | LC_ALL=C sort)
echo "$count fuzz targets passed, $time each"
