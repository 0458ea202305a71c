#!/usr/bin/env bash
# Builds container images as tar files in the cache, with no container engine,
# and prints one tar file per image.
#
#   hack/images/build.sh [--if-built] [NAME...]
#
# Names are in the list below; with none, all that the checkout has sources for.
# With --if-built it builds nothing and prints the tar files that are there.
#
# A tar file's name ends with a digest of what is in the image. One is kept per
# image; layers that images share are files of the cache.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/../versions.sh"
IMAGES_DIR=$CACHE_DIR/images

# pause, coredns and nettest are the node's own; the others are the product's.
ALL=(pause coredns nettest manager workspace gitserver)

CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt
PLUGINS=/home/pulumi/.pulumi/plugins

# Each describe_NAME sets what the image consists of, as arguments of mkimage.
# Files must be in the cache or in $work, where their digest is taken.

describe_pause() {
  entries node-tools
  args=(-user 65535:65535 -entrypoint /pause -add "${entry[0]}/pause=/pause")
}

describe_coredns() {
  entries coredns
  args=(-entrypoint /coredns -add "${entry[0]}/coredns=/coredns")
}

describe_nettest() {
  entries node-tools
  args=(-user 1000:1000 -entrypoint /nettest -add "${entry[0]}/nettest=/nettest" -dir /tmp=1777)
}

# As manager.Dockerfile, but for the base image.
describe_manager() {
  go_build "$REPO_DIR" "$work/manager" ./cmd/manager
  go_build "$REPO_DIR" "$work/agent" ./cmd/agent
  install -m 644 "$CA_BUNDLE" "$work/ca-certificates.crt"
  args=(-user 65532:65532 -workdir / -entrypoint /manager
    -text $'/etc/passwd=root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n'
    -text $'/etc/group=root:x:0:\nnonroot:x:65532:\n'
    -dir /tmp=1777
    -add "$work/ca-certificates.crt=$CA_BUNDLE"
    -new-layer -add "$work/agent=/agent"
    -new-layer -add "$work/manager=/manager")
}

# As workspace.Dockerfile, but for the base image. What changes least comes first.
describe_workspace() {
  entries workspace-rootfs pulumi pulumi-language-yaml pulumi-kubernetes
  build_file_provider "$work/pulumi-resource-files"
  args=(-user 1000:1000 -workdir /home/pulumi -env HOME=/home/pulumi -env USER=pulumi
    -env PULUMI_SKIP_UPDATE_CHECK=true -env PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true
    -cmd /bin/bash
    -layer "${entry[0]}/layer.tar"
    -add "${entry[1]}/pulumi=/usr/local/bin/pulumi"
    -add "${entry[2]}/pulumi-language-yaml=/usr/local/bin/pulumi-language-yaml"
    -new-layer -owner 1000:1000
    -add "${entry[3]}/pulumi-resource-kubernetes=$PLUGINS/resource-kubernetes-v$PULUMI_KUBERNETES_VERSION/pulumi-resource-kubernetes"
    -new-layer
    -add "$work/pulumi-resource-files=$PLUGINS/resource-files-v$PULUMI_FILES_VERSION/pulumi-resource-files")
}

describe_gitserver() {
  entries workspace-rootfs
  go_build "$REPO_DIR" "$work/gitserver" ./tests/gitserver
  args=(-user 1000:1000 -workdir / -entrypoint /usr/local/bin/gitserver
    -layer "${entry[0]}/layer.tar"
    -add "$work/gitserver=/usr/local/bin/gitserver")
}

# The test provider is a module of its own, or a package of the main one.
build_file_provider() { # OUTPUT
  go_build "$REPO_DIR/tests/provider-files" "$1" .
}

# What the checkout must have before an image can be built.
sources_of() { # NAME
  case $1 in
    manager) echo cmd/manager cmd/agent ;;
    workspace) echo tests/provider-files ;;
    gitserver) echo tests/gitserver ;;
  esac
}

has_sources() { # NAME
  local dir
  for dir in $(sources_of "$1"); do
    compgen -G "$REPO_DIR/$dir/*.go" > /dev/null || return 1
  done
}

entries() { # CACHE_NAME...
  local dirs
  dirs=$("$HACK_DIR/cache/ensure.sh" "$@")
  mapfile -t entry <<< "$dirs"
}

build() { # NAME
  local name=$1 key tar mkimage entry=() args=()
  work=$(mktemp -d "$CACHE_DIR/.image-$name.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  mkimage=$("$HACK_DIR/cache/ensure.sh" mkimage)
  "describe_$name"
  key=$({
    echo "$mkimage"
    printf '%s\n' "${args[@]//"$work"/}" # paths in the cache stand for their contents
    find "$work" -type f | LC_ALL=C sort | while read -r file; do sha256sum < "$file"; done
  } | sha256sum | cut -c1-12)
  tar=$IMAGES_DIR/$name-$key.tar
  if [ ! -e "$tar" ]; then
    say "writing image localhost/plangate/$name:dev"
    "$mkimage/mkimage" -tag "localhost/plangate/$name:dev" -o "$tar" "${args[@]}"
    find "$IMAGES_DIR" -name "$name-*.tar" ! -name "$name-$key.tar" -delete
  fi
  printf '%s\n' "$tar"
}

if_built=
if [ "${1:-}" = --if-built ]; then
  if_built=1
  shift
fi
names=("$@")
if [ $# = 0 ]; then
  for name in "${ALL[@]}"; do
    if [ -n "$if_built" ] || has_sources "$name"; then names+=("$name"); else say "no image $name: no Go files in $(sources_of "$name")"; fi
  done
fi
mkdir -p "$IMAGES_DIR"
for name in "${names[@]}"; do
  declare -F "describe_$name" > /dev/null || die "unknown image '$name'; known: ${ALL[*]}"
  if [ -n "$if_built" ]; then
    find "$IMAGES_DIR" -name "$name-*.tar"
    continue
  fi
  has_sources "$name" || die "no image $name: no Go files in $(sources_of "$name")"
  (build "$name")
done
