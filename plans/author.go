// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"regexp"
	"strconv"
	"strings"
)

var userPattern = regexp.MustCompile(`\A[\x21-\x7e]{1,253}\z`)

// Author reads who edited a Stack's spec last from its annotation plangate.dev/edited-by, "<generation> by <user>". It is empty,
// which means not known, when the annotation is missing or malformed or tells of another generation than this one. It is the
// API server's work to let nobody write anything else.
func Author(editedBy string, generation int64) string {
	number, user, _ := strings.Cut(editedBy, " by ")
	if number != strconv.FormatInt(generation, 10) || !userPattern.MatchString(user) {
		return ""
	}
	return user
}
