#!/usr/bin/env bash
# Installs Plangate with the manifests of config/default and waits until the
# manager runs: into the cluster of KUBECONFIG if that is set, or else into the
# test cluster, for which it first builds and imports the images.
#
#   IMG             the manager's and agent's image
#   WORKSPACE_IMG   the image of workspaces that name none
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"
IMG=${IMG:-localhost/plangate/manager:dev}
WORKSPACE_IMG=${WORKSPACE_IMG:-localhost/plangate/workspace:dev}

main() {
  choose_cluster
  local images=
  if [ -n "$test_cluster" ]; then
    "$HACK_DIR/images/load.sh"
    # A tag stays the same when its image changes: so the pod must change.
    images=$(find "$STATE_DIR/images" -name 'manager-*' -printf '%f')
    [ -n "$images" ] || [ "$IMG" != localhost/plangate/manager:dev ] || die "there is no image $IMG to deploy"
  fi
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  render "$images" > "$work/all.yaml"
  say "applying config/default with manager image $IMG"
  if ! apply "$work/all.yaml" > "$work/log" 2>&1; then
    # Objects of a kind whose definition came in the same breath.
    "$KUBECTL" wait --for=condition=Established customresourcedefinitions --all --timeout=30s > /dev/null
    apply "$work/all.yaml"
  fi
  say "waiting for deployment $MANAGER_NAMESPACE/$MANAGER (usually 5 s)"
  if ! "$KUBECTL" -n "$MANAGER_NAMESPACE" rollout status "deployment/$MANAGER" --timeout=120s; then
    "$KUBECTL" -n "$MANAGER_NAMESPACE" get pods -o wide >&2
    "$KUBECTL" -n "$MANAGER_NAMESPACE" get events --sort-by=.lastTimestamp | tail -n 10 >&2
    "$KUBECTL" -n "$MANAGER_NAMESPACE" logs "deployment/$MANAGER" --all-containers --tail=20 >&2 || true
    die "the manager is not ready"
  fi
}

apply() { "$KUBECTL" apply --server-side --force-conflicts -f "$1"; }

# config/default with the images put in. Of an argument that is given twice, the
# manager takes the last.
render() { # IMAGES
  cat > "$work/kustomization.yaml" << YAML
resources:
- $(realpath --relative-to="$(realpath "$work")" "$MANIFESTS")
patches:
- target: {kind: Deployment, name: $MANAGER}
  patch: |
    - {op: test, path: /spec/template/spec/containers/0/name, value: manager}
    - {op: replace, path: /spec/template/spec/containers/0/image, value: "$IMG"}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--manager-image=$IMG"}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--workspace-image=$WORKSPACE_IMG"}
- target: {kind: Deployment, name: $MANAGER}
  patch: |
    apiVersion: apps/v1
    kind: Deployment
    metadata:
      name: $MANAGER
    spec:
      template:
        metadata:
          annotations:
            plangate.dev/test-image: "$1"
YAML
  "$KUBECTL" kustomize "$work"
}

main
