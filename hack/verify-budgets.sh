#!/usr/bin/env bash
# Holds the sizes that no linter counts: a file has at most 400 lines, a step of
# a controller at most 60, the manager's main file at most 150.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
max_file=400 max_step=60 max_main=150
status=0

complain() {
  printf '%s\n' "$*" >&2
  status=1
}

go_files() { # FOLDER...: neither tests nor generated
  local folder folders=()
  for folder in "$@"; do [ ! -e "$folder" ] || folders+=("$folder"); done
  [ ${#folders[@]} -gt 0 ] || return 0
  find "${folders[@]}" -name testdata -prune -o -name '*.go' ! -name '*_test.go' -type f -print | LC_ALL=C sort |
    xargs -r grep -L '^// Code generated .* DO NOT EDIT\.$' || true
}

while IFS= read -r file; do
  lines=$(wc -l < "$file")
  # The kinds are documentation for the most part: they go by kind, not by length.
  case $file in api/*_types.go) continue ;; esac
  ((lines <= max_file)) || complain "$file: $lines lines; at most $max_file"
done < <(go_files api cmd pkg plans workspace tests hack)

while IFS= read -r file; do
  lines=$(wc -l < "$file")
  ((lines <= max_main)) || complain "$file: $lines lines; at most $max_main"
done < <(go_files cmd | grep '/main\.go$' || true)

# gofmt puts the last brace of a function, and only that, into the first column.
while IFS= read -r file; do
  while IFS= read -r found; do complain "$found"; done < <(awk -v max=$max_step '
    /^func / { start = NR; name = $0; sub(/ *{$/, "", name) }
    /^}/ && start { if (NR - start + 1 > max) printf "%s:%d: %s: %d lines; a step has at most %d\n", FILENAME, start, name, NR - start + 1, max; start = 0 }
  ' "$file")
done < <(go_files pkg/controller | grep '/step_[^/]*\.go$' || true)
exit $status
