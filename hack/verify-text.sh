#!/usr/bin/env bash
# Checks that a checkout works on any machine: no paths of somebody's home or
# work folder, no hosts to pull images from (all images are built here), no left
# merge conflicts. And that the scripts are at least well-formed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
status=0

complain() {
  printf '%s\n' "$1" >&2
  status=1
}

# Tracked files and new ones, without those that are ignored; outside of a git
# checkout (a source archive) all of them.
list_files() {
  if git rev-parse --is-inside-work-tree > /dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard
  else
    find . -type f -print | sed 's,^\./,,'
  fi | LC_ALL=C sort -u
}

search() { # WHAT EXCLUDED_FILES ALLOWED_LINES GREP_ARGUMENT...
  local what=$1 excluded=$2 allowed=$3 hits
  shift 3
  hits=$(list_files | grep -Ev "$excluded" | tr '\n' '\0' | xargs -0 -r grep -InH "$@" 2> /dev/null | grep -Ev "$allowed" || true)
  [ -z "$hits" ] || complain "$what:"$'\n'"$hits"
}

# Module sums are random text; testdata holds foreign text; this file holds the patterns.
not_ours='(^|/)(go\.sum|testdata/.*|LICENSE)$|^hack/verify-text\.sh$'
nothing='^$'

# The user in our own workspace image is called pulumi; tests make paths up.
search 'an absolute path of one machine' "$not_ours|_test\\.go\$" '/home/pulumi' \
  -E '(^|[^A-Za-z0-9_./~-])(/home/[a-z]|/Users/[A-Za-z]|/root/[A-Za-z.]|C:\\Users)'
# The place of this very checkout, if it is more than a folder of the root.
case $PWD in
  /*/*) search 'the path of this checkout' "$not_ours" "$nothing" -F "$PWD/" ;;
esac
# A Dockerfile, for those who have a registry, must name what it starts from; and
# Pulumi's own image is what workspaces of a real installation run by default.
search 'a registry host' "$not_ours|Dockerfile\$" 'docker\.io/pulumi/pulumi' \
  -E '(docker\.io|gcr\.io|ghcr\.io|quay\.io|registry\.k8s\.io|mcr\.microsoft\.com|public\.ecr\.aws|[a-z0-9-]+\.pkg\.dev|\.dkr\.ecr\.)'
search 'a left merge conflict' "$not_ours" "$nothing" -E '^(<<<<<<<|>>>>>>>) '

while IFS= read -r script; do
  [ -f "$script" ] || continue
  case $script in
    *.sh) ;;
    *) head -c 64 "$script" | head -n 1 | grep -Eq '^#!.*[/ ](ba)?sh' || continue ;;
  esac
  bash -n "$script" || complain "$script: does not parse"
done < <(list_files)

# Where it is installed, this one finds more than bash -n.
if command -v shellcheck > /dev/null; then
  list_files | grep '\.sh$' | grep -Ev "$not_ours" | while IFS= read -r script; do [ ! -f "$script" ] || printf '%s\0' "$script"; done |
    xargs -0 -r shellcheck --severity=warning --exclude=SC1090,SC1091 || complain 'shellcheck has complaints'
fi
exit $status
