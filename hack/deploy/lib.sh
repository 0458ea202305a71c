# shellcheck shell=bash disable=SC2034
# Which cluster, which kubectl and which manifests. Source ../lib.sh first.

MANIFESTS=$REPO_DIR/config/default
MANAGER_NAMESPACE=plangate-system
MANAGER=plangate-manager

# The caller's cluster, if KUBECONFIG names one, or else the test cluster.
choose_cluster() {
  [ -e "$MANIFESTS/kustomization.yaml" ] || die "no config/default/kustomization.yaml in this checkout"
  test_cluster=
  if [ -z "${KUBECONFIG:-}" ] || [ "$KUBECONFIG" = "$CLUSTER_KUBECONFIG" ]; then
    test_cluster=1
    export KUBECONFIG=$CLUSTER_KUBECONFIG
    [ -e "$KUBECONFIG" ] || die "KUBECONFIG is not set and no test cluster is running: set it, or run 'make cluster-up'"
    KUBECTL=$("$HACK_DIR/cache/ensure.sh" kubernetes)/kubectl
  else
    need_commands kubectl
    KUBECTL=kubectl
  fi
  "$KUBECTL" get --raw /readyz --request-timeout=10s > /dev/null || die "the cluster of $KUBECONFIG does not answer"
  # Before 1.36 Kubernetes has no MutatingAdmissionPolicy.
  "$KUBECTL" get --raw /apis/admissionregistration.k8s.io/v1 | grep -q '"mutatingadmissionpolicies"' || MANIFESTS=$REPO_DIR/config/without-stamps
}
