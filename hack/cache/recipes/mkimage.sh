# shellcheck shell=bash disable=SC2034
version=v1
inputs=(mkimage)
takes="2 s"

build() { go_build "$HACK_DIR/mkimage" "$1/mkimage" .; }
