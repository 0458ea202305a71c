#!/usr/bin/env bash
# Removes what deploy.sh installed, from the same cluster. It stops if there are
# Stacks, since without the manager nobody would take their finalizers off; with
# FORCE=1 it takes them off itself, and what the Stacks made stays as it is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"

choose_cluster
stacks=$("$KUBECTL" get stacks.plangate.dev -A --ignore-not-found -o name 2> /dev/null || true)
if [ -n "$stacks" ] && [ -z "${FORCE:-}" ]; then
  die "these exist: $(tr '\n' ' ' <<< "$stacks")- delete them first, or give FORCE=1 to leave what they made as it is"
fi
say "removing the manager"
"$KUBECTL" -n "$MANAGER_NAMESPACE" delete deployment "$MANAGER" --ignore-not-found --wait
if [ -n "${FORCE:-}" ]; then
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
