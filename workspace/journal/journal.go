// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal keeps operations on disk: that one was started before it is, and how it ended. After a crash of the agent
// it tells which operation was cut off, so that nothing is run twice and nothing is forgotten.
//
// One folder for each operation, named after the digest of its id. Each file is written beside, synced and renamed, so it
// is whole or absent; the end's own file comes last and makes the end valid. Secrets never come here: no environment, no
// configuration, no outputs.
package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/plangate/plangate/workspace"
)

// ErrNotFound says that there is no such operation.
var ErrNotFound = errors.New("no such operation")

// ErrExists says that the operation was started before.
var ErrExists = errors.New("the operation exists")

// Entry is what is known of an operation from its start on.
type Entry struct {
	ID      string                  `json:"id"`
	Type    workspace.OperationType `json:"type"`
	Stack   string                  `json:"stack"`
	Backend string                  `json:"backend,omitempty"`
	// Host is the host name that Pulumi writes into its locks.
	Host      string    `json:"host"`
	StartedAt time.Time `json:"startedAt"`
}

// Record is an operation in the journal.
type Record struct {
	Entry
	// PID is the process of the CLI that may hold the stack's lock. Zero: none was started.
	PID int
	// Result is nil while it runs.
	Result *workspace.Result
}

// Journal is the operations below a folder. It is safe for concurrent use by one process.
type Journal struct {
	dir   string
	limit int

	mu      sync.Mutex
	records map[string]*Record
	// damaged are folders whose entry cannot be read. Their operations are not known, but they were started.
	damaged map[string]bool
}

const (
	entryFile  = "entry.json"
	resultFile = "result.json"
	planFile   = "plan.json"
	eventsFile = "events.ndjson"
	secondFile = "second.json"
	pidFile    = "pid"
)

// Open reads the journal and ends what a dead process left without an end as Interrupted. It keeps at most limit ended
// operations. Damaged entries are returned as problems and cost nothing else.
func Open(dir string, limit int, now time.Time) (*Journal, []error, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("opening journal %q: %w", dir, err)
	}
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("opening journal %q: %w", dir, err)
	}
	j := &Journal{dir: dir, limit: limit, records: map[string]*Record{}, damaged: map[string]bool{}}
	var problems []error
	for _, folder := range folders {
		record, err := j.read(folder.Name())
		if errors.Is(err, os.ErrNotExist) {
			// The entry was never whole, so Begin never returned and nothing was run.
			_ = os.RemoveAll(filepath.Join(dir, folder.Name()))
			continue
		}
		if err != nil {
			problems = append(problems, err)
			j.damaged[folder.Name()] = true
			continue
		}
		j.records[record.ID] = record
		if record.Result == nil {
			result := interrupted(record, now)
			j.addTrail(record.ID, result)
			if err := j.end(record, result); err != nil {
				return nil, problems, err
			}
		}
	}
	j.prune()
	return j, problems, nil
}

func interrupted(record *Record, now time.Time) *workspace.Result {
	r := &workspace.Result{
		ID: record.ID, Type: record.Type, Outcome: workspace.Interrupted, Reason: workspace.ReasonAgentDied,
		StartedAt: record.StartedAt,
		Message:   fmt.Sprintf("the agent died while this ran, and found that at %s", now.UTC().Format(time.RFC3339)),
	}
	if record.Type.Mutates() {
		r.Message += "; what was done is not known for sure"
	}
	return r
}

// damagedRecord stands for an operation of which only the id is known.
func damagedRecord(id string) *Record {
	return &Record{Entry: Entry{ID: id}, Result: &workspace.Result{
		ID: id, Outcome: workspace.Interrupted, Reason: workspace.ReasonInternal,
		Message: "the journal's entry is damaged; whether and how it ended is not known",
	}}
}

func folderOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// durable says what must survive a loss of power. A preview that is forgotten is made again and costs nothing; to forget an
// apply could run it twice.
func durable(t workspace.OperationType) bool { return !t.Previews() }

// Begin writes that an operation starts. Only after it returned may the operation do anything.
func (j *Journal) Begin(e Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.records[e.ID]; ok || j.damaged[folderOf(e.ID)] {
		return ErrExists
	}
	dir := filepath.Join(j.dir, folderOf(e.ID))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("writing journal: %w", err)
	}
	if err := writeJSON(dir, entryFile, e, durable(e.Type)); err != nil {
		return err
	}
	if durable(e.Type) {
		if err := syncDir(j.dir); err != nil {
			return err
		}
	}
	j.records[e.ID] = &Record{Entry: e}
	return nil
}

// Note writes down the process that may hold the stack's lock.
func (j *Journal) Note(id string, pid int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	record, ok := j.records[id]
	if !ok {
		return fmt.Errorf("noting %q: %w", id, ErrNotFound)
	}
	record.PID = pid
	return writeFile(filepath.Join(j.dir, folderOf(id)), pidFile, []byte(strconv.Itoa(pid)), false)
}

