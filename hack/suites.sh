#!/usr/bin/env bash
# Runs the tests of one promise, wherever they are, and shows in the end case by case what was tried, what was expected and
# what happened.
#
#   holes  all that docs/holes.md lists
#   leaks  secrets in every place that one could get to
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO_DIR"

PLANGATE_TEST_CASES=$(mktemp)
export PLANGATE_TEST_CASES
trap 'rm -f "$PLANGATE_TEST_CASES"' EXIT
PLANGATE_TEST_PATH=$("$HACK_DIR/cache/path.sh" kubernetes pulumi pulumi-language-yaml pulumi-kubernetes)
KUBEBUILDER_ASSETS=$("$HACK_DIR/cache/path.sh" kubernetes)
export PLANGATE_TEST_PATH KUBEBUILDER_ASSETS PLANGATE_E2E=1
status=0

run() { # PATTERN PACKAGE...
  local pattern=$1
  shift
  go test -json -count=1 -timeout 30m -run "$pattern" "$@" | go run -C hack/tools ./testsummary || status=1
}

table() { go run -C hack/tools ./casetable "$@" "$PLANGATE_TEST_CASES" || status=1; }

everywhere() { # PATTERN: first where no cluster is needed
  run "$1" ./plans/... ./workspace/...
  run "$1" ./tests/envtest/...
  eval "$("$HACK_DIR/cluster/up.sh")"
  "$HACK_DIR/deploy/deploy.sh" > /dev/null
  run "$1" ./tests/e2e/...
}

case ${1:-} in
  holes)
    everywhere "$(go run -C hack/tools ./casetable -tests "$REPO_DIR/docs/holes.md")"
    table -page "$REPO_DIR/docs/holes.md"
    ;;
  leaks)
    everywhere '^TestMask|^TestRedact|^TestNoSecret|^TestNoCanary'
    table
    ;;
  *) die "which suite? holes or leaks" ;;
esac
exit "$status"
