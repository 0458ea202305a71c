# shellcheck shell=bash disable=SC2034
# Pulumi's Kubernetes provider. Upstream tags only its SDK, so hack/pulumi-kubernetes
# requires the provider's module at the pseudo-version of the release.
version=v$PULUMI_KUBERNETES_VERSION
inputs=(pulumi-kubernetes)
takes="8 min on 2 cores"

build() {
  local module=github.com/pulumi/pulumi-kubernetes/provider/v4 dir=$HACK_DIR/pulumi-kubernetes made=$1/.made source
  mkdir "$made"
  source=$(cd "$dir" && go mod download "$module" && go list -m -f '{{.Dir}}' "$module")
  (cd "$dir" && go run ./schema "$source" "$PULUMI_KUBERNETES_VERSION" "$dir/provider" "$made")
  go_build "$dir" "$1/pulumi-resource-kubernetes" ./provider \
    "-X $module/pkg/version.Version=v$PULUMI_KUBERNETES_VERSION" -overlay "$made/overlay.json"
  rm -rf "$made"
}
