// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// maxFolder bounds the files of a plugin without a binary.
const maxFolder = 50_000

// sums remembers the digests of files as long as they stay as they are: a provider's binary has hundreds of megabytes.
type sums struct {
	mu    sync.Mutex
	known map[string]fileSum
}

type fileSum struct{ stamp, sum string }

// file returns a file's digest; "" when it is none, or cannot be read.
func (s *sums) file(path string) string {
	f, err := os.Open(path) //nolint:gosec // G304: a plugin that Pulumi would run
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	stamp := stampOf(info)
	s.mu.Lock()
	known := s.known[path]
	s.mu.Unlock()
	if known.stamp == stamp {
		return known.sum
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	sum := "sha256:" + hex.EncodeToString(h.Sum(nil))
	// One that was written to while it was read is read again the next time.
	if info, err := f.Stat(); err == nil && stampOf(info) == stamp {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.known == nil || len(s.known) > maxFolder {
			s.known = map[string]fileSum{}
		}
		s.known[path] = fileSum{stamp, sum}
	}
	return sum
}

// stampOf moves with every write to a file: whoever sets the time of modification back moves the time of the change.
func stampOf(info os.FileInfo) string {
	stamp := fmt.Sprint(info.Size(), " ", info.ModTime().UnixNano())
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp += fmt.Sprint(" ", st.Dev, " ", st.Ino, " ", st.Ctim.Nano())
	}
	return stamp
}

// folder returns the digest of all files in a folder; "" when there are none, or too many. The links at its top are followed:
// the plugins of an image are known by them.
func (s *sums) folder(dir string) string {
	top, err := os.ReadDir(dir)
	if err != nil || len(top) == 0 {
		return ""
	}
	var lines []string
	for _, entry := range top {
		root, err := filepath.EvalSymlinks(filepath.Join(dir, entry.Name()))
		if err != nil {
			return ""
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || len(lines) >= maxFolder {
				return fs.ErrInvalid
			}
			name := entry.Name() + strings.TrimPrefix(path, root)
			switch {
			case d.IsDir():
				return nil
			case d.Type()&fs.ModeSymlink != 0:
				to, err := os.Readlink(path)
				lines = append(lines, fmt.Sprintf("%q -> %q", name, to))
				return err
			}
			sum := s.file(path)
			lines = append(lines, fmt.Sprintf("%q %s", name, sum))
			if sum == "" {
				return fs.ErrInvalid
			}
			return nil
		})
		if err != nil {
			return ""
		}
	}
	return digestOf([]byte(strings.Join(lines, "\n")))
}
