#!/usr/bin/env bash
# Removes every cache entry and image; refuses while the cluster runs from them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/../cluster/lib.sh"
[ -z "$(node_parent)" ] || die "the cluster is running from the cache: run 'make cluster-down' first"
say "removing $CACHE_DIR"
# A mount that is left in there is not ours to empty.
rm -rf --one-file-system "$CACHE_DIR"
