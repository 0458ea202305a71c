#!/usr/bin/env bash
# Prints the folders of the given names, joined as in PATH; builds what is missing.
#
#   PATH="$(hack/cache/path.sh pulumi pulumi-language-yaml):$PATH" pulumi version
#   KUBEBUILDER_ASSETS="$(hack/cache/path.sh kubernetes)" go test ./tests/envtest/...
set -euo pipefail
dirs=$("$(dirname "${BASH_SOURCE[0]}")/ensure.sh" "$@")
paste -sd: <<< "$dirs"
