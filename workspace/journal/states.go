// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"sort"
)

// States remembers the last states that previews saw, by their digests, so that an apply can say what has changed since. It
// holds digests of resources and no values. To lose it costs a detail in a message.
type States struct {
	Dir   string
	Limit int
}

// Keep remembers a state.
func (s States) Keep(digest string, state []byte) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(s.Dir, s.name(digest), state, false); err != nil {
		return err
	}
	return s.prune()
}

// Get returns a state, or nil.
func (s States) Get(digest string) []byte {
	raw, err := readIfThere(filepath.Join(s.Dir, s.name(digest)))
	if err != nil {
		return nil
	}
	return raw
}

func (s States) name(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	return hex.EncodeToString(sum[:16]) + ".json"
}

func (s States) prune() error {
	files, err := os.ReadDir(s.Dir)
	if err != nil || len(files) <= s.Limit {
		return err
	}
	age := func(i int) int64 {
		info, err := files[i].Info()
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	sort.Slice(files, func(a, b int) bool { return age(a) < age(b) })
	for _, f := range files[:len(files)-s.Limit] {
		_ = os.Remove(filepath.Join(s.Dir, f.Name()))
	}
	return nil
}
