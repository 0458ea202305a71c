// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package planstore

import (
	"errors"
	"fmt"
)

// InvalidError says that what is stored is missing, or is not what was approved. Trying again is no use.
type InvalidError struct {
	// Reason says what is wrong.
	Reason string
}

// Error implements error.
func (e *InvalidError) Error() string { return "the stored plan is invalid: " + e.Reason }

// IsInvalid tells whether an error is, or wraps, an InvalidError.
func IsInvalid(err error) bool {
	var e *InvalidError
	return errors.As(err, &e)
}

func invalid(format string, args ...any) error {
	return &InvalidError{Reason: fmt.Sprintf(format, args...)}
}
