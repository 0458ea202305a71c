#!/usr/bin/env bash
# Runs the tests about drift and ends with a table of them, case by case.
#
#   PLANGATE_TEST_PATH=... KUBEBUILDER_ASSETS=... hack/drift.sh       as `make drift` does
#
# The last of them run on the real cluster, which it starts if there is none.
set -euo pipefail
# shellcheck source=hack/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$REPO_DIR"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0

of() { # FILE: a pattern for the tests in it
  grep -oE '^func Test[A-Za-z0-9_]+' "$1" | sed 's/^func //' | paste -sd'|' | sed 's/.*/^(&)$/'
}

run() { # PACKAGE... [-run PATTERN]
  go test -json -count=1 -timeout 60m "$@" >> "$log" || status=1
}

run ./plans/drift ./plans/pulumiplan/live
run ./plans -run "$(of plans/drifted_test.go)"
run ./workspace/agent -run "$(of workspace/agent/drift_test.go)"
run ./tests/envtest -run "$(of tests/envtest/controllers_drift_test.go)"
eval "$("$HACK_DIR/cluster/up.sh")"
"$HACK_DIR/deploy/deploy.sh" > /dev/null
PLANGATE_E2E=1 run ./tests/e2e -run "$(of tests/e2e/drift_test.go)"
go run -C hack/tools ./testtable < "$log" || status=1
exit "$status"
