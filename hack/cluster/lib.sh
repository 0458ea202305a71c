# shellcheck shell=bash disable=SC2034
# Names and addresses of the one test cluster, and how its parts are reached.
# Source ../lib.sh first.

CLUSTER=plangate        # names the network namespace and the host's end of the veth pair
NODE=plangate-node      # the one node
HOST_IP=10.254.0.1      # the host, as pods and the node see it
NODE_IP=10.254.0.2      # the node, and the API server's address
POD_CIDR=10.244.0.0/24  # pods and Services are reachable from the host too
SVC_CIDR=10.96.0.0/16
API_IP=10.96.0.1
DNS_IP=10.96.0.10

CLUSTER_DIR=$HACK_DIR/cluster
LOG_DIR=$STATE_DIR/logs
PKI_DIR=$STATE_DIR/pki
CONTAINERD_SOCKET=/run/containerd/containerd.sock # within the node's mount namespace

# The kubelet sets these for the whole machine; cluster-down puts them back.
HOST_SYSCTLS=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes)

# Fixed folders of the kubelet, of CNI and of the host path provisioner. Within the
# node's mount namespace they are folders of STATE_DIR, on the host only empty
# mount points.
MOUNT_POINTS=(/var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers /tmp/hostpath_pv)

# The process outside of the namespaces whose end ends them; empty if it is not
# running. The command line is compared, since process ids are used again.
node_parent() {
  local pid
  [ -r "$STATE_DIR/node.pid" ] || return 0
  pid=$(cat "$STATE_DIR/node.pid")
  if { tr '\0' ' ' < "/proc/$pid/cmdline"; } 2> /dev/null | grep -q 'unshare .*cluster/node\.sh'; then
    echo "$pid"
  fi
}

# Process 1 of the node's PID namespace, by its number on the host.
node_init() {
  local parent
  parent=$(node_parent)
  [ -n "$parent" ] || return 0
  tr -d ' ' < "/proc/$parent/task/$parent/children"
}

# Runs a command as if on the node.
on_node() { # COMMAND...
  local init
  init=$(node_init)
  [ -n "$init" ] || die "the cluster is not running"
  nsenter --target "$init" --mount --net --pid --uts --ipc -- "$@"
}

cluster_kubectl() { "$KUBERNETES_BIN/kubectl" --kubeconfig "$CLUSTER_KUBECONFIG" --request-timeout=5s "$@"; }

# One lock for everything that changes the cluster. It must not be inherited
# by what keeps running, or it would be held for ever: hence 9>&- there.
lock_cluster() {
  mkdir -p "$CACHE_DIR"
  exec 9> "$CACHE_DIR/.lock-cluster"
  flock -n 9 || {
    say "waiting for another command that works on the cluster"
    flock -w 600 9 || die "waited 10 min for another command that works on the cluster"
  }
}

# Prints one line per part; fails if one is not well.
check_parts() {
  local failed=0 node_pids part pid
  if [ -z "$(node_init)" ]; then
    echo "node           not running"
    return 1
  fi
  for part in containerd controlplane kube-proxy kubelet; do
    pid=$(cat "$STATE_DIR/pids/$part" 2> /dev/null || true)
    # These numbers count in the node's PID namespace.
    if [ -n "$pid" ] && on_node test -d "/proc/$pid"; then
      printf '%-14s running\n' "$part"
    else
      printf '%-14s not running, see %s\n' "$part" "$LOG_DIR/$part.log"
      failed=1
    fi
  done
  check_part "API server" cluster_kubectl get --raw /readyz || failed=1
  check_part "node ready" cluster_kubectl wait "node/$NODE" --for=condition=Ready --timeout=2s || failed=1
  check_part "cluster DNS" cluster_kubectl -n kube-system rollout status deployment/coredns --timeout=2s || failed=1
  return "$failed"
}

check_part() { # NAME COMMAND...
  local name=$1
  shift
  if "$@" > /dev/null 2>&1; then
    printf '%-14s ok\n' "$name"
  else
    printf '%-14s not ok\n' "$name"
    return 1
  fi
}
