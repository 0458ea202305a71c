#!/usr/bin/env bash
# Builds images and imports into the running cluster those that changed.
#
#   hack/images/load.sh [--if-built] [NAME...]      as for build.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/../cluster/lib.sh"

need_linux_root "loading images into the test cluster"
[ -n "$(node_init)" ] || die "the cluster is not running: start it with 'make cluster-up'"
mkdir -p "$STATE_DIR/images"
exec 8> "$STATE_DIR/.lock-images"
flock -w 600 8 || die "waited 10 min for another process that loads images"

tars=$("$here/build.sh" "$@" 8>&-)
while IFS= read -r tar; do
  [ -n "$tar" ] || continue
  file=$(basename "$tar" .tar)
  # The folder holds one file per imported image, named as its tar file.
  [ ! -e "$STATE_DIR/images/$file" ] || continue
  began=$(date +%s%N)
  on_node ctr -a "$CONTAINERD_SOCKET" -n k8s.io images import "$tar" >> "$LOG_DIR/import.log" 2>&1 < /dev/null 8>&- ||
    die "importing $tar: $(tail -n 2 "$LOG_DIR/import.log")"
  find "$STATE_DIR/images" -name "${file%-*}-*" -delete
  touch "$STATE_DIR/images/$file"
  say "imported localhost/plangate/${file%-*}:dev in $((($(date +%s%N) - began) / 1000000)) ms"
done <<< "$tars"
