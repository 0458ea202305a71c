// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package planstore

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

const (
	reportTextKey   = "report.txt"
	reportKey       = "report.json"
	reportPackedKey = "report.json.gz"
	// maxReportText bounds the text of a report, in bytes.
	maxReportText = 256 << 10
)

// Report is what is kept of a look at the real resources, secrets masked.
type Report struct {
	// Text is for people; it is shortened to what fits.
	Text string
	// JSON is the whole; it is compressed when it is long, and left out when it is too long even so.
	JSON []byte
}

// PutReport writes a report to a ConfigMap of the given name, over the last one, and returns the name. Unlike a plan's changes
// nothing is bound to it.
func (s *Store) PutReport(ctx context.Context, o Object, name string, report Report) (string, error) {
	cm := &corev1.ConfigMap{ObjectMeta: o.meta(name, v1alpha1.ComponentDriftReport), Data: map[string]string{}}
	text := report.Text
	if len(text) > maxReportText {
		text = text[:maxReportText] + "\n… and more: see " + reportKey + "\n"
	}
	cm.Data[reportTextKey] = text
	if len(report.JSON) <= maxChunk-maxReportText {
		cm.Data[reportKey] = string(report.JSON)
	} else {
		packed, err := pack(report.JSON)
		if err != nil {
			return "", fmt.Errorf("storing the report: %w", err)
		}
		if len(packed) <= maxChunk-maxReportText {
			cm.BinaryData = map[string][]byte{reportPackedKey: packed}
		}
	}
	var there corev1.ConfigMap
	err := s.reader.Get(ctx, client.ObjectKeyFromObject(cm), &there)
	switch {
	case apierrors.IsNotFound(err):
		err = s.client.Create(ctx, cm)
	case err != nil:
	case there.Labels[v1alpha1.LabelComponent] != v1alpha1.ComponentDriftReport:
		return "", fmt.Errorf("storing the report: the ConfigMap %q is there and is something else; delete it if nothing needs it", name)
	case reflect.DeepEqual(there.Data, cm.Data) && reflect.DeepEqual(there.BinaryData, cm.BinaryData):
		return name, nil
	default:
		before := there.DeepCopy()
		there.Data, there.BinaryData = cm.Data, cm.BinaryData
		err = s.client.Patch(ctx, &there, client.MergeFrom(before))
	}
	if err != nil {
		return "", fmt.Errorf("storing the report: writing ConfigMap %q: %w", name, err)
	}
	return name, nil
}
