# shellcheck shell=bash disable=SC2034
# etcd and all of Kubernetes as one binary, with a link per component. The
# folder serves as envtest's KUBEBUILDER_ASSETS too.
version=$KUBERNETES_VERSION
inputs=(kube)
takes="16 min on 2 cores"

build() {
  need_required kube/go.mod k8s.io/kubernetes "$KUBERNETES_VERSION"
  local number=${KUBERNETES_VERSION#v} package stamps=()
  # Without its version, the API server serves no API that came with a release.
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    stamps+=(
      "-X $package.gitVersion=$KUBERNETES_VERSION"
      "-X $package.gitMajor=$(cut -d. -f1 <<< "$number")"
      "-X $package.gitMinor=$(cut -d. -f2 <<< "$number")"
      "-X $package.gitTreeState=clean"
      "-X $package.gitCommit=0000000000000000000000000000000000000000"
      "-X $package.buildDate=2026-01-01T00:00:00Z"
    )
  done
  go_build "$HACK_DIR/kube" "$1/kubernetes" . "${stamps[*]}"
  local component
  for component in etcd kube-apiserver kube-controller-manager kube-scheduler controlplane kubelet kube-proxy kubectl; do
    ln -s kubernetes "$1/$component"
  done
}
