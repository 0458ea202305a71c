// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func writeJSON(dir, name string, v any, durable bool) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %q: %w", name, err)
	}
	return writeFile(dir, name, raw, durable)
}

// writeFile leaves the whole new file or none, whatever happens to the process: it is written beside and renamed. A durable
// file is also there after the machine lost its power: the file and the folder are synced. Nothing is written for no data.
func writeFile(dir, name string, data []byte, durable bool) error {
	if len(data) == 0 {
		return nil
	}
	f, err := os.CreateTemp(dir, name+".tmp-")
	if err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err == nil && durable {
		err = syncDir(dir)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("writing %q: %w", name, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // G304: the journal's folder
	if err != nil {
		return fmt.Errorf("syncing %q: %w", dir, err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing %q: %w", dir, err)
	}
	return nil
}

func readIfThere(path string) ([]byte, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // G304: below the journal's folder
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading journal: %w", err)
	}
	return raw, nil
}
