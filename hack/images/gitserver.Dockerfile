# The git server of the tests and the demo.
#
#   docker build -f hack/images/gitserver.Dockerfile -t plangate/gitserver .
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN go build -trimpath -ldflags "-s -w" -o /out/gitserver ./tests/gitserver

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/* && \
    useradd --create-home --uid 1000 git
COPY --from=build /out/gitserver /usr/local/bin/gitserver
USER 1000:1000
ENTRYPOINT ["/usr/local/bin/gitserver"]
