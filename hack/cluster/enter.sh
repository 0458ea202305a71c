#!/usr/bin/env bash
# Runs a command on the node, or a shell: hack/cluster/enter.sh [COMMAND...]
#
#   hack/cluster/enter.sh ctr -n k8s.io images list
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"
need_linux_root "entering the node"
[ $# -gt 0 ] || set -- bash
on_node "$@"
