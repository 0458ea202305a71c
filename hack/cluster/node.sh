#!/usr/bin/env bash
# Process 1 of the node, in mount, PID, UTS, IPC and network namespaces of its
# own. It starts the parts, says when they are ready, and ends when one ends.
# up.sh starts it; KUBERNETES_BIN is the folder of the Kubernetes programs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"
export PATH=$KUBERNETES_BIN:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# The environment of the caller (proxies, kubeconfigs) is none of the node's business.
unset KUBECONFIG HTTP_PROXY HTTPS_PROXY http_proxy https_proxy

main() {
  # With no handler, process 1 does not see these signals at all.
  trap 'exit 0' TERM INT
  hostname "$NODE"
  make_mounts
  write_configuration
  start containerd containerd --config "$STATE_DIR/etc/containerd.toml"
  start controlplane controlplane "$STATE_DIR/etc/controlplane.args"
  wait_until 120 apiserver_ready || die "the API server is not ready"
  milestone "API server ready"
  start kube-proxy kube-proxy --config "$STATE_DIR/etc/kube-proxy.yaml"
  # A pod without a pause image would back off for seconds.
  wait_until 120 test -e "$STATE_DIR/images-loaded" || die "the node's images were not loaded"
  start kubelet kubelet --config "$STATE_DIR/etc/kubelet.yaml" --kubeconfig "$PKI_DIR/kubelet.kubeconfig" \
    --hostname-override "$NODE" --node-ip "$NODE_IP" --root-dir /var/lib/kubelet --v 2
  wait_until 60 cluster_kubectl apply -f "$here/manifests" || die "the API server does not take the manifests of DNS and storage"
  wait_until 120 node_ready || die "the node is not ready"
  milestone "node ready"
  wait_until 60 cluster_kubectl -n default get serviceaccount default || die "no default service account" # the first pod needs it
  wait_until 90 dns_ready || die "cluster DNS is not ready"
  milestone "DNS ready"
  touch "$STATE_DIR/ready"
  wait -n "${parts[@]}" || true
  echo "One part ended; ending the node."
}

# A private /run keeps sockets, namespaces and locks; it is gone with the node.
make_mounts() {
  mount -t tmpfs tmpfs /run
  mkdir -p /run/containerd "$STATE_DIR"/{etc/cni,etcd,containerd,volume-plugins}
  local path
  for path in "${MOUNT_POINTS[@]}"; do
    mkdir -p "$STATE_DIR/mounts$path"
    mount --bind "$STATE_DIR/mounts$path" "$path"
  done
  mount --make-rshared /var/lib/kubelet # volumes that the kubelet mounts must show in pods
  echo 1 > /proc/sys/net/ipv4/ip_forward # of this network namespace
}

write_configuration() {
  local file
  for file in containerd.toml kubelet.yaml kube-proxy.yaml controlplane.args cni/10-bridge.conflist; do
    sed -e "s#@STATE@#$STATE_DIR#g; s#@PKI@#$PKI_DIR#g; s#@NODE@#$NODE#g; s#@NODE_IP@#$NODE_IP#g" \
      -e "s#@POD_CIDR@#$POD_CIDR#g; s#@SVC_CIDR@#$SVC_CIDR#g; s#@DNS_IP@#$DNS_IP#g" \
      -e "s#@RUNC@#$(command -v runc)#g; s#@SNAPSHOTTER@#$(snapshotter)#g" \
      "$here/conf/${file#cni/}" > "$STATE_DIR/etc/$file"
  done
  : > "$STATE_DIR/etc/resolv.conf" # pods must not see the host's name servers
}

# Overlays cannot lie on an overlay, as when the machine itself is a container.
snapshotter() {
  case $(stat -f -c %T "$STATE_DIR") in
    overlayfs) echo native ;;
    *) echo overlayfs ;;
  esac
}

parts=()
start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" > "$LOG_DIR/$name.log" 2>&1 &
  parts+=($!)
  echo $! > "$STATE_DIR/pids/$name"
}

milestone() { echo "$SECONDS s: $*"; }
apiserver_ready() { [ "$(cluster_kubectl get --raw /readyz)" = ok ]; }
node_ready() { cluster_kubectl wait "node/$NODE" --for=condition=Ready --timeout=2s; }
dns_ready() { cluster_kubectl -n kube-system rollout status deployment/coredns --timeout=30s --request-timeout=0; }

main
