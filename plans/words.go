// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/plangate/plangate/plans/redact"
)

// some names the first two of a list.
func some(list []string) string {
	if more := len(list) - 2; more > 0 {
		return fmt.Sprintf("%s, %s and %d more", list[0], list[1], more)
	}
	return strings.Join(list, " and ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// shareRoom shortens two values to what there is room for. When both are too long they are shown from where they part.
func shareRoom(old, now string, room int) (string, string) {
	half := room / 2
	switch {
	case len(old)+len(now) <= room:
		return old, now
	case len(old) <= half:
		return old, redact.Shorten(now, room-len(old))
	case len(now) <= half:
		return redact.Shorten(old, room-len(now)), now
	}
	return redact.ShortenPair(old, now, half)
}

// shortenMiddle keeps both ends of a text: those of a path and of a name tell the most.
func shortenMiddle(s string, limit int) string {
	const gap = "…"
	if len(s) <= limit {
		return s
	}
	head, tail := limit/2, len(s)-(limit-limit/2-len(gap))
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	for tail < len(s) && !utf8.RuneStart(s[tail]) {
		tail++
	}
	return s[:head] + gap + s[tail:]
}

// oneLine makes one printable line of a text.
func oneLine(s string) string {
	s = strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(redact.Printable(s))
	return redact.Shorten(strings.TrimRight(s, " "), maxLine)
}
