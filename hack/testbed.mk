# Targets of the test bed: a real one-node cluster, real Pulumi and images,
# without a container engine. Included by the top Makefile. See hack/README.md.

TESTBED_DIR := $(dir $(lastword $(MAKEFILE_LIST)))

##@ Test cluster

.PHONY: cluster-up
cluster-up: ## Start the one-node test cluster (Linux, root); prints its KUBECONFIG
	@$(TESTBED_DIR)cluster/up.sh

.PHONY: cluster-down
cluster-down: ## End the test cluster and remove everything it made
	@$(TESTBED_DIR)cluster/down.sh

.PHONY: cluster-status
cluster-status: ## Say how the test cluster is
	@$(TESTBED_DIR)cluster/status.sh

.PHONY: cluster-verify
cluster-verify: ## Check that the test cluster does what a real one does
	@$(TESTBED_DIR)cluster/verify.sh

.PHONY: images
images: ## Build the container images as tar files, without a container engine
	@$(TESTBED_DIR)images/build.sh $(IMAGES)

.PHONY: images-load
images-load: ## Build images and import those that changed into the test cluster (IMAGES="manager workspace")
	@$(TESTBED_DIR)images/load.sh $(IMAGES)

.PHONY: deploy
deploy: ## Install into the cluster of KUBECONFIG, or else the test cluster (IMG=, WORKSPACE_IMG=)
	@IMG='$(IMG)' WORKSPACE_IMG='$(WORKSPACE_IMG)' $(TESTBED_DIR)deploy/deploy.sh

.PHONY: undeploy
undeploy: ## Remove what deploy installed (FORCE=1: even if there are Stacks)
	@FORCE='$(FORCE)' $(TESTBED_DIR)deploy/undeploy.sh

.PHONY: cache-clean
cache-clean: ## Remove every build of the test bed (the cluster must be down)
	@$(TESTBED_DIR)cache/clean.sh