// End writes how an operation ended.
func (j *Journal) End(result *workspace.Result) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	record, ok := j.records[result.ID]
	if !ok {
		return fmt.Errorf("ending %q: %w", result.ID, ErrNotFound)
	}
	if err := j.end(record, result); err != nil {
		return err
	}
	j.prune()
	return nil
}

func (j *Journal) end(record *Record, result *workspace.Result) error {
	dir := filepath.Join(j.dir, folderOf(record.ID))
	clean := *result
	clean.Outputs = nil
	clean.OutputsLost = len(result.Outputs) > 0 || result.OutputsLost
	if err := writeFile(dir, planFile, clean.Plan, durable(record.Type)); err != nil {
		return err
	}
	if err := writeFile(dir, eventsFile, clean.Events, durable(record.Type)); err != nil {
		return err
	}
	if err := writeFile(dir, secondFile, clean.SecondPlan, durable(record.Type)); err != nil {
		return err
	}
	if err := writeJSON(dir, resultFile, &clean, durable(record.Type)); err != nil {
		return err
	}
	clean.Plan, clean.Events, clean.SecondPlan = nil, nil, nil
	record.Result = &clean
	_ = os.Remove(filepath.Join(dir, trailFile)) // eventsFile has it all
	return nil
}

// Get returns an operation; with its plan and events when it has ended.
func (j *Journal) Get(id string) (*Record, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	known, ok := j.records[id]
	if !ok && j.damaged[folderOf(id)] {
		return damagedRecord(id), nil
	}
	if !ok {
		return nil, ErrNotFound
	}
	record := *known
	if known.Result == nil {
		return &record, nil
	}
	result := *known.Result
	record.Result = &result
	dir := filepath.Join(j.dir, folderOf(id))
	var err error
	if result.Plan, err = readIfThere(filepath.Join(dir, planFile)); err != nil {
		return nil, err
	}
	if result.Events, err = readIfThere(filepath.Join(dir, eventsFile)); err != nil {
		return nil, err
	}
	result.SecondPlan, err = readIfThere(filepath.Join(dir, secondFile))
	return &record, err
}

// All returns all operations, without plans and events, the oldest first.
func (j *Journal) All() []Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Record, 0, len(j.records))
	for _, r := range j.records {
		out = append(out, *r)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].StartedAt.Before(out[b].StartedAt) })
	return out
}

// keptChecks is how many ended drift checks are kept: they come again and again, and push nothing else out.
const keptChecks = 3

// prune removes the oldest ended operations.
func (j *Journal) prune() {
	var checks, others []*Record
	for _, r := range j.records {
		switch {
		case r.Result == nil:
		case r.Type == workspace.DriftCheck:
			checks = append(checks, r)
		default:
			others = append(others, r)
		}
	}
	j.keep(checks, keptChecks)
	j.keep(others, j.limit)
}

// keep removes all but the newest of a list.
func (j *Journal) keep(list []*Record, limit int) {
	sort.Slice(list, func(a, b int) bool { return list[a].StartedAt.Before(list[b].StartedAt) })
	for len(list) > limit {
		_ = os.RemoveAll(filepath.Join(j.dir, folderOf(list[0].ID)))
		delete(j.records, list[0].ID)
		list = list[1:]
	}
}

func (j *Journal) read(folder string) (*Record, error) {
	dir := filepath.Join(j.dir, folder)
	raw, err := os.ReadFile(filepath.Join(dir, entryFile)) //nolint:gosec // G304: below the journal's folder
	if err != nil {
		return nil, fmt.Errorf("reading journal entry %q: %w", folder, err)
	}
	entry, err := decodeEntry(raw)
	if err != nil || folderOf(entry.ID) != folder {
		return nil, fmt.Errorf("reading journal entry %q: it is damaged", folder)
	}
	record := &Record{Entry: entry}
	if raw, err := os.ReadFile(filepath.Join(dir, pidFile)); err == nil { //nolint:gosec // G304: below the journal's folder
		record.PID, _ = strconv.Atoi(string(raw))
	}
	raw, err = os.ReadFile(filepath.Join(dir, resultFile)) //nolint:gosec // G304: below the journal's folder
	if err != nil {
		return record, nil //nolint:nilerr // without a readable end, it was cut off
	}
	var result workspace.Result
	if json.Unmarshal(raw, &result) == nil && result.ID == entry.ID && result.Outcome != "" && result.Outcome != workspace.Running {
		record.Result = &result
	}
	return record, nil
}

func decodeEntry(raw []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, fmt.Errorf("decoding journal entry: %w", err)
	}
	if e.ID == "" || !e.Type.Mutates() && !e.Type.Previews() {
		return e, errors.New("decoding journal entry: it lacks an id or a type")
	}
	return e, nil
}
