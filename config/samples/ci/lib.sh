# shellcheck shell=sh disable=SC2034
# What the scripts that sign a plan share. They need sh, kubectl and the usual
# small tools (awk, base64, sha256sum or openssl); each says what else.
#
#   sign-….sh [-n NAMESPACE] [-s SLOT] [-k KEY] [-r] PLAN
#
#   PLAN          the name of the UpdatePlan
#   -n NAMESPACE  its namespace; default: that of the kubectl context
#   -s SLOT       the name that tells this signature from others; default: "ci"
#   -k KEY        the file of the private key; default: $PLANGATE_KEY
#   -r            reject the plan instead of approving it
#
# PLANGATE_CHECK is a command that gets the statement on its standard input; the
# plan is signed only if it ends well. Without one, whatever was planned is signed:
#
#   export PLANGATE_CHECK='grep -qF "\"revision\":\"$GITHUB_SHA\""'

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

need() { # COMMAND...
  for command in "$@"; do
    command -v "$command" > /dev/null || die "'$command' is needed, but was not found in PATH"
  done
}

# Sets plan, slot, key and verdict, and makes the folder $work.
begin() { # ARGUMENT...
  slot=ci key=${PLANGATE_KEY:-} verdict=approve namespace=''
  while getopts n:s:k:r option; do
    case $option in
      n) namespace=$OPTARG ;;
      s) slot=$OPTARG ;;
      k) key=$OPTARG ;;
      r) verdict=reject ;;
      *) die "usage: $0 [-n NAMESPACE] [-s SLOT] [-k KEY] [-r] PLAN" ;;
    esac
  done
  shift $((OPTIND - 1))
  [ $# = 1 ] || die "usage: $0 [-n NAMESPACE] [-s SLOT] [-k KEY] [-r] PLAN"
  plan=$1
  case $plan in '' | -*) die "'$plan' is no name of an UpdatePlan" ;; esac
  need kubectl awk base64
  umask 077
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
}

# kubectl with the plan's namespace, if one was given.
kube() { # ARGUMENT...
  if [ -n "$namespace" ]; then kubectl --namespace "$namespace" "$@"; else kubectl "$@"; fi
}

sha256() { # FILE
  if command -v sha256sum > /dev/null; then
    sha256sum < "$1" | awk '{ print $1 }'
  else
    need openssl
    openssl dgst -sha256 -r < "$1" | awk '{ print $1 }'
  fi
}

# Writes the bytes to sign to $work/statement, sets digest, and shows what will be signed.
fetch() {
  kube get updateplan "$plan" -o 'jsonpath={.spec.statement}' > "$work/statement"
  [ -s "$work/statement" ] || die "UpdatePlan '$plan' has no statement"
  digest=$(kube get updateplan "$plan" -o 'jsonpath={.spec.digest}')
  [ "sha256:$(sha256 "$work/statement")" = "$digest" ] ||
    die "UpdatePlan '$plan' is not what it says: its statement's digest is sha256:$(sha256 "$work/statement"), not $digest"
  # What counts are these bytes: they are shown, and not fields beside them.
  {
    printf 'To %s: UpdatePlan %s, %s\n' "$verdict" "$plan" "$digest"
    awk '{ gsub(/,"/, ",\n  \""); gsub(/{"/, "{\n  \""); print }' "$work/statement"
  } >&2
  if [ -n "${PLANGATE_CHECK:-}" ]; then
    sh -c "$PLANGATE_CHECK" < "$work/statement" >&2 || die "not signed: PLANGATE_CHECK refuses the plan"
  fi
}

# Puts the signature on the plan. A slot is written once.
deliver() { # VALUE
  [ "$(printf '%s' "$1" | wc -c)" -le 16384 ] || die "the signature has more than 16384 bytes, and would not be read"
  kube annotate updateplan "$plan" "signature.plangate.dev/$slot=$1" >&2 ||
    die "could not annotate UpdatePlan '$plan'; if the slot '$slot' is taken, name another with -s"
  printf 'Signed, to %s. What counts: kubectl describe updateplan %s\n' "$verdict" "$plan" >&2
}
