// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"regexp"
	"strconv"
	"time"
)

// Lock is who holds a stack's lock in a self-managed backend, in the CLI's words.
type Lock struct {
	User string
	Host string
	PID  int
	At   time.Time
}

var lockLine = regexp.MustCompile(`created by (\S+)@(\S+) \(pid (\d+)\) at (\S+)`)

// Locks reads the holders from the CLI's refusal.
func Locks(text string) []Lock {
	var out []Lock
	for _, m := range lockLine.FindAllStringSubmatch(text, -1) {
		pid, err := strconv.Atoi(m[3])
		if err != nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, m[4])
		if err != nil {
			continue
		}
		out = append(out, Lock{User: m[1], Host: m[2], PID: pid, At: at})
	}
	return out
}
