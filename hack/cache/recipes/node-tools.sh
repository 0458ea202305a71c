# shellcheck shell=bash disable=SC2034
# pause (every pod's sandbox process) and nettest (for the cluster's self-check).
version=v1
inputs=(node-tools)
takes="10 s"

build() {
  go_build "$HACK_DIR/node-tools" "$1/pause" ./pause
  go_build "$HACK_DIR/node-tools" "$1/nettest" ./nettest
}
