#!/usr/bin/env bash
# Generates the Go code from agent.proto, the same bytes each time. Needs protoc (Debian: protobuf-compiler).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
command -v protoc > /dev/null || { echo "protoc is missing: apt-get install protobuf-compiler" >&2; exit 1; }
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PATH=$bin:$PATH protoc --go_out=. --go_opt=paths=source_relative \
  --go-grpc_out=. --go-grpc_opt=paths=source_relative agent.proto
# protoc's own version depends on the machine and says nothing about the code.
sed -i -E '/^\/\/ (- )?\s*protoc +v/d' agent.pb.go agent_grpc.pb.go
