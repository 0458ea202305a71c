#!/usr/bin/env bash
# What `make verify` checks. All checks run; the last line says which failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Written by `make generate`; a file that is missing is a difference too.
generated() {
  {
    find api -name 'zz_generated*.go'
    find workspace -name '*.pb.go'
    find config/crd -name 'plangate.dev_*.yaml'
    find config/rbac -name role.yaml
    find docs/api -name '*.md'
  } 2> /dev/null | LC_ALL=C sort
}

check_generated() {
  local before status=0
  before=$(mktemp -d)
  mkdir "$before/a" "$before/b"
  generated | xargs -r cp --parents -t "$before/a"
  if make --no-print-directory generate; then
    generated | xargs -r cp --parents -t "$before/b"
    (cd "$before" && diff -ruN a b) || status=1
  else
    status=1
  fi
  rm -rf "$before"
  return $status
}

check_modules() {
  go mod tidy -diff && go mod verify
}

check_format() {
  local files
  files=$(find . -name .git -prune -o -name testdata -prune -o -name '*.go' -type f -print0 | xargs -0 gofmt -l)
  [ -z "$files" ] || {
    printf 'not formatted:\n%s\n' "$files"
    return 1
  }
}

# Client-side apply keeps the whole object in an annotation of at most 256 KiB.
check_crd_sizes() {
  local file status=0
  for file in config/crd/plangate.dev_*.yaml; do
    (($(wc -c < "$file") < 256 * 1024)) || {
      echo "$file is $(wc -c < "$file") bytes: kubectl apply takes less than 256 KiB"
      status=1
    }
  done
  return $status
}

check_headers() { hack/boilerplate.sh --check; }
check_texts() { hack/verify-text.sh; }
check_lint_rules() { hack/verify-lint-rules.sh; }

failed=()
for check in generated modules format crd_sizes headers texts lint_rules; do
  began=$SECONDS
  # In a process of its own: `set -e` does not hold within an `if`.
  if bash -euo pipefail -c "$(declare -f generated "check_$check"); check_$check"; then
    echo "ok    $check ($((SECONDS - began)) s)"
  else
    echo "FAIL  $check ($((SECONDS - began)) s)"
    failed+=("$check")
  fi
done
[ ${#failed[@]} -eq 0 ] || {
  echo "verify failed: ${failed[*]}; generated files are now as they should be" >&2
  exit 1
}
