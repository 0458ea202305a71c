// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package plans

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plangate/plangate/api/v1alpha1"
)

func changesOf(ops ...v1alpha1.ChangeOperation) []v1alpha1.ResourceChange {
	var changes []v1alpha1.ResourceChange
	for i, op := range ops {
		c := v1alpha1.ResourceChange{Operation: op, Type: "t", Name: "n", URN: fmt.Sprintf("urn:%02d", i)}
		if op == v1alpha1.ChangeOutputs {
			c.Properties, c.MoreProperties = []v1alpha1.PropertyChange{{Path: "a"}, {Path: "b"}}, 1
		}
		changes = append(changes, c)
	}
	return changes
}

func TestNewSortsTheDestructiveFirst(t *testing.T) {
	p := New(append(changesOf(v1alpha1.ChangeSame, v1alpha1.ChangeOutputs, v1alpha1.ChangeRead, v1alpha1.ChangeRefresh, v1alpha1.ChangeImport,
		v1alpha1.ChangeCreate, v1alpha1.ChangeUpdate, v1alpha1.ChangeRemove, v1alpha1.ChangeOther, "Unheard", v1alpha1.ChangeReplace, v1alpha1.ChangeDelete, v1alpha1.ChangeDelete),
		v1alpha1.ResourceChange{Operation: v1alpha1.ChangeDelete, Type: "pulumi:providers:aws", Name: "default_6_0", URN: "urn:00"}), 0)
	var got []string
	for _, c := range p.Changes {
		got = append(got, string(c.Operation)+" "+c.Type)
	}
	want := []string{"Delete t", "Delete t", "Replace t", "Other t", "Unheard t", "Remove t", "Update t", "Create t", "Import t", "Refresh t", "Read t", "Outputs t", "Same t", "Delete pulumi:providers:aws"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("New(): -want +got\n%s", diff)
	}
}

func TestSummarize(t *testing.T) {
	provider := v1alpha1.ResourceChange{Operation: v1alpha1.ChangeCreate, Type: "pulumi:providers:files", Name: "default"}
	mine := v1alpha1.ResourceChange{Operation: v1alpha1.ChangeCreate, Type: "pulumi:providers:files", Name: "mine"}
	unbound := v1alpha1.ResourceChange{Operation: v1alpha1.ChangeUpdate, Unbound: []string{"a", "b"}}
	for name, tc := range map[string]struct {
		reason  string
		changes []v1alpha1.ResourceChange
		brief   string
		empty   bool
	}{
		"nothing":      {"", nil, "no changes", true},
		"all four":     {"the order of severity upwards", changesOf("Create", "Update", "Update", "Replace", "Delete"), "+1 ~2 -/+1 -1", false},
		"outputs":      {"", changesOf("Outputs"), "outputs only", false},
		"import":       {"nothing else would say it", changesOf("Import"), "1 other", false},
		"mixed":        {"", changesOf("Create", "Remove", "Other"), "+1, 2 other", false},
		"reads":        {"a read changes nothing", changesOf("Read", "Same"), "no changes", true},
		"drift":        {"what the plan does not put back is no reason to apply", changesOf("Refresh"), "no changes, 1 drifted", true},
		"drift, fixed": {"", changesOf("Refresh", "Update"), "~1, 1 drifted", false},
		"bookkeeping":  {"an apply is needed, but nothing in the world changes", []v1alpha1.ResourceChange{provider}, "bookkeeping only", false},
		"a provider":   {"one that the program asks for counts", []v1alpha1.ResourceChange{provider, mine}, "+1", false},
		"unbound":      {"", []v1alpha1.ResourceChange{unbound}, "~1, 2 unbound", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(tc.changes, 3)
			if p.Summary.Brief != tc.brief || p.Empty() != tc.empty || p.Summary.Same < 3 {
				t.Errorf("New() = %+v, empty %t; want %q, empty %t (%s)", p.Summary, p.Empty(), tc.brief, tc.empty, tc.reason)
			}
		})
	}
	got := Summarize(changesOf("Create", "Update", "Replace", "Delete", "Import", "Read", "Refresh", "Remove", "Outputs", "Same", "Other"), 9)
	want := v1alpha1.PlanSummary{Brief: "+1 ~1 -/+1 -1, 3 other, 1 drifted", Create: 1, Update: 1, Replace: 1, Delete: 1, Other: 5, Same: 10, Outputs: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Summarize(): -want +got\n%s", diff)
	}
}

// TestFirstFitsAnObject: whatever the changes, the listed ones fit into an object and nothing is left out in silence.
func TestFirstFitsAnObject(t *testing.T) {
	long := strings.Repeat("v", 512)
	var large []v1alpha1.ResourceChange
	for i := range 300 {
		c := v1alpha1.ResourceChange{Operation: v1alpha1.ChangeUpdate, URN: fmt.Sprintf("urn:%03d", i)}
		for j := range 80 {
			c.Properties = append(c.Properties, v1alpha1.PropertyChange{Path: fmt.Sprint(j), Old: &long, New: &long})
			c.Unbound = append(c.Unbound, fmt.Sprint(j))
		}
		large = append(large, c)
	}
	p := New(large, 0)
	listed := p.First(MaxListed)
	b, err := json.Marshal(listed)
	if err != nil || len(b) > maxListedBytes+2*MaxListed {
		t.Errorf("First() gives %d bytes (%v)", len(b), err)
	}
	if len(listed) != MaxListed || p.Fits() {
		t.Errorf("First() lists %d, Fits() = %t", len(listed), p.Fits())
	}
	for _, c := range listed {
		if len(c.Properties)+int(c.MoreProperties) != 80 || len(c.Properties) > 50 || len(c.Unbound) > 50 {
			t.Fatalf("%s lists %d properties, %d more, %d unbound", c.URN, len(c.Properties), c.MoreProperties, len(c.Unbound))
		}
	}
	if p.Summary.Unbound != 300*80 {
		t.Errorf("unbound = %d: not counted over all", p.Summary.Unbound)
	}
	if small := New(changesOf("Create", "Delete"), 0); !small.Fits() || len(small.First(1)) != 1 {
		t.Error("a small plan does not fit")
	}
}

func TestMasked(t *testing.T) {
	value := `"postgres://admin:hunter2@db"`
	p := New([]v1alpha1.ResourceChange{{Operation: "Create", Name: "x-hunter2", Properties: []v1alpha1.PropertyChange{{Path: "url", New: &value}}, Unbound: []string{"hunter2"}}}, 0)
	masked := p.Masked([]string{"hunter2"})
	b, err := json.Marshal(masked)
	if err != nil || strings.Contains(string(b), "hunter2") {
		t.Errorf("Masked() = %s (%v)", b, err)
	}
	if got := *masked.Changes[0].Properties[0].New; got != `"postgres://admin:[secret]@db"` {
		t.Errorf("Masked() shows %s", got)
	}
	if *p.Changes[0].Properties[0].New != value || p.Changes[0].Unbound[0] != "hunter2" {
		t.Error("Masked() changed the plan that it was asked of")
	}
}
