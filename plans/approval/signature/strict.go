// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	errNotObject = errors.New("not one JSON object")
	errBase64    = errors.New("not base64 in its one exact form")
)

// object reads exactly one JSON object: no key twice, nothing behind it. With names, no other keys than those, in that very
// spelling: encoding/json alone would take "Payload" for "payload", and of two the last.
func object(raw []byte, names ...string) (map[string]json.RawMessage, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		if err := member(d, members, names); err != nil {
			return nil, err
		}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') {
		return nil, errNotObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something is behind the JSON object")
	}
	return members, nil
}

// member reads one key and its value.
func member(d *json.Decoder, members map[string]json.RawMessage, names []string) error {
	t, err := d.Token()
	name, ok := t.(string)
	if err != nil || !ok {
		return errNotObject
	}
	if _, twice := members[name]; twice {
		return fmt.Errorf("the key %q is there twice", name)
	}
	if len(names) > 0 && !slices.Contains(names, name) {
		return fmt.Errorf("the key %q is not known", name)
	}
	var value json.RawMessage
	if err := d.Decode(&value); err != nil {
		return errNotObject
	}
	members[name] = value
	return nil
}

// text is a member that is a string. Absent, or something else: not ok.
func text(members map[string]json.RawMessage, name string) (string, bool) {
	raw, ok := members[name]
	if !ok || len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	return s, json.Unmarshal(raw, &s) == nil
}

// strictly decodes base64 that is in the one form that an encoder writes: no line breaks, no spare bits.
func strictly(e *base64.Encoding, s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errBase64
	}
	b, err := e.Strict().DecodeString(s)
	if err != nil {
		return nil, errBase64
	}
	return b, nil
}
