# The ways to build, test and check Plangate. `make help` lists them.
#
# Everything that a target needs beyond Go, bash, git and (on Debian) apt-get is
# built by the target itself, once, into ~/.cache/plangate or $PLANGATE_CACHE.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

# The toolchain of this machine, and nothing that is fetched behind one's back.
export GOTOOLCHAIN ?= local
export GOWORK := off

## Variables, as in `make fuzz FUZZTIME=1m`:
VERSION ?= $(shell git describe --tags --always --dirty 2> /dev/null || echo dev) ## What the binaries say they are
FUZZTIME ?= 10s## How long each fuzz target runs
SOAK ?= 10000## How many random histories soak plays, or for how long: 30m
BENCH ?= .## Which benchmarks run
RACE ?=## 1: run unit and API tests with the race detector (needs gcc)
RUN ?=## Only the tests whose name matches
PKG ?=## Only these packages, for test-unit
TESTFLAGS ?=## More flags for go test
ARGS ?=## Arguments of the manager, for run

# What go test is called with. The summary at the end counts what ran.
GO_TEST = go test -json $(if $(RUN),-run '$(RUN)') $(TESTFLAGS)
SUMMARY = | go run -C hack/tools ./testsummary
RACE_FLAG = $(if $(filter-out 0,$(RACE)),-race)
with_race = $(if $(filter-out 0,$(RACE)),CGO_ENABLED=1)

# Tests with a world of their own, which the unit tests must not need.
UNIT_PACKAGES = $(or $(PKG),$$(go list ./... | grep -Ev '/tests/(e2e|envtest|bench)(/|$$)'))
# Modules of our own that are small enough to be linted and tested each time.
SMALL_MODULES := $(patsubst %/go.mod,%,$(wildcard $(addsuffix /go.mod,hack/mkimage hack/node-tools hack/tools)))

##@ General

.PHONY: help
help: ## Show this help
	@awk 'BEGIN { FS = ":.*## "; printf "Usage: make TARGET [VARIABLE=value]\n" } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nVariables\n'
	@awk -F ' *[?]=|## ' '/^[A-Z]+ [?]=.*## / { printf "  %-17s %s\n", $$1, $$NF }' Makefile

##@ Build

.PHONY: build
build: ## Build the commands into bin/
	@mkdir -p bin
	@for command in manager agent kubectl-plangate; do \
	  [ -d cmd/$$command ] || continue; \
	  echo "bin/$$command"; \
	  CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(strip $(VERSION))' -o bin/$$command ./cmd/$$command; \
	done

.PHONY: run
run: ## Run the manager on this machine against the cluster of KUBECONFIG
	go run ./cmd/manager $(ARGS)

.PHONY: demo
demo: ## Show the path of a change, from a commit to an approved apply, in the test cluster
	@hack/demo/demo.sh

##@ Generated files

.PHONY: generate
generate: generate-deepcopy manifests generate-protobuf generate-docs ## Generate all that is generated

.PHONY: generate-deepcopy
generate-deepcopy: ## Generate the kinds' deep copies
	@tools=$$(hack/tools/ensure.sh); \
	"$$tools/controller-gen" object:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: ## Generate the CRDs, and the manager's role from the controllers' markers
	@tools=$$(hack/tools/ensure.sh); \
	"$$tools/controller-gen" crd paths=./api/... output:crd:dir=config/crd; \
	[ ! -d pkg ] || "$$tools/controller-gen" rbac:roleName=plangate-manager paths=./pkg/... output:rbac:dir=config/rbac

.PHONY: generate-protobuf
generate-protobuf: ## Generate the agent's gRPC code
	@[ -x workspace/agent/agentpb/generate.sh ] || exit 0; \
	command -v protoc > /dev/null || ( . hack/lib.sh; need_packages protobuf-compiler ); \
	tools=$$(hack/tools/ensure.sh); \
	PATH="$$tools:$$PATH" workspace/agent/agentpb/generate.sh

