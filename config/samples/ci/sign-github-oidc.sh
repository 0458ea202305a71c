#!/bin/sh
# Approves (or with -r rejects) a plan as a job of GitHub Actions, without any key:
# GitHub vouches for the job with an ID token for this one plan. The job needs
# `permissions: {id-token: write}`, and curl. See lib.sh for the arguments.
#
# The policy trusts the workflow: spec.signers[].oidc, with repository_id pinned. The
# token lives for minutes and is worth nothing for anything else.
set -eu
. "$(dirname "$0")/lib.sh"

begin "$@"
need curl
for variable in "${ACTIONS_ID_TOKEN_REQUEST_URL:-}" "${ACTIONS_ID_TOKEN_REQUEST_TOKEN:-}"; do
  [ -n "$variable" ] || die "this is no job of GitHub Actions with 'permissions: {id-token: write}'"
done
fetch
# The header comes on standard input, so that it does not show in the list of processes.
printf 'Authorization: Bearer %s\n' "$ACTIONS_ID_TOKEN_REQUEST_TOKEN" |
  curl -fsS -G -H @- --data-urlencode "audience=plangate.dev/$verdict#$digest" "$ACTIONS_ID_TOKEN_REQUEST_URL" > "$work/answer" ||
  die "GitHub gave no ID token"
token=$(sed -n 's/.*"value"[[:space:]]*:[[:space:]]*"\([A-Za-z0-9._-]*\)".*/\1/p' "$work/answer")
[ -n "$token" ] || die "GitHub's answer holds no ID token"
deliver "$token"
