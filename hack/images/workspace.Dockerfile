# A workspace: Pulumi with all its languages, git, and the Kubernetes provider.
#
#   docker build -f hack/images/workspace.Dockerfile --target workspace -t plangate/workspace .
#   docker build -f hack/images/workspace.Dockerfile --target test -t plangate/workspace:test .
ARG PULUMI_VERSION=3.276.0
FROM pulumi/pulumi:${PULUMI_VERSION}-nonroot AS workspace
ARG PULUMI_KUBERNETES_VERSION=4.24.1
# The base image's user "pulumi" has uid 1000.
ENV HOME=/home/pulumi USER=pulumi PULUMI_SKIP_UPDATE_CHECK=true
USER 1000:1000
WORKDIR /home/pulumi
RUN pulumi plugin install resource kubernetes "v${PULUMI_KUBERNETES_VERSION}"
ENTRYPOINT []
CMD ["/bin/bash"]

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN cd tests/provider-files && go build -trimpath -ldflags "-s -w" -o /out/pulumi-resource-files .

# With the provider that the tests use, and no downloads while they run.
FROM workspace AS test
ARG PULUMI_FILES_VERSION=0.1.0
ENV PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION=true
COPY --from=build --chown=1000:1000 /out/pulumi-resource-files \
     /home/pulumi/.pulumi/plugins/resource-files-v${PULUMI_FILES_VERSION}/pulumi-resource-files
