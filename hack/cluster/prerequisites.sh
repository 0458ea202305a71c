#!/usr/bin/env bash
# Checks that this machine can run the cluster, and installs what Debian has.
# up.sh calls it first; it changes nothing on a machine that has everything.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"

need_linux_root "the test cluster"
# The kernel's side, by trying it.
unshare --mount --pid --uts --ipc --net --fork true 2> /dev/null ||
  die "this machine does not let root make namespaces (a container without privileges?)"
[ -e /sys/fs/cgroup/cgroup.controllers ] || [ -d /sys/fs/cgroup/memory ] || die "no cgroup file system at /sys/fs/cgroup"

need_packages runc containerd containernetworking-plugins iptables nftables conntrack iproute2 \
  util-linux mount procps openssl ca-certificates curl
need_commands runc containerd ctr nft iptables conntrack ip nsenter unshare setsid openssl sysctl curl flock
[ -x /usr/lib/cni/bridge ] || die "no CNI plugins in /usr/lib/cni (Debian's containernetworking-plugins)"
