# shellcheck shell=bash disable=SC2034
# The versions that the test bed is made of. Each Go part is pinned in the
# go.mod of its folder; the two must agree, and the recipes check that they do.

KUBERNETES_VERSION=v1.37.2
COREDNS_VERSION=v1.14.6
PULUMI_VERSION=3.276.0
PULUMI_YAML_VERSION=1.25.0
PULUMI_KUBERNETES_VERSION=4.24.1
PULUMI_FILES_VERSION=0.1.0 # tests/provider-files
DEBIAN_SUITE=bookworm
