#!/usr/bin/env bash
# Runs the demo as a test: it installs Plangate as a new user does, and fails if any step does not show what it should. What
# it printed is shown only then.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "running the demo (usually 90 s)"
if ! "$here/demo.sh" > "$log" 2>&1; then
  cat "$log"
  die "the demo failed"
fi
tail -n 8 "$log" | grep -a 'That was it' >&2 || true
