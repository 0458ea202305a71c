package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func writeJSON(dir, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %q: %w", name, err)
	}
	return writeFile(dir, name, raw)
}

// writeFile leaves the whole new file or none: written beside, synced, renamed, and the folder synced. Nothing is written
// for no data.
func writeFile(dir, name string, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	f, err := os.CreateTemp(dir, name+".tmp-")
	if err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err == nil {
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