.PHONY: generate-docs
generate-docs: ## Generate docs/api from the kinds' comments
	@tools=$$(hack/tools/ensure.sh); \
	mkdir -p docs/api; \
	"$$tools/crd-ref-docs" --log-level=WARN --config=hack/tools/crd-ref-docs.yaml --source-path=api/v1alpha1 \
	  --renderer=markdown --output-path=docs/api/v1alpha1.md; \
	sed -i -E 's/(Required|Optional|Schemaless): \\\{\\\}/\1/g; s/ *<br \/> \|$$/ |/; s/[ \t]+$$//' docs/api/v1alpha1.md

##@ Checks

.PHONY: fmt
fmt: ## Format the code, and add missing license headers
	@hack/boilerplate.sh
	@lint=$$(hack/tools/ensure.sh golangci); "$$lint/golangci-lint" fmt ./...

.PHONY: lint
lint: ## Run the linters, and hold the budgets for sizes
	@lint=$$(hack/tools/ensure.sh golangci)/golangci-lint; status=0; \
	hack/boilerplate.sh --check || status=1; \
	hack/verify-budgets.sh || status=1; \
	for module in . $(SMALL_MODULES); do (cd $$module && "$$lint" run --allow-parallel-runners ./...) || status=1; done; \
	exit $$status

.PHONY: verify
verify: ## Check that generated files, modules, formats and texts are as they should be
	@hack/verify.sh

##@ Tests

.PHONY: test
test: test-unit test-envtest test-e2e ## Run all tests; sets up what they need

# With these the scripts of config/samples/ci sign; the tests run them.
SIGNING_TOOLS = for tool in openssl ssh-keygen curl; do \
	    command -v $$tool > /dev/null || { ( . hack/lib.sh; need_packages openssl openssh-client curl ); break; }; \
	  done

# The packages of the agent drive the real Pulumi, from these folders.
.PHONY: test-unit
test-unit: ## Run the tests that need no cluster (PKG=, RUN=, RACE=1)
	@$(SIGNING_TOOLS); \
	PLANGATE_TEST_PATH=$$(hack/cache/path.sh pulumi pulumi-language-yaml pulumi-kubernetes); \
	export PLANGATE_TEST_PATH; \
	$(with_race) $(GO_TEST) $(RACE_FLAG) -timeout 30m $(UNIT_PACKAGES) $(SUMMARY)
ifeq ($(PKG),)
	@for module in $(SMALL_MODULES); do \
	  [ -n "$$(find $$module -name '*_test.go' -print -quit)" ] || continue; \
	  (cd $$module && $(GO_TEST) -timeout 5m ./...) $(SUMMARY); \
	done
endif

.PHONY: test-envtest
test-envtest: ## Run the tests against a real API server
	@$(SIGNING_TOOLS); \
	KUBEBUILDER_ASSETS=$$(hack/cache/path.sh kubernetes); \
	export KUBEBUILDER_ASSETS; \
	$(with_race) $(GO_TEST) $(RACE_FLAG) -timeout 30m ./tests/envtest/... $(SUMMARY)

# What was tried and what the answer was goes into a file, which is shown in the end.
.PHONY: attacks
attacks: ## Try to get around the approvals, and show who tried what and what the answer was
	@KUBEBUILDER_ASSETS=$$(hack/cache/path.sh kubernetes); \
	PLANGATE_ATTACKS=$$(mktemp); trap 'rm -f "$$PLANGATE_ATTACKS"' EXIT; \
	export KUBEBUILDER_ASSETS PLANGATE_ATTACKS; \
	status=0; \
	go test -json -count=1 -timeout 15m -run '$(or $(strip $(RUN)),Attack|Impersonation)' ./tests/envtest/... $(SUMMARY) || status=$$?; \
	printf '\n%-34.34s  %-56.56s  %-26.26s  %s\n' WHO WHAT ANSWER WORDS; \
	while IFS=$$'\t' read -r who what answer words; do \
	  printf '%-34.34s  %-56.56s  %-26.26s  %.120s\n' "$$who" "$$what" "$$answer" "$$words"; \
	done < "$$PLANGATE_ATTACKS"; \
	exit $$status

