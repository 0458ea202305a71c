# shellcheck shell=bash disable=SC2034
version=$COREDNS_VERSION
inputs=(coredns)
takes="2 min, 20 s after kubernetes"

build() {
  need_required coredns/go.mod github.com/coredns/coredns "$COREDNS_VERSION"
  go_build "$HACK_DIR/coredns" "$1/coredns" .
}
