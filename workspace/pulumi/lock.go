// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plangate/plangate/workspace"
)

var (
	lockLine  = regexp.MustCompile(`(?:(\S+)\.json: )?created by (\S+)@(\S+) \(pid (\d+)\) at (\S+)`)
	cloudLock = regexp.MustCompile(`[^\n]*Another update is currently in progress[^\n]*`)
)

// Locks reads the holders from the CLI's refusal, each once.
func Locks(text string) []workspace.Lock {
	var out []workspace.Lock
	add := func(l workspace.Lock) {
		same := func(o workspace.Lock) bool {
			return o.Host == l.Host && o.PID == l.PID && o.At.Equal(l.At) && (o.ID == l.ID || l.ID == "") && o.Text == l.Text
		}
		if !slices.ContainsFunc(out, same) {
			out = append(out, l)
		}
	}
	for _, m := range lockLine.FindAllStringSubmatch(text, -1) {
		pid, err := strconv.Atoi(m[4])
		if err != nil {
			continue
		}
		at, err := time.Parse(time.RFC3339, m[5])
		if err != nil {
			continue
		}
		id := ""
		if m[1] != "" {
			id = path.Base(m[1])
		}
		add(workspace.Lock{ID: id, User: m[2], Host: m[3], PID: pid, At: at})
	}
	for _, m := range cloudLock.FindAllString(text, -1) {
		add(workspace.Lock{Text: strings.TrimSpace(m)})
	}
	return out
}

// ErrLocksHidden says that the backend shows its locks only to an update that they stop.
var ErrLocksHidden = errors.New("the backend shows no locks")

// lockFolder is where a file backend keeps the locks of a stack.
func lockFolder(t Target) (string, error) {
	root, project, err := fileLayout(t)
	if err != nil {
		return "", ErrLocksHidden
	}
	return filepath.Join(root, ".pulumi", "locks", "organization", project, ShortName(t.Stack)), nil
}

// readLocks reads the locks of a stack in a file backend.
func readLocks(t Target) ([]workspace.Lock, error) {
	dir, err := lockFolder(t)
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading locks: %w", err)
	}
	var out []workspace.Lock
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if f.IsDir() || !ok {
			continue
		}
		l, err := readLock(dir, id)
		if errors.Is(err, os.ErrNotExist) {
			continue // released just now
		}
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

func readLock(dir, id string) (workspace.Lock, error) {
	raw, err := os.ReadFile(filepath.Join(dir, id+".json")) //nolint:gosec // G304: below the backend's folder
	if err != nil {
		return workspace.Lock{}, fmt.Errorf("reading lock %q: %w", id, err)
	}
	var content struct {
		PID       int       `json:"pid"`
		Username  string    `json:"username"`
		Hostname  string    `json:"hostname"`
		Timestamp time.Time `json:"timestamp"`
	}
	if json.Unmarshal(raw, &content) != nil {
		content.Username = "unreadable" // being written, or spoiled: it is held all the same
	}
	return workspace.Lock{ID: id, User: content.Username, Host: content.Hostname, PID: content.PID, At: content.Timestamp}, nil
}

// removeLocks removes exactly these locks of a file backend. One that is gone is no error.
func removeLocks(t Target, locks []workspace.Lock) error {
	dir, err := lockFolder(t)
	if err != nil {
		return err
	}
	for _, l := range locks {
		if l.ID == "" || l.ID != filepath.Base(l.ID) {
			return fmt.Errorf("removing lock %q: this is no name of a lock", l.ID)
		}
		if err := os.Remove(filepath.Join(dir, l.ID+".json")); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing lock %q: %w", l.ID, err)
		}
	}
	return nil
}

// LockText names a lock's holder: "user@host (pid 4711)".
func LockText(l workspace.Lock) string {
	if l.Text != "" || l.Host == "" {
		return l.Text
	}
	return fmt.Sprintf("%s@%s (pid %d)", l.User, l.Host, l.PID)
}