# Each runs the tests of one promise on all levels, and starts the cluster if there is none.
.PHONY: holes
holes: ## Try all that could pass a plan (docs/holes.md), and show case by case what happened
	@hack/suites.sh holes

.PHONY: leaks
leaks: ## Look for secrets wherever one could get to, and show place by place what was found
	@hack/suites.sh leaks

.PHONY: test-e2e
test-e2e: ## Run the demo and the tests on the real cluster (starts it; `make cluster-down` ends it)
	@if [ ! -d tests/e2e ]; then echo 'there are no end-to-end tests (tests/e2e)'; exit 0; fi; \
	eval "$$(hack/cluster/up.sh)"; \
	$(if $(RUN),hack/deploy/deploy.sh,hack/demo/test.sh); \
	PLANGATE_TEST_PATH=$$(hack/cache/path.sh kubernetes pulumi pulumi-language-yaml pulumi-kubernetes); \
	export PLANGATE_TEST_PATH PLANGATE_E2E=1; \
	$(GO_TEST) -count=1 -timeout 40m ./tests/e2e/... $(SUMMARY)

# A table at the end, case by case. With the test cluster up (KUBECONFIG set) its cases run too.
.PHONY: drift
drift: ## Run just the tests about drift, on all levels, and show case by case what happened
	@PLANGATE_TEST_PATH=$$(hack/cache/path.sh pulumi pulumi-language-yaml pulumi-kubernetes); \
	KUBEBUILDER_ASSETS=$$(hack/cache/path.sh kubernetes); \
	export PLANGATE_TEST_PATH KUBEBUILDER_ASSETS; \
	hack/drift.sh

.PHONY: soak
soak: ## Play SOAK random histories of a whole world against the controllers
	HISTORIES='$(strip $(SOAK))' go test -v -count=1 -timeout 0 -run TestHistories ./tests/histories

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME
	@hack/tools/fuzz.sh '$(strip $(FUZZTIME))'

# First whole changes in the test cluster, which take 15 minutes (TESTFLAGS=-short: 6), then the parts. docs/benchmarks.md.
.PHONY: bench
bench: ## Run the benchmarks that match BENCH; sets up what they need
	@PLANGATE_TEST_PATH=$$(hack/cache/path.sh kubernetes pulumi pulumi-language-yaml pulumi-kubernetes); \
	KUBEBUILDER_ASSETS=$$(hack/cache/path.sh kubernetes); \
	PLANGATE_BENCH_REPORT=$$(mktemp); trap 'rm -f "$$PLANGATE_BENCH_REPORT"' EXIT; \
	export PLANGATE_TEST_PATH KUBEBUILDER_ASSETS PLANGATE_BENCH_REPORT; \
	bench='$(strip $(BENCH))'; \
	whole=$$(grep -hoE '^func Benchmark[A-Za-z0-9_]+' tests/e2e/*_test.go | sed 's/^func //' | grep -E -- "$${bench%%/*}" || true); \
	if [ -n "$$whole" ]; then \
	  eval "$$(hack/cluster/up.sh)"; \
	  hack/images/load.sh; \
	  hack/deploy/deploy.sh; \
	  PLANGATE_E2E=1 go test -run '^$$' -bench "$$bench" -benchtime 1x -timeout 40m $(TESTFLAGS) ./tests/e2e; \
	fi; \
	parts=$$(grep -rlE --include='*_test.go' --exclude-dir=e2e '^func Benchmark' . | xargs -r -n1 dirname | sort -u); \
	[ -z "$$parts" ] || go test -run '^$$' -bench "$$bench" -benchmem -timeout 30m $(TESTFLAGS) $$parts; \
	if [ -s "$$PLANGATE_BENCH_REPORT" ]; then echo; cat "$$PLANGATE_BENCH_REPORT"; fi

# The test cluster, the images and the deployment.
-include hack/testbed.mk
