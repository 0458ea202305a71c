#!/usr/bin/env bash
# Starts the test cluster and returns when its node and DNS are ready. On a
# healthy running cluster it says so; what is left of a broken one it removes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"

main() {
  "$here/prerequisites.sh"
  local entries
  entries=$("$HACK_DIR/cache/ensure.sh" kubernetes coredns mkimage node-tools)
  KUBERNETES_BIN=$(head -1 <<< "$entries")
  export KUBERNETES_BIN
  lock_cluster
  if [ -n "$(node_parent)" ] && check_parts > /dev/null; then
    say "the cluster is already running"
    print_kubeconfig
    return
  fi
  if [ -e "$STATE_DIR" ]; then
    say "removing what is left of a cluster that is not healthy"
    "$here/down.sh" --locked
  fi
  say "starting etcd, Kubernetes, containerd and CoreDNS (usually 20 s)"
  local began=$SECONDS
  save_host
  "$here/certificates.sh"
  make_network
  start_node
  await_node
  say "the cluster is ready after $((SECONDS - began)) s"
  "$HACK_DIR/images/load.sh" --if-built 9>&-
  print_kubeconfig
}

# What down.sh must put back as it was.
save_host() {
  mkdir -p "$LOG_DIR" "$STATE_DIR/pids"
  chmod 755 "$STATE_DIR"
  local name value made=()
  for name in "${HOST_SYSCTLS[@]}"; do
    value=$(sysctl -n "$name" 2> /dev/null) || continue
    echo "$name=$value"
  done > "$STATE_DIR/sysctls.saved"
  for name in "${MOUNT_POINTS[@]}"; do
    [ -d "$name" ] || made+=("$name")
  done
  # The first named network namespace of a machine makes this mount.
  mountpoint -q /run/netns || made+=(/run/netns)
  printf '%s\n' "${made[@]}" > "$STATE_DIR/paths.made"
}

# A veth pair ties the node's network namespace to the host. There is no
# forwarding, so neither the node nor a pod reaches further than the host.
make_network() {
  local cidr
  for cidr in "$POD_CIDR" "$SVC_CIDR" "$HOST_IP/30"; do
    [ -z "$(ip route show root "$cidr")" ] || die "the host already has a route in $cidr, which the cluster needs"
  done
  touch "$STATE_DIR/network.made" # from here on it is ours to remove
  ip netns add "$CLUSTER"
  ip link add "$CLUSTER" type veth peer name eth0 netns "$CLUSTER"
  ip addr add "$HOST_IP/30" dev "$CLUSTER"
  ip link set "$CLUSTER" up
  ip -n "$CLUSTER" link set lo up
  ip -n "$CLUSTER" addr add "$NODE_IP/30" dev eth0
  ip -n "$CLUSTER" link set eth0 up
  ip -n "$CLUSTER" route add default via "$HOST_IP" # the kubelet and kube-proxy look for one
  ip route add "$POD_CIDR" via "$NODE_IP"
  ip route add "$SVC_CIDR" via "$NODE_IP"
}

# Everything runs below one process in namespaces of its own: its end is
# theirs, whatever they started, and nothing they mount shows on the host.
start_node() {
  mkdir -p "${MOUNT_POINTS[@]}"
  nsenter --net="/run/netns/$CLUSTER" setsid unshare --mount --pid --uts --ipc --fork --kill-child --mount-proc --propagation private \
    bash "$here/node.sh" > "$LOG_DIR/node.log" 2>&1 < /dev/null 9>&- &
  echo $! > "$STATE_DIR/node.pid"
}

await_node() {
  # Images are loaded while the API server starts.
  wait_until 60 answers || failed "containerd did not answer"
  "$HACK_DIR/images/load.sh" pause coredns nettest 9>&- || failed "loading the node's images did not work"
  touch "$STATE_DIR/images-loaded" # node.sh waits for it
  wait_until 180 ended_or_ready || failed "not ready after 3 min"
  [ -e "$STATE_DIR/ready" ] || failed "it ended"
}

answers() { on_node ctr -a "$CONTAINERD_SOCKET" version; }
ended_or_ready() { [ -e "$STATE_DIR/ready" ] || [ -z "$(node_parent)" ]; }

failed() { # REASON
  tail -n 5 "$LOG_DIR"/*.log >&2
  die "the cluster did not start: $1 (logs: $LOG_DIR; clean up with 'make cluster-down')"
}

print_kubeconfig() { echo "export KUBECONFIG=$CLUSTER_KUBECONFIG"; }

main
