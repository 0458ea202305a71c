#!/bin/sh
# Approves (or with -r rejects) a plan as a job of GitLab CI, without any key. GitLab
# makes ID tokens when the job starts, so the plan's digest must come into the job as
# a variable: see gitlab-ci.yml, which also keeps the token's life short. GitLab 16.1 or
# newer. See lib.sh for the arguments.
#
# The policy trusts the project: spec.signers[].oidc, with project_id pinned.
set -eu
. "$(dirname "$0")/lib.sh"

begin "$@"
[ -n "${PLANGATE_ID_TOKEN:-}" ] || die "PLANGATE_ID_TOKEN is empty: the job needs id_tokens, see gitlab-ci.yml"
fetch
# A token for something else is told here, and not only by the plan's status.
claims=$(printf '%s' "$PLANGATE_ID_TOKEN" | cut -d . -f 2 | tr -- '-_' '+/')
while [ $((${#claims} % 4)) != 0 ]; do claims="$claims="; done
printf '%s' "$claims" | base64 -d 2> /dev/null | grep -qF "\"plangate.dev/$verdict#$digest\"" ||
  die "the ID token is not for this plan: start the job with PLAN_DIGEST=$digest"
deliver "$PLANGATE_ID_TOKEN"
