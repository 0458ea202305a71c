#!/usr/bin/env bash
# Tells the main story on a real cluster: a change waits as an UpdatePlan, is approved, and exactly that is applied.
#
# It prints each command that a person would type, and its real output, and ends with an error if a step does not show
# what it should. Without KUBECONFIG it brings up the test cluster (Linux, root) and builds all it needs.
#
#   DEMO_IMAGE   what the program's Deployment runs; in a cluster of your own, an image that it can pull
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../lib.sh"
. "$here/../deploy/lib.sh"
NAMESPACE=plangate-demo
began=$SECONDS

# --- how the story is told ---------------------------------------------------------------------------------------------

chapter() { printf '\n\033[1m── %s\033[0m\n' "$*"; }
tell() { printf '\033[2m   %s\033[0m\n' "$*"; }

# Prints a command as it would be typed, and runs it.
run() {
  printf '\n\033[1m$ %s\033[0m\n' "$*"
  eval "$*"
}

# Prints a command that must be refused, and what it is refused with, which must have some words in it.
refuse() { # WORDS COMMAND
  printf '\n\033[1m$ %s\033[0m\n' "$2"
  local said
  ! said=$(eval "$2" 2>&1) || die "the demo failed: this should be refused: $2"
  printf '%s\n' "$said"
  grep -qF -- "$1" <<< "$said" || die "the demo failed: the refusal does not say '$1'"
  printf '\033[32m   ✓ refused\033[0m\n'
}

# Fails the demo unless what was seen is what should be.
expect() { # WHAT WANT GOT
  [ "$2" = "$3" ] || die "the demo failed: $1 should be '$2', and is '$3'"
  printf '\033[32m   ✓ %s: %s\033[0m\n' "$1" "$3"
}

# Waits until a command prints something else than nothing, and leaves it in $seen. It says what it waits for.
await() { # WHAT SECONDS COMMAND...
  local what=$1 limit=$2 start=$SECONDS told=
  shift 2
  while true; do
    seen=$("$@" 2> /dev/null || true)
    [ -z "$seen" ] || break
    ((SECONDS - start < limit)) || failed_waiting "$what" "$limit"
    if [ -z "$told" ] && ((SECONDS - start >= 2)); then
      tell "waiting for $what …"
      told=1
    fi
    sleep 0.2
  done
  [ -z "$told" ] || tell "$what: after $((SECONDS - start)) s"
}

failed_waiting() { # WHAT SECONDS
  k get stacks,updateplans,workspaces,pods -o wide >&2 || true
  k describe stack web >&2 || true
  k -n "$MANAGER_NAMESPACE" logs "deployment/$MANAGER" --tail=20 >&2 || true
  die "the demo failed: waited $2 s for $1"
}

k() { "$KUBECTL" -n "$NAMESPACE" "$@"; }
plan_of_stack() { k get stack web -o 'jsonpath={.status.currentPlan.name}'; }
other_plan() { plan_of_stack | grep -vx -- "$1"; }
plan_status() { k get updateplan "$1" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].reason}'; }
plan_is() { plan_status "$1" | grep -x -- "$2"; }
pod_uid() { k get workspace web -o 'jsonpath={.status.pod.uid}'; }
# The command that the plan prints, as somebody would type it who is logged in as a user.
command_as() { k get updateplan "$plan" -o "jsonpath={.status.$2}" | sed "s/^kubectl /kubectl --as=$1 /"; }

# --- the stage ---------------------------------------------------------------------------------------------------------

prepare() {
  chapter "A cluster with Plangate in it"
  if [ -z "${KUBECONFIG:-}" ]; then
    tell "no KUBECONFIG: bringing up the one-node test cluster"
    eval "$("$HACK_DIR/cluster/up.sh")"
  fi
  "$HACK_DIR/deploy/deploy.sh"
  choose_cluster
  # What people type is kubectl; in the test cluster it is the cluster's own.
  kubectl() { "$KUBECTL" "$@"; }
  image=${DEMO_IMAGE:-localhost/plangate/pause:dev}
  [ -n "$test_cluster" ] || [ -n "${DEMO_IMAGE:-}" ] || die "set DEMO_IMAGE to an image that your cluster can pull, for example a pause image"
  run "kubectl -n $MANAGER_NAMESPACE get pods"
  clean_up
}

# Takes away what an earlier run left. The Stack goes first, while everything that it needs is there.
clean_up() {
  "$KUBECTL" get namespace "$NAMESPACE" > /dev/null 2>&1 || return 0
  tell "removing what an earlier demo left …"
  k delete stacks --all --wait --timeout=60s > /dev/null
  "$KUBECTL" delete namespace "$NAMESPACE" plangate-demo-git --wait --timeout=120s --ignore-not-found > /dev/null
}

