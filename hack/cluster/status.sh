#!/usr/bin/env bash
# Says how the test cluster is; succeeds if all of it is well.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"

need_linux_root "the test cluster" # to look into its namespaces
if [ -z "$(node_parent)" ]; then
  if [ -e "$STATE_DIR" ]; then
    die "the cluster ended and left things behind: run 'make cluster-up' or 'make cluster-down'"
  fi
  die "no cluster is running: start it with 'make cluster-up'"
fi
KUBERNETES_BIN=$("$HACK_DIR/cache/ensure.sh" kubernetes)
status=0
check_parts || status=1
if [ "$status" = 0 ]; then
  cluster_kubectl get nodes -o wide
  cluster_kubectl get pods -A
fi
printf '\nimages         %s\n' "$(find "$STATE_DIR/images" -type f -printf '%f ' 2> /dev/null)"
printf 'logs           %s\n' "$LOG_DIR"
printf 'kubeconfig     export KUBECONFIG=%s\n' "$CLUSTER_KUBECONFIG"
exit "$status"
