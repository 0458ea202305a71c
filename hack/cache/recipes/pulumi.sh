# shellcheck shell=bash disable=SC2034
version=v$PULUMI_VERSION
inputs=(pulumi)
takes="8 min on 2 cores"

build() {
  need_required pulumi/go.mod github.com/pulumi/pulumi/pkg/v3 "v$PULUMI_VERSION"
  go_build "$HACK_DIR/pulumi" "$1/pulumi" github.com/pulumi/pulumi/pkg/v3/cmd/pulumi \
    "-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v$PULUMI_VERSION"
}
