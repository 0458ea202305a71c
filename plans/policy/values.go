// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/plangate/plangate/api/v1alpha1"
)

// unbound is an input that was not known at preview.
type unbound struct{ change, input string }

// meter counts what rules look at, for one decision.
type meter struct{ left int }

// look takes items off what may be looked at.
func (m *meter) look(items int) error {
	if m.left -= items; m.left < 0 {
		return fmt.Errorf("the rules of all policies together look at more than %d items of this plan", planItems)
	}
	return nil
}

// planValue is a plan as expressions see it. The lists are made once for all rules.
type planValue struct {
	spec             *v1alpha1.UpdatePlanSpec
	summary          object
	changes, unbound counted
}

// changeValue is a change as expressions see it. Its properties are made when they are first asked for.
type changeValue struct {
	change     *v1alpha1.ResourceChange
	properties *counted
	meter      *meter
}

// counted is a list whose items count whenever it is read, since who reads it may look at all of them.
type counted struct {
	list  ref.Val
	items int
	meter *meter
}

func newCounted(list []ref.Val, m *meter) counted {
	return counted{list: types.NewRefValList(types.DefaultTypeAdapter, list), items: len(list), meter: m}
}

func (c counted) read() (any, error) { return c.list, c.meter.look(c.items) }

// windowValue is how it stands with the windows.
type windowValue struct {
	open   bool
	active []string
}

// schema holds the fields of each type that expressions see.
var schema = sync.OnceValue(func() map[string]map[string]field {
	list := func(name string) *types.Type { return types.NewListType(types.NewObjectType(name)) }
	text, texts, number, truth := types.StringType, types.NewListType(types.StringType), types.IntType, types.BoolType
	return map[string]map[string]field{
		typePlan: {
			"operation":  of(text, func(p *planValue) any { return string(p.spec.Operation) }),
			"trigger":    of(text, func(p *planValue) any { return string(p.spec.Trigger.Type) }),
			"sequence":   of(number, func(p *planValue) any { return p.spec.Sequence }),
			"revision":   of(text, func(p *planValue) any { return p.spec.Binding.Revision }),
			"repository": of(text, func(p *planValue) any { return p.spec.Binding.Repository }),
			"directory":  of(text, func(p *planValue) any { return p.spec.Binding.Directory }),
			"refresh":    of(truth, func(p *planValue) any { return p.spec.Binding.Refresh }),
			"notAfter":   of(types.TimestampType, func(p *planValue) any { return p.spec.NotAfter.Time }),
			"summary":    of(types.NewObjectType(typeSummary), func(p *planValue) any { return p.summary }),
			"changes":    of(list(typeChange), func(p *planValue) any { return p.changes }).counted(),
			"unbound":    of(list(typeUnbound), func(p *planValue) any { return p.unbound }).counted(),
		},
		typeSummary: {
			"create":  of(number, func(s *v1alpha1.PlanSummary) any { return s.Create }),
			"update":  of(number, func(s *v1alpha1.PlanSummary) any { return s.Update }),
			"replace": of(number, func(s *v1alpha1.PlanSummary) any { return s.Replace }),
			"delete":  of(number, func(s *v1alpha1.PlanSummary) any { return s.Delete }),
			"other":   of(number, func(s *v1alpha1.PlanSummary) any { return s.Other }),
			"same":    of(number, func(s *v1alpha1.PlanSummary) any { return s.Same }),
			"outputs": of(number, func(s *v1alpha1.PlanSummary) any { return s.Outputs }),
			"unbound": of(number, func(s *v1alpha1.PlanSummary) any { return s.Unbound }),
			"brief":   of(text, func(s *v1alpha1.PlanSummary) any { return s.Brief }),
		},
		typeChange: {
			"operation":  of(text, func(c *changeValue) any { return string(c.change.Operation) }),
			"type":       of(text, func(c *changeValue) any { return c.change.Type }),
			"name":       of(text, func(c *changeValue) any { return c.change.Name }),
			"urn":        of(text, func(c *changeValue) any { return c.change.URN }),
			"properties": of(list(typeProperty), func(c *changeValue) any { return c.listProperties() }).counted(),
			"unbound":    of(texts, func(c *changeValue) any { return c.change.Unbound }),
		},
		typeProperty: {
			"path":     of(text, func(p *v1alpha1.PropertyChange) any { return p.Path }),
			"old":      of(text, func(p *v1alpha1.PropertyChange) any { return orEmpty(p.Old) }),
			"new":      of(text, func(p *v1alpha1.PropertyChange) any { return orEmpty(p.New) }),
			"replaces": of(truth, func(p *v1alpha1.PropertyChange) any { return p.Replaces }),
		},
		typeUnbound: {
			"urn":   of(text, func(u *unbound) any { return u.change }),
			"input": of(text, func(u *unbound) any { return u.input }),
		},
		typeStack: {
			"name":      of(text, func(s *Stack) any { return s.Name }),
			"namespace": of(text, func(s *Stack) any { return s.Namespace }),
			"labels":    of(types.NewMapType(text, text), func(s *Stack) any { return s.Labels }),
		},
		typeAuthor: {
			"spec":      of(text, func(o *Origin) any { return o.SpecAuthor }),
			"requester": of(text, func(o *Origin) any { return o.Requester }),
			"commits":   of(texts, func(o *Origin) any { return o.CommitAuthors }),
		},
		typeWindow: {
			"open":   of(truth, func(w *windowValue) any { return w.open }),
			"active": of(texts, func(w *windowValue) any { return w.active }),
		},
	}
})

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// listProperties makes the list of a change's properties, once.
func (c *changeValue) listProperties() counted {
	if c.properties == nil {
		list := make([]ref.Val, len(c.change.Properties))
		for i := range c.change.Properties {
			list[i] = newObject(typeProperty, &c.change.Properties[i])
		}
		properties := newCounted(list, c.meter)
		c.properties = &properties
	}
	return *c.properties
}

// newPlanValue makes a plan with all its changes. Nothing of it is shared between decisions.
func newPlanValue(spec *v1alpha1.UpdatePlanSpec, changes []v1alpha1.ResourceChange) object {
	m := &meter{left: planItems}
	listed := make([]ref.Val, len(changes))
	var loose []ref.Val
	for i := range changes {
		listed[i] = newObject(typeChange, &changeValue{change: &changes[i], meter: m})
		for _, input := range changes[i].Unbound {
			loose = append(loose, newObject(typeUnbound, &unbound{change: changes[i].URN, input: input}))
		}
	}
	return newObject(typePlan, &planValue{
		spec: spec, summary: newObject(typeSummary, &spec.Summary), changes: newCounted(listed, m), unbound: newCounted(loose, m),
	})
}

// variables are what expressions see, but for window, which is each policy's own.
func variables(in *Input) map[string]any {
	return map[string]any{
		"plan":   newPlanValue(&in.Plan.Spec, in.Changes),
		"stack":  newObject(typeStack, &in.Stack),
		"author": newObject(typeAuthor, &in.Origin),
		"now":    in.Now.UTC().Truncate(time.Second),
	}
}
