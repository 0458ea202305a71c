module github.com/plangate/plangate/hack/mkimage

go 1.26.0
