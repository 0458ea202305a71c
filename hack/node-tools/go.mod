module github.com/plangate/plangate/hack/node-tools

go 1.26.0
