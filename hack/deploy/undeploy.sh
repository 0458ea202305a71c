#!/usr/bin/env bash
# Removes what deploy.sh installed, from the same cluster. It stops if there are
# Stacks, since without the manager nobody would take their finalizers off; with
# FORCE=1 it takes them off itself, and what the Stacks made stays as it is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"

# Waits until the API server lets somebody else than the operator change an UpdatePlan's finalizers, if there is one.
await_forgotten() {
  local namespace name tries
  read -r namespace name < <("$KUBECTL" get updateplans.plangate.dev -A --ignore-not-found -o jsonpath='{.items[0].metadata.namespace} {.items[0].metadata.name}' 2> /dev/null || true) || return 0
  [ -n "$name" ] || return 0
  for ((tries = 0; tries < 50; tries++)); do
    ! "$KUBECTL" -n "$namespace" patch updateplans.plangate.dev "$name" --dry-run=server --type=merge -p '{"metadata":{"finalizers":["plangate.dev/forgotten"]}}' > /dev/null 2>&1 || return 0
    sleep 0.2
  done
  die "the API server still holds on to the admission policy updateplans.plangate.dev"
}

choose_cluster
stacks=$("$KUBECTL" get stacks.plangate.dev -A --ignore-not-found -o name 2> /dev/null || true)
if [ -n "$stacks" ] && [ -z "${FORCE:-}" ]; then
  die "these exist: $(tr '\n' ' ' <<< "$stacks")- delete them first, or give FORCE=1 to leave what they made as it is"
fi
say "removing the manager"
"$KUBECTL" -n "$MANAGER_NAMESPACE" delete deployment "$MANAGER" --ignore-not-found --wait
if [ -n "${FORCE:-}" ]; then
  # They leave finalizers to the operator, which is gone. The API server takes a moment to forget them.
  "$KUBECTL" delete validatingadmissionpolicybindings updateplans.plangate.dev --ignore-not-found --wait
  await_forgotten
  for kind in $("$KUBECTL" api-resources --api-group=plangate.dev --verbs=patch -o name); do
    "$KUBECTL" get "$kind" -A -o jsonpath='{range .items[*]}{.metadata.namespace}{" "}{.metadata.name}{"\n"}{end}' |
      while read -r namespace name; do
        # A cluster-wide object has no namespace, so its name comes first.
        if [ -z "$name" ]; then name=$namespace namespace=default; fi
        "$KUBECTL" -n "$namespace" patch "$kind" "$name" --type=merge -p '{"metadata":{"finalizers":null}}' < /dev/null
      done
  done
fi
say "removing config/default"
"$KUBECTL" delete -k "$MANIFESTS" --ignore-not-found --wait --timeout=120s
