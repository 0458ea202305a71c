#!/usr/bin/env bash
# Builds what is missing in the cache and prints one folder per name.
#
#   hack/cache/ensure.sh NAME...
#   hack/cache/ensure.sh --list        the names there are
#   hack/cache/ensure.sh --if-built NAME...   print only what is there; build nothing
#
# A name is a file in recipes/, which says:
#
#   version   a word for the folder's name
#   inputs    files and folders, relative to hack/, that the result depends on
#   takes     how long it usually takes
#   build     a function that writes everything into the folder $1
#
# An entry's folder ends with a digest of the recipe, its inputs and the Go
# version. So entries never change, and old ones can stay until `make cache-clean`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/../versions.sh"

digest_of() { # FILE... (the recipe and inputs, relative to hack/)
  {
    go env GOVERSION GOARCH
    declare -f go_build
    printf '%s\n' "$version"
    (cd "$HACK_DIR" && find "$@" -type f ! -name '*_test.go' | LC_ALL=C sort | xargs sha256sum)
  } | sha256sum | cut -c1-12
}

# The version in a go.mod must be the one that versions.sh promises.
need_required() { # GO_MOD MODULE VERSION
  grep -Eq "^(require )?[[:space:]]*$2 $3( |\$)" "$HACK_DIR/$1" ||
    die "hack/$1 does not require $2 $3, as hack/versions.sh says"
}

ensure() { # NAME
  local name=$1 recipe=$here/recipes/$1.sh version='' takes='' inputs=()
  [ -f "$recipe" ] || die "unknown name '$name'; known: $(list | tr '\n' ' ')"
  # shellcheck disable=SC1090
  . "$recipe"
  local entry
  entry=$CACHE_DIR/$name-$version-$(digest_of "cache/recipes/$name.sh" "${inputs[@]}")
  if [ ! -d "$entry" ] && [ -n "$if_built" ]; then return 0; fi
  [ -d "$entry" ] || make_entry "$entry"
  printf '%s\n' "$entry"
}

# Builds beside the entry and renames, so that an entry is whole or absent.
make_entry() { # ENTRY
  local entry=$1 lock temp
  mkdir -p "$CACHE_DIR"
  exec {lock}> "$CACHE_DIR/.lock-$name"
  flock -n "$lock" || {
    say "waiting for another process that builds $name"
    flock "$lock"
  }
  if [ ! -d "$entry" ]; then
    say "building $name $version (once; usually $takes)"
    temp=$(mktemp -d "$CACHE_DIR/.build-$name.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf '$temp'" EXIT
    local began=$SECONDS
    build "$temp" >&2
    chmod 755 "$temp"
    mv -T "$temp" "$entry"
    trap - EXIT
    say "built $name $version in $((SECONDS - began)) s"
  fi
  exec {lock}>&-
}

list() { (cd "$here/recipes" && printf '%s\n' *.sh | sed 's/\.sh$//'); }

if_built=
case ${1:-} in
  --list)
    list
    exit
    ;;
  --if-built)
    if_built=1
    shift
    ;;
  '') die "usage: ensure.sh [--if-built] NAME... | --list" ;;
esac
need_commands go flock sha256sum
for name in "$@"; do
  # A recipe is read in a subshell, so that it cannot see another's names; and
  # not within `if` or `||`, where `set -e` would not hold in its build.
  (ensure "$name")
done
