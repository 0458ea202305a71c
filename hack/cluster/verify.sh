#!/usr/bin/env bash
# Checks that the test cluster does what a real one does; one line per check.
# It works in a namespace of its own, which it removes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/lib.sh"

NAMESPACE=cluster-verify
passed=0
failed=0

main() {
  need_linux_root "the test cluster"
  [ -n "$(node_parent)" ] || die "no cluster is running: start it with 'make cluster-up'"
  KUBERNETES_BIN=$("$HACK_DIR/cache/ensure.sh" kubernetes)
  trap 'k delete namespace "$NAMESPACE" --ignore-not-found --wait=false > /dev/null' EXIT
  k delete namespace "$NAMESPACE" --ignore-not-found --wait > /dev/null
  k apply -f "$here/verify.yaml" > /dev/null

  check "a restricted pod gets ready" k -n "$NAMESPACE" rollout status deployment/web --timeout=60s
  check "its process has the asked uid" prints uid=1000 k -n "$NAMESPACE" exec deploy/web -- /nettest id
  check "its root file system is read-only" prints "read-only file system" k -n "$NAMESPACE" exec deploy/web -- /nettest write /file text
  check "exec hands on the exit code" returns 7 k -n "$NAMESPACE" exec deploy/web -- /nettest exit 7
  check "logs" prints Listening k -n "$NAMESPACE" logs deploy/web
  check "a Service's name works in a pod" prints host=web- k -n "$NAMESPACE" exec deploy/web -- /nettest get "http://web.$NAMESPACE.svc.cluster.local:8080/"
  check "a Service's address works on the host" prints host=web- curl -sm5 "http://$(k -n "$NAMESPACE" get service web -o jsonpath='{.spec.clusterIP}'):8080/"
  check "port-forward" forwards
  check "the service account may what its role says" prints status=200 k -n "$NAMESPACE" exec deploy/web -- /nettest apiserver "/api/v1/namespaces/$NAMESPACE/pods"
  check "and nothing else" prints status=403 k -n "$NAMESPACE" exec deploy/web -- /nettest apiserver /api/v1/namespaces/kube-system/secrets
  check "the default class binds a claim" k -n "$NAMESPACE" wait pvc/data --for=jsonpath='{.status.phase}'=Bound --timeout=30s
  check "a non-root pod writes to the volume" k -n "$NAMESPACE" wait job/writer --for=condition=Complete --timeout=30s
  check "another pod reads it" prints kept k -n "$NAMESPACE" exec deploy/web -- /nettest cat /data/file
  check "the memory limit holds" k -n "$NAMESPACE" wait pod -l job-name=hungry --for=jsonpath='{.status.containerStatuses[0].state.terminated.reason}'=OOMKilled --timeout=30s
  check "a deleted pod comes back" comes_back
  check "Pod Security refuses a privileged pod" prints "violates PodSecurity" k -n "$NAMESPACE" run root --image=localhost/plangate/nettest:dev --privileged
  check "the namespace can be deleted" k delete namespace "$NAMESPACE" --wait --timeout=60s

  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}

check() { # DESCRIPTION COMMAND...
  local description=$1 output
  shift
  if output=$("$@" 2>&1); then
    passed=$((passed + 1))
    echo "ok    $description"
  else
    failed=$((failed + 1))
    printf 'FAIL  %s\n      %s\n' "$description" "${output:0:600}"
  fi
}

k() { "$KUBERNETES_BIN/kubectl" --kubeconfig "$CLUSTER_KUBECONFIG" "$@"; }

prints() { # WORD COMMAND...
  local word=$1 output
  shift
  output=$("$@" 2>&1) || true
  echo "$output"
  grep -q -- "$word" <<< "$output"
}

returns() { # CODE COMMAND...
  local want=$1 got=0
  shift
  "$@" || got=$?
  [ "$got" = "$want" ]
}

forwards() {
  local log pid status=0
  log=$(mktemp)
  k -n "$NAMESPACE" port-forward --address 127.0.0.1 deploy/web :8080 > "$log" 2>&1 &
  pid=$!
  wait_until 10 grep -q Forwarding "$log" &&
    prints host=web- curl -sm5 "http://$(sed -n 's/^Forwarding from \([0-9.:]*\) .*/\1/p' "$log")/" || status=1
  kill "$pid"
  wait "$pid" 2> /dev/null || true
  rm -f "$log"
  return "$status"
}

comes_back() {
  local before after
  before=$(k -n "$NAMESPACE" get pod -l app=web -o jsonpath='{.items[0].metadata.uid}')
  k -n "$NAMESPACE" delete pod -l app=web --wait
  k -n "$NAMESPACE" rollout status deployment/web --timeout=60s
  after=$(k -n "$NAMESPACE" get pod -l app=web -o jsonpath='{.items[0].metadata.uid}')
  [ -n "$after" ] && [ "$before" != "$after" ]
}

main
