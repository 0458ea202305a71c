// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit writes the end of each plan to the audit log: one JSON object in a line, in the schema of docs/audit.md.
//
// A line is written at least once. The record that it holds is made from what is written down in the cluster, so that a
// second line for the same end is the same line, byte for byte: its digest tells. It must never hold a secret value: it
// holds nothing that the plan's status does not show.
package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/plangate/plangate/plans"
)

// Schema is what every line says of itself.
const Schema = "plangate.dev/audit/v1alpha1"

// line is a line of the log. Record is the last member, and its bytes are those of which Digest is made.
type line struct {
	Schema  string          `json:"schema"`
	Cluster string          `json:"cluster"`
	Digest  string          `json:"digest"`
	Record  json.RawMessage `json:"record"`
}

// Log is the audit log of a cluster.
type Log struct {
	cluster string
	mu      sync.Mutex
	sink    io.Writer
}

// New returns a Log that hands each line to sink in one Write. cluster is the id of the cluster.
func New(sink io.Writer, cluster string) *Log { return &Log{sink: sink, cluster: cluster} }

// Write writes a record. When it fails, the line may have been written in part, and is to be written again.
func (l *Log) Write(record plans.Record) error {
	text, err := encode(l.cluster, record)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.sink.Write(text); err != nil {
		return fmt.Errorf("writing the audit log: %w", err)
	}
	return nil
}

func encode(cluster string, record plans.Record) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(line{Schema: Schema, Cluster: cluster, Digest: record.Digest(), Record: record.Bytes()}); err != nil {
		return nil, fmt.Errorf("encoding a line of the audit log: %w", err)
	}
	return b.Bytes(), nil
}

// Open returns the Log that an option names: "-" goes to standard output, anything else is a file that is appended to.
func Open(name, cluster string) (*Log, error) {
	if name == "-" {
		return New(os.Stdout, cluster), nil
	}
	f := &file{name: name}
	// What cannot be opened is told at the start, and not when the first plan ends.
	if _, err := f.Write(nil); err != nil {
		return nil, fmt.Errorf("opening the audit log: %w", err)
	}
	return New(f, cluster), nil
}

// file appends to a file. It opens it for each line, of which there are few, so that it may be renamed and taken away at any
// time, and makes sure of it before it returns.
type file struct{ name string }

func (f *file) Write(text []byte) (n int, err error) {
	out, err := os.OpenFile(f.name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if len(text) == 0 {
		return 0, nil
	}
	if torn(out) {
		// A line that broke off stays one line.
		if _, err := out.WriteString("\n"); err != nil {
			return 0, err
		}
	}
	if n, err = out.Write(text); err != nil {
		return n, err
	}
	return n, out.Sync()
}

// torn reports whether the file ends in the middle of a line.
func torn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}
