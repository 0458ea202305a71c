// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumiplan

import (
	"slices"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/redact"
)

// maxProperties bounds how many properties of one resource are described.
const maxProperties = 2000

// changes returns what happens to a resource, and 1 when it stays as it is and there is nothing to say of it.
func (rec *record) changes() ([]v1alpha1.ResourceChange, int) {
	main := operation(rec.all())
	found := rec.besides(main)
	if main == v1alpha1.ChangeDelete || main == "" {
		return found, 0
	}
	properties, unbound := rec.properties(main), rec.unbound()
	if main != v1alpha1.ChangeSame {
		return append(found, rec.change(main, properties, unbound)), 0
	}
	if len(rec.options()) > 0 {
		// Pulumi counts it as unchanged, but an apply is needed for the option to take effect.
		return append(found, rec.change(v1alpha1.ChangeUpdate, properties, unbound)), 0
	}
	if len(properties)+len(unbound) == 0 {
		return found, rec.countsAsSame()
	}
	return append(found, rec.change(main, properties, unbound)), 0
}

// besides returns what happens beside the main change: an instance that is deleted, drift, and the stack's outputs.
func (rec *record) besides(main v1alpha1.ChangeOperation) []v1alpha1.ResourceChange {
	var found []v1alpha1.ResourceChange
	if rec.leftBehind() || main == v1alpha1.ChangeDelete {
		op := v1alpha1.ChangeDelete
		if rec.deleted != nil && rec.deleted.RetainOnDelete {
			op = v1alpha1.ChangeRemove
		}
		found = append(found, rec.change(op, rec.deletedProperties(), nil))
	}
	if rec.refreshed != nil {
		if moved := rec.drift(); len(moved) > 0 {
			found = append(found, rec.change(v1alpha1.ChangeRefresh, moved, nil))
		}
	}
	if typ, _ := typeAndName(rec.urn); typ == stackType {
		if outputs := rec.outputs(); len(outputs) > 0 {
			found = append(found, rec.change(v1alpha1.ChangeOutputs, outputs, nil))
		}
	}
	return found
}

// operations are what steps come to: the first that one of the steps belongs to.
var operations = []struct {
	operation v1alpha1.ChangeOperation
	steps     []apitype.OpType
}{
	{v1alpha1.ChangeReplace, []apitype.OpType{apitype.OpReplace, apitype.OpCreateReplacement, apitype.OpImportReplacement}},
	{v1alpha1.ChangeCreate, []apitype.OpType{apitype.OpCreate}},
	{v1alpha1.ChangeUpdate, []apitype.OpType{apitype.OpUpdate}},
	{v1alpha1.ChangeImport, []apitype.OpType{apitype.OpImport}},
	{v1alpha1.ChangeRead, []apitype.OpType{apitype.OpRead, apitype.OpReadReplacement}},
	{v1alpha1.ChangeSame, []apitype.OpType{apitype.OpSame}},
	{v1alpha1.ChangeDelete, []apitype.OpType{apitype.OpDelete, apitype.OpDeleteReplaced}},
	{v1alpha1.ChangeRemove, []apitype.OpType{apitype.OpReadDiscard, apitype.OpDiscardReplaced, apitype.OpRemovePendingReplace}},
}

// operation says in a word what a resource's steps come to, leaving aside an instance that is deleted by the way. It is
// empty when there are none.
func operation(steps []apitype.OpType) v1alpha1.ChangeOperation {
	has := func(op apitype.OpType) bool { return slices.Contains(steps, op) }
	if slices.ContainsFunc(steps, foreign) {
		return v1alpha1.ChangeOther
	}
	if has(apitype.OpReadReplacement) && has(apitype.OpDiscardReplaced) && !has(apitype.OpDeleteReplaced) {
		return v1alpha1.ChangeRead // one that was only read is read again, under another id
	}
	for _, o := range operations {
		if slices.ContainsFunc(o.steps, has) {
			return o.operation
		}
	}
	return ""
}

// leftBehind tells whether an instance is deleted that no replacement of this plan has made superfluous.
func (rec *record) leftBehind() bool {
	steps := rec.all()
	op := operation(steps)
	if op == v1alpha1.ChangeDelete {
		return false
	}
	if slices.Contains(steps, apitype.OpDelete) {
		return true
	}
	return op != v1alpha1.ChangeReplace && slices.Contains(steps, apitype.OpDeleteReplaced)
}

// foreign tells whether a step is one that this version does not know.
func foreign(op apitype.OpType) bool {
	switch op {
	case apitype.OpSame, apitype.OpCreate, apitype.OpUpdate, apitype.OpDelete, apitype.OpReplace, apitype.OpCreateReplacement,
		apitype.OpDeleteReplaced, apitype.OpRead, apitype.OpReadReplacement, apitype.OpRefresh, apitype.OpReadDiscard,
		apitype.OpDiscardReplaced, apitype.OpRemovePendingReplace, apitype.OpImport, apitype.OpImportReplacement:
		return false
	}
	return true
}

// countsAsSame leaves out what Pulumi keeps for itself.
func (rec *record) countsAsSame() int {
	if typ, name := typeAndName(rec.urn); plans.Bookkeeping(typ, name) {
		return 0
	}
	return 1
}

// change puts an entry together, within the limits of the API's fields.
func (rec *record) change(op v1alpha1.ChangeOperation, properties []v1alpha1.PropertyChange, unbound []string) v1alpha1.ResourceChange {
	typ, name := typeAndName(rec.urn)
	c := v1alpha1.ResourceChange{
		Operation:  op,
		Type:       redact.Shorten(redact.Printable(typ), 512),
		Name:       redact.Shorten(redact.Printable(name), 512),
		URN:        redact.Shorten(redact.Printable(rec.urn), 2048),
		Properties: properties,
		Unbound:    unbound,
	}
	if more := len(properties) - maxProperties; more > 0 {
		c.Properties, c.MoreProperties = properties[:maxProperties], int32(more) //nolint:gosec // bounded by the file's size
	}
	return c
}
