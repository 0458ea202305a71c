// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import "bytes"

// keep writes an event of a real update down as it comes, so that what was done is known also when this process dies.
func (x *execution) keep(phase int, event []byte) {
	if !x.op.Type.Mutates() || phase < 2 || x.lost {
		return
	}
	var err error
	if x.trail == nil {
		x.trail, err = x.journal.Trail(x.op.ID)
	}
	if err == nil {
		_, err = x.trail.Write(append(bytes.TrimSpace(x.mask.Events(append(event[:len(event):len(event)], '\n'))), '\n'))
	}
	if err != nil {
		x.lost = true
		x.config.Log.Error(err, "Could not keep what the update does as it does it")
	}
}
