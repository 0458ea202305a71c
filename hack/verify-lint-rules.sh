#!/usr/bin/env bash
# Proves that the rules about who may import whom bite: a rule whose path or
# prefix is mistyped would pass everything in silence. Writes files that break one
# rule each into a throw-away module with our configuration, and expects each
# complaint; and files that break none, and expects silence.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
lint=$(hack/tools/ensure.sh golangci)/golangci-lint
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp .golangci.yml go.mod go.sum "$work/"
ours=github.com/plangate/plangate

# Something to import from each folder of ours: leaves, so that no file that
# breaks a rule makes a cycle, which would hide the complaint.
for folder in api/v1alpha1 plans plans/policy plans/redact plans/pulumiplan workspace workspace/agent pkg/apply tests/builder; do
  mkdir -p "$work/$folder/leaf"
  { cat hack/boilerplate.go.txt && printf '\n// Package leaf is empty.\npackage leaf\n'; } > "$work/$folder/leaf/leaf.go"
done

expected=()
write() { # FOLDER NAME IMPORT [BODY]
  mkdir -p "$work/$1"
  {
    cat hack/boilerplate.go.txt
    printf '\n// Package %s is an example.\npackage %s\n\n' "$(basename "$1")" "$(basename "$1")"
    [ -z "$3" ] || printf 'import _ "%s" // for its name alone\n' "$3"
    [ -z "${4:-}" ] || printf '%s\n' "$4"
  } > "$work/$1/$2.go"
}
bad() { # FOLDER IMPORT
  write "$1" "bad${#expected[@]}" "$2"
  expected+=("$1/bad${#expected[@]}.go")
}
good() { # FOLDER IMPORT
  good=$((good + 1))
  write "$1" "good$good" "$2"
}
good=0

bad api/v1alpha1 sigs.k8s.io/controller-runtime
bad api/v1alpha1 k8s.io/client-go/rest
bad api/v1alpha1 $ours/plans/leaf
bad plans k8s.io/client-go/rest
bad plans sigs.k8s.io/controller-runtime
bad plans github.com/go-logr/logr
bad plans os
bad plans os/exec
bad plans net
bad plans net/http
bad plans log/slog
bad plans $ours/workspace/leaf
bad plans $ours/pkg/apply/leaf
bad plans $ours/plans/pulumiplan/leaf
bad plans/redact $ours/plans/pulumiplan/leaf
bad plans/redact github.com/pulumi/pulumi/sdk/v3/go/common/apitype
bad plans/redact golang.org/x/crypto/ssh
bad plans/redact github.com/go-jose/go-jose/v4
bad plans/approval/signature net/http
bad plans/approval/signature golang.org/x/crypto/ssh/agent
bad plans/approval/signature $ours/workspace/leaf
bad plans github.com/google/cel-go/cel
bad plans/policy k8s.io/client-go/rest
bad plans/policy os
bad plans/policy $ours/plans/pulumiplan/leaf
bad pkg/apply github.com/google/cel-go/cel
bad plans/pulumiplan k8s.io/client-go/rest
bad plans/pulumiplan $ours/workspace/leaf
bad plans/pulumiplan os
bad workspace sigs.k8s.io/controller-runtime
bad workspace k8s.io/client-go/rest
bad workspace k8s.io/api/core/v1
bad workspace $ours/pkg/apply/leaf
bad workspace/agent $ours/api/v1alpha1/leaf
bad workspace/agent github.com/pulumi/pulumi/pkg/v3/resource/stack
bad pkg/apply github.com/pulumi/pulumi/sdk/v3/go/common/apitype
bad pkg/apply github.com/pulumi/pulumi/pkg/v3/resource/stack
bad pkg/apply $ours/tests/builder/leaf
bad cmd/manager github.com/pulumi/pulumi/sdk/v3/go/common/apitype
bad cmd/manager $ours/plans/leaf
bad tests/builder k8s.io/client-go/rest
bad tests/builder $ours/pkg/apply/leaf
bad pkg/apply github.com/pkg/errors
bad pkg/apply io/ioutil

good api/v1alpha1 k8s.io/apimachinery/pkg/apis/meta/v1
good plans/redact $ours/plans/leaf
good plans $ours/api/v1alpha1/leaf
good plans/policy github.com/google/cel-go/cel
good plans/policy $ours/plans/leaf
good plans net/url
good plans/approval/signature golang.org/x/crypto/ssh
good plans/approval/signature github.com/go-jose/go-jose/v4
good plans/approval/signature $ours/plans/leaf
good plans crypto/sha256
good plans/pulumiplan github.com/pulumi/pulumi/sdk/v3/go/common/apitype
good plans/pulumiplan github.com/pulumi/pulumi/pkg/v3/resource/stack
good workspace/agent $ours/plans/redact/leaf
good workspace/agent google.golang.org/grpc
good workspace/agent github.com/pulumi/pulumi/sdk/v3/go/common/apitype
good pkg/apply $ours/plans/pulumiplan/leaf
good pkg/apply $ours/workspace/leaf
good pkg/apply sigs.k8s.io/controller-runtime
good cmd/manager $ours/pkg/apply/leaf
good tests/builder $ours/api/v1alpha1/leaf

status=0
(cd "$work" && GOFLAGS=-mod=mod "$lint" run --allow-parallel-runners --enable-only=depguard --output.text.print-issued-lines=false \
  --show-stats=false ./...) > "$work/out" 2> "$work/err" || true
for file in "${expected[@]}"; do
  grep -q "^$file:.*(depguard)" "$work/out" || {
    echo "no complaint of depguard: $file imports $(sed -n 's/^import _ "\(.*\)".*/\1/p' "$work/$file")"
    status=1
  }
done
if grep '/good[0-9]*\.go:.*(depguard)' "$work/out"; then
  echo 'depguard complains of what is allowed'
  status=1
fi

# The clock, prints and panics; with types, so in packages without other faults.
rm -rf "$work"/{api,cmd,pkg,plans,tests,workspace}
write plans clock '' $'import "time"\n\n// Now is forbidden here.\nfunc Now() time.Time { return time.Now() }'
write pkg/apply clock '' $'import "time"\n\n// Now is allowed here.\nfunc Now() time.Time { return time.Now() }'
write pkg/apply print '' $'import "fmt"\n\n// Say prints.\nfunc Say() { fmt.Println("hello") }'
write workspace panic '' $'// Fall ends the process.\nfunc Fall() { panic("no") }'
write cmd/manager print '' $'import "fmt"\n\n// Say may print.\nfunc Say() { fmt.Println("hello") }'
(cd "$work" && GOFLAGS=-mod=mod "$lint" run --allow-parallel-runners --enable-only=forbidigo --output.text.print-issued-lines=false \
  --show-stats=false ./...) >> "$work/out.forbidigo" 2>> "$work/err" || true
found=$(sed -n 's/^\([^:]*\):.*(forbidigo)$/\1/p' "$work/out.forbidigo" | LC_ALL=C sort | paste -sd' ')
[ "$found" = 'pkg/apply/print.go plans/clock.go workspace/panic.go' ] || {
  echo "forbidigo complains of: $found"
  status=1
}

[ "$status" = 0 ] || cat "$work/err" >&2
exit $status
