# shellcheck shell=bash disable=SC2034
version=v$PULUMI_YAML_VERSION
inputs=(pulumi-yaml)
takes="1 min on 2 cores"

build() {
  need_required pulumi-yaml/go.mod github.com/pulumi/pulumi-yaml "v$PULUMI_YAML_VERSION"
  go_build "$HACK_DIR/pulumi-yaml" "$1/pulumi-language-yaml" github.com/pulumi/pulumi-yaml/cmd/pulumi-language-yaml
}
