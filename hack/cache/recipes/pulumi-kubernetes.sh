# shellcheck shell=bash disable=SC2034
# Pulumi's Kubernetes provider. Its module lacks two files that upstream
# generates before a build: `embed` makes them, and an overlay puts them in.
version=v$PULUMI_KUBERNETES_VERSION
inputs=(pulumi-kubernetes)
takes="8 min on 2 cores"

build() {
  local module=github.com/pulumi/pulumi-kubernetes/provider/v4 generated source
  cd "$HACK_DIR/pulumi-kubernetes" || return
  go mod download "$module"
  source=$(go list -m -f '{{.Dir}}' "$module")
  generated=$1/.generated
  mkdir "$generated"
  go run ./embed "$source" "$PULUMI_KUBERNETES_VERSION" "$generated"
  go_build . "$1/pulumi-resource-kubernetes" "$module/cmd/pulumi-resource-kubernetes" \
    "-X $module/pkg/version.Version=v$PULUMI_KUBERNETES_VERSION" -overlay "$generated/overlay.json"
  rm -rf "$generated"
}
