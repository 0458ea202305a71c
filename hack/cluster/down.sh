#!/usr/bin/env bash
# Ends the test cluster and removes all that it made: processes, mounts,
# network, cgroups, changed sysctls and state. The cache of builds stays.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"

main() {
  need_linux_root "the test cluster"
  [ "${1:-}" = --locked ] || lock_cluster # up.sh holds the lock when it calls
  if [ ! -e "$STATE_DIR" ]; then
    say "no cluster is there"
    return
  fi
  local began=$SECONDS
  end_processes
  remove_network
  remove_cgroups
  restore_host
  rm -rf --one-file-system "$STATE_DIR"
  say "the cluster is gone after $((SECONDS - began)) s"
}

# The kernel ends a PID namespace, and with it its mounts, when its process 1 ends.
end_processes() {
  local parent init
  parent=$(node_parent)
  [ -n "$parent" ] || return 0
  init=$(node_init)
  kill -KILL "$parent" 2> /dev/null || true
  wait_until 30 test ! -d "/proc/${init:-$parent}" || die "process ${init:-$parent} does not end"
}

remove_network() {
  [ -e "$STATE_DIR/network.made" ] || return 0
  ip link del "$CLUSTER" 2> /dev/null || true # takes the routes along
  ip netns del "$CLUSTER" 2> /dev/null || true
}

remove_cgroups() {
  [ -e "$STATE_DIR/node.pid" ] || return 0
  wait_until 10 try_remove_cgroups || say "some cgroups named kubepods could not be removed"
}

# The last processes of a cgroup can take a moment to be gone.
try_remove_cgroups() {
  [ -e "$STATE_DIR/node.pid" ] || return 0
  find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + || true
  [ -z "$(find /sys/fs/cgroup -maxdepth 3 -type d -name kubepods)" ]
}

restore_host() {
  local setting path
  if [ -r "$STATE_DIR/sysctls.saved" ]; then
    while read -r setting; do
      sysctl -qw "$setting" || say "could not set $setting"
    done < "$STATE_DIR/sysctls.saved"
  fi
  [ -r "$STATE_DIR/paths.made" ] || return 0
  while read -r path; do
    [ -d "$path" ] || continue
    # Only if it is empty: somebody may use it by now.
    if mountpoint -q "$path" && [ -z "$(ls -A "$path")" ]; then umount "$path" || true; fi
    rmdir "$path" 2> /dev/null || true
  done < "$STATE_DIR/paths.made"
}

main "$@"
