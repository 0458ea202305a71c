#!/bin/sh
# Approves (or with -r rejects) a plan with a key in PEM form: Ed25519 (OpenSSL 3),
# ECDSA on P-256, or RSA of at least 2048 bits. Needs openssl. See lib.sh for the
# arguments. Makes a DSSE envelope.
#
# The public key goes into the policy: openssl pkey -in KEY -pubout → spec.signers[].pem
set -eu
. "$(dirname "$0")/lib.sh"

begin "$@"
need openssl
[ -f "$key" ] || die "the private key is missing: -k FILE or PLANGATE_KEY"
fetch
# The type is signed too: it is the verdict.
case $verdict in
  approve) type=application/vnd.in-toto+json ;;
  reject) type=application/vnd.plangate.reject.in-toto+json ;;
esac
size() { wc -c < "$1" | awk '{ print $1 }'; }
{
  printf 'DSSEv1 %d %s %d ' "${#type}" "$type" "$(size "$work/statement")"
  cat "$work/statement"
} > "$work/pae"
kind=$(openssl pkey -in "$key" -noout -text 2> /dev/null | head -n 1) || die "openssl cannot read the private key"
case $kind in
  *ED25519*) openssl pkeyutl -sign -rawin -inkey "$key" -in "$work/pae" -out "$work/sig" ;;
  *) openssl dgst -sha256 -sign "$key" -out "$work/sig" "$work/pae" ;;
esac
encode() { base64 < "$1" | tr -d '\n'; }
payload=$(encode "$work/statement")
# A long statement does not fit beside the signature; without it the plan's own is meant.
[ "${#payload}" -le 14000 ] || payload=''
deliver "$(printf '{"payloadType":"%s","payload":"%s","signatures":[{"keyid":"%s","sig":"%s"}]}' "$type" "$payload" "$slot" "$(encode "$work/sig")")"
