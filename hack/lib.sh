# shellcheck shell=bash disable=SC2034
# What every script of the test bed shares. Sourcing it only defines names.

HACK_DIR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO_DIR=$(dirname "$HACK_DIR")

# Everything that is built or written lives here, never in the checkout.
CACHE_DIR=${PLANGATE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plangate}
# What the running cluster writes, and where its kubeconfig is.
STATE_DIR=$CACHE_DIR/cluster
CLUSTER_KUBECONFIG=$STATE_DIR/kubeconfig

# Progress goes to standard error: standard output is for results.
say() { printf '==> %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

need_commands() { # COMMAND...
  local command
  for command in "$@"; do
    command -v "$command" > /dev/null || die "'$command' is needed, but was not found in PATH"
  done
}

need_linux_root() { # WHAT
  [ "$(uname -s)" = Linux ] || die "$1 needs Linux (this is $(uname -s))"
  [ "$(id -u)" = 0 ] || die "$1 needs root (namespaces, mounts and routes): try it with sudo -E"
}

# Repeats a command until it works; 0.1 s between tries, SECONDS at most.
wait_until() { # SECONDS COMMAND...
  local deadline=$((SECONDS + $1))
  shift
  until ("$@") > /dev/null 2>&1; do # a subshell, for it may exit
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# Installs those of the given Debian packages that are missing.
need_packages() { # PACKAGE...
  local package missing=()
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get > /dev/null || die "missing: ${missing[*]} (and there is no apt-get to install them)"
  [ "$(id -u)" = 0 ] || die "missing Debian packages, and only root can install them: ${missing[*]}"
  say "installing Debian packages: ${missing[*]} (once; usually 20 s)"
  # A source list that cannot be reached is no reason to stop: the install tells.
  apt-get update -q > /dev/null 2>&1 || say "apt-get update had errors; going on with the lists that are there"
  # Installing must not start daemons: ours run in namespaces of their own.
  local log status=0 policy=/usr/sbin/policy-rc.d made_policy=
  log=$(mktemp)
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
    made_policy=1
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends "${missing[@]}" > "$log" 2>&1 < /dev/null || status=$?
  [ -z "$made_policy" ] || rm -f "$policy"
  [ "$status" = 0 ] || tail -20 "$log" >&2
  rm -f "$log"
  [ "$status" = 0 ] || die "could not install: ${missing[*]}"
}

# Builds a main package of the Go module in DIR, for any machine of this
# architecture. The same flags everywhere let all share one build cache.
go_build() { # DIR OUTPUT PACKAGE [LDFLAGS [FLAG...]]
  local dir=$1 output=$2 package=$3 ldflags=${4:-}
  shift $(($# < 4 ? $# : 4))
  (cd "$dir" && CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=readonly \
    go build -trimpath -buildvcs=false -ldflags "-s -w $ldflags" "$@" -o "$output" "$package")
}