push_program() {
  chapter "A git repository with a Pulumi program"
  "$KUBECTL" apply -f "$HACK_DIR/manifests/gitserver.yaml" > /dev/null
  "$KUBECTL" -n plangate-demo-git rollout status deployment/gitserver --timeout=90s > /dev/null
  work=$(mktemp -d)
  "$KUBECTL" -n plangate-demo-git port-forward service/gitserver :8080 > "$work/forward" 2>&1 &
  forward=$!
  trap 'kill "$forward" 2> /dev/null || true; rm -rf "$work"' EXIT
  await "a way to the git server" 20 sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' "$work/forward"
  remote=http://127.0.0.1:$seen/demo.git
  git init -q -b main "$work/demo"
  cp "$here"/program/* "$work/demo"
  cd "$work/demo"
  git config user.name "Dana Developer"
  git config user.email dana@example.com
  run "git add . && git commit -qm 'A Deployment and its settings' && git push -q $remote main"
  run "cat Pulumi.yaml"
}

# --- the story ---------------------------------------------------------------------------------------------------------

first_plan() {
  chapter "A Stack, and its first plan"
  run "kubectl apply -f hack/demo/setup.yaml"
  sed "s#localhost/plangate/pause:dev#$image#" "$here/stack.yaml" > "$work/stack.yaml"
  printf '\n\033[1m$ kubectl --as=dana@example.com apply -f hack/demo/stack.yaml\033[0m\n'
  cat "$work/stack.yaml"
  k --as=dana@example.com apply -f "$work/stack.yaml"
  await "the first UpdatePlan" 90 plan_of_stack
  plan=$seen
  await "what the operator says of it" 20 plan_is "$plan" WaitingForApproval
  run "kubectl -n $NAMESPACE get stacks,updateplans,workspaces"
  run "kubectl -n $NAMESPACE describe updateplan $plan"
  tell "Nothing has happened yet:"
  run "kubectl -n $NAMESPACE get deployments"
  expect "Deployments before the approval" 0 "$(k get deployments -o name | wc -l)"
}

approve_first() {
  chapter "Who made the change cannot approve it"
  refuse "cannot patch resource" "$(command_as dana@example.com howToApprove)"
  chapter "Somebody else approves exactly this plan"
  run "$(command_as alice@example.com howToApprove)"
  await "the apply to end" 90 plan_is "$plan" Applied
  run "kubectl -n $NAMESPACE get updateplan $plan"
  run "kubectl -n $NAMESPACE get updateplan $plan -o jsonpath='{range .status.decisions[*]}{.verdict} by {.by} at {.observedAt}{\"\\n\"}{end}'"
  run "kubectl -n $NAMESPACE get configmap web-settings -o jsonpath='{.data}{\"\\n\"}'"
  expect "the greeting in the cluster" "hello from git" "$(k get configmap web-settings -o 'jsonpath={.data.greeting}')"
  await "the Deployment's pod" 60 k get deployment web -o 'jsonpath={.status.readyReplicas}'
  run "kubectl -n $NAMESPACE get deployment web"
  run "kubectl -n $NAMESPACE get stack web -o jsonpath='{.status.outputs}{\"\\n\"}'"
}

change_config() {
  chapter "A change of configuration: a new plan, in the same pod"
  pod=$(pod_uid)
  run "kubectl --as=dana@example.com -n $NAMESPACE patch stack web --type=merge -p '{\"spec\":{\"config\":{\"demo:greeting\":\"hello from the Stack\"}}}'"
  local start
  start=$(date +%s%N)
  await "the new UpdatePlan" 60 other_plan "$plan"
  plan=$seen
  tell "there after $((($(date +%s%N) - start) / 1000000)) ms"
  await "what the operator says of it" 20 plan_is "$plan" WaitingForApproval
  run "kubectl -n $NAMESPACE get updateplans"
  run "kubectl -n $NAMESPACE get updateplan $plan -o jsonpath='{range .status.diff[*]}{@}{\"\\n\"}{end}'"
  expect "the workspace pod" "$pod" "$(pod_uid)"
}

refuse_and_reject() {
  chapter "A wrong digest is refused, and said"
  refuse "what is said must be exactly" "kubectl --as=alice@example.com -n $NAMESPACE annotate updateplan $plan plangate.dev/approve=sha256:$(printf '0%.0s' $(seq 64))"
  expect "the plan's status" WaitingForApproval "$(plan_status "$plan")"
  expect "the greeting in the cluster" "hello from git" "$(k get configmap web-settings -o 'jsonpath={.data.greeting}')"

  chapter "A plan is rejected"
  run "kubectl --as=alice@example.com -n $NAMESPACE annotate updateplan $plan plangate.dev/reject='not on a Friday'"
  await "the end of the plan" 20 plan_is "$plan" Rejected
  run "kubectl -n $NAMESPACE get stacks,updateplans"
  run "kubectl -n $NAMESPACE get events --field-selector involvedObject.kind=UpdatePlan"
  expect "the greeting in the cluster" "hello from git" "$(k get configmap web-settings -o 'jsonpath={.data.greeting}')"
}

end() {
  chapter "That was it, in $((SECONDS - began)) s"
  [ -z "$test_cluster" ] || tell "look around:  export KUBECONFIG=$KUBECONFIG"
  tell "              kubectl -n $NAMESPACE get stacks,updateplans,workspaces"
  tell "              kubectl -n $NAMESPACE describe updateplan $plan"
  tell "ask anew:     kubectl -n $NAMESPACE annotate stack web plangate.dev/request-plan=\"\$(date)\" --overwrite"
  if [ -n "$test_cluster" ]; then
    tell "clean up:     make cluster-down"
  else
    tell "clean up:     kubectl -n $NAMESPACE delete stack web; kubectl delete namespace $NAMESPACE plangate-demo-git; make undeploy"
  fi
}

prepare
push_program
cd "$REPO_DIR"
first_plan
approve_first
change_config
refuse_and_reject
end
