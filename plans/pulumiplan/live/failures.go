// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plangate/plangate/plans/drift"
)

// failures collect what failed, and what was said about it.
type failures struct {
	order   []string
	reading map[string]bool
	texts   map[string][]string
}

func (f *failures) note(urn string) {
	if !slices.Contains(f.order, urn) {
		f.order = append(f.order, urn)
	}
}

func (f *failures) failed(m apitype.StepEventMetadata) {
	f.note(m.URN)
	if f.reading == nil {
		f.reading = map[string]bool{}
	}
	f.reading[m.URN] = m.Op == apitype.OpRefresh
}

func (f *failures) said(urn, text string) {
	text = clean(text)
	if text == "" || urn == "" && summary.MatchString(text) {
		return
	}
	if typ, _ := typeAndName(urn); typ == stackType {
		if summary.MatchString(text) {
			return
		}
		urn = "" // the program's own words
	}
	f.note(urn)
	if f.texts == nil {
		f.texts = map[string][]string{}
	}
	if !slices.Contains(f.texts[urn], text) {
		f.texts[urn] = append(f.texts[urn], text)
	}
}

// summary is what Pulumi says at the end of a run in which something else failed.
var summary = regexp.MustCompile(`(?i)\A(preview|refresh|update) failed\z|\A\d+ errors? occurred`)

var colours = regexp.MustCompile(`<\{%[^%]*%\}>`)

func clean(text string) string {
	text = strings.TrimSpace(colours.ReplaceAllString(text, ""))
	for _, prefix := range []string{"error: ", "Preview failed: "} {
		text = strings.TrimSpace(strings.TrimPrefix(text, prefix))
	}
	return text
}

// obstacles are what failed, in order. otherwise is said when nothing else tells why the run failed.
// unread tells whether a resource of the state was not read: a preview names what failed, and not in which step.
func (f *failures) obstacles(otherwise string, unread func(urn string) bool) []drift.Obstacle {
	var out []drift.Obstacle
	for _, urn := range f.order {
		text := strings.Join(f.texts[urn], "\n")
		if text == "" {
			text = "it failed, and nobody said why"
		}
		reading := f.reading[urn] || unread(urn)
		o := drift.Obstacle{URN: urn, Reading: reading, Text: text, Kind: kindOf(text, reading)}
		if o.Kind == drift.ObstacleConflict {
			o.Writer, o.Fields = conflict(text)
		}
		out = append(out, o)
	}
	if len(out) == 0 && otherwise != "" {
		text := clean(otherwise)
		out = append(out, drift.Obstacle{Text: text, Kind: kindOf(text, false)})
	}
	return out
}

// kinds are the texts of clusters and clouds, and what they mean. The first that matches wins.
var kinds = []struct {
	text *regexp.Regexp
	kind drift.Kind
}{
	{regexp.MustCompile(`Apply failed with \d+ conflict|field conflict|conflicts? with "`), drift.ObstacleConflict},
	{regexp.MustCompile(`(?i)\bforbidden\b|permission denied|access ?denied|not authorized|unauthorized|\b40[13]\b`), drift.ObstacleForbidden},
	{regexp.MustCompile(`(?i)\bnot ?found\b|no such (file|host|resource|namespace)|does not exist|\b404\b`), drift.ObstacleMissing},
}

func kindOf(text string, reading bool) drift.Kind {
	for _, k := range kinds {
		if k.text.MatchString(text) {
			return k.kind
		}
	}
	if reading {
		return drift.ObstacleUnreadable
	}
	return drift.ObstacleFailed
}

var (
	conflictWith  = regexp.MustCompile(`conflicts? with "([^"]+)"`)
	conflictField = regexp.MustCompile(`(?m)(?:: |^\s*- )(\.[A-Za-z][^\s,;]*)`)
)

// conflict finds the other side and the fields in the words of the API server.
func conflict(text string) (writer string, fields []string) {
	if m := conflictWith.FindStringSubmatch(text); m != nil {
		writer = m[1]
	}
	for _, m := range conflictField.FindAllStringSubmatch(text, -1) {
		field := strings.TrimPrefix(m[1], ".")
		if !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return writer, fields
}
