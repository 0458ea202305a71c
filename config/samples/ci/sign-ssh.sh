#!/bin/sh
# Approves (or with -r rejects) a plan with an SSH key, for example a deploy key.
# Needs ssh-keygen of OpenSSH 8.0 or newer. See lib.sh for the arguments.
#
# The public key goes into the policy: spec.signers[].ssh
set -eu
. "$(dirname "$0")/lib.sh"

begin "$@"
need ssh-keygen
[ -f "$key" ] || die "the private key is missing: -k FILE or PLANGATE_KEY"
fetch
# The namespace is signed too: a signature of a commit (namespace "git") is no approval.
case $verdict in
  approve) purpose=plangate.dev ;;
  reject) purpose=plangate.dev/reject ;;
esac
# ssh-keygen takes no key that others may read, which is how CI systems often lay them down.
cp "$key" "$work/key"
ssh-keygen -q -Y sign -f "$work/key" -n "$purpose" "$work/statement" < /dev/null
deliver "$(cat "$work/statement.sig")"
