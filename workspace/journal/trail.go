// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/plangate/plangate/workspace"
)

const (
	// trailFile is what an operation told as it ran; eventsFile takes its place at the end.
	trailFile    = "trail.ndjson"
	releasedFile = "released.json"
)

// Trail opens the file that takes an operation's events, a line each, as they come. After a crash they are the events of the
// interrupted operation. The caller masks secrets, and closes it.
func (j *Journal) Trail(id string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(j.dir, folderOf(id), trailFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keeping the events of %q: %w", id, err)
	}
	return f, nil
}

// Releasing writes down the locks that an operation is about to remove, so that it is told also when the agent dies then.
func (j *Journal) Releasing(id string, locks []workspace.ReleasedLock) error {
	return writeJSON(filepath.Join(j.dir, folderOf(id)), releasedFile, locks, true)
}

// addTrail adds to an interrupted operation what it told before it was cut off: whole lines, and the locks it was removing.
func (j *Journal) addTrail(id string, result *workspace.Result) {
	dir := filepath.Join(j.dir, folderOf(id))
	if raw, err := readIfThere(filepath.Join(dir, trailFile)); err == nil {
		result.Events = raw[:bytes.LastIndexByte(raw, '\n')+1]
	}
	if raw, err := readIfThere(filepath.Join(dir, releasedFile)); err == nil && len(raw) > 0 {
		_ = json.Unmarshal(raw, &result.Released) // it is whole, or not there
	}
}
