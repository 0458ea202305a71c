// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/tests/builder"
)

const (
	wantOneRevision = "set exactly one of spec.branch and spec.commit"
	wantOneMember   = "set the member that type names, and no other"
	wantInside      = "repoDir must stay inside the repository: no leading / and no .."
)

func TestStackSource(t *testing.T) {
	base := builder.Stack(newNamespace(t), "web").Obj()
	commit := all(unset("spec.branch"), set("spec.commit", builder.Commit))
	testVerdicts(t, base, map[string]verdictCase{
		"a branch alone":    {edit: all(), reason: "the plain case"},
		"a commit alone":    {edit: commit, reason: "a pinned Stack"},
		"a SHA-256 commit":  {edit: all(unset("spec.branch"), set("spec.commit", strings.Repeat("0a", 32))), reason: "newer repositories"},
		"neither":           {edit: unset("spec.branch"), want: wantOneRevision, reason: "there is nothing to resolve"},
		"both":              {edit: set("spec.commit", builder.Commit), want: wantOneRevision, reason: "they could disagree"},
		"a short commit":    {edit: all(commit, set("spec.commit", builder.Commit[:12])), want: "spec.commit", reason: "a short id can become ambiguous"},
		"an upper-case one": {edit: all(commit, set("spec.commit", strings.ToUpper(builder.Commit))), want: "spec.commit", reason: "it is compared as text"},

		"a full branch":         {edit: set("spec.branch", "refs/heads/main"), reason: "pulumi.com/v1 takes both forms"},
		"a tag":                 {edit: set("spec.branch", "refs/tags/v1.2.3"), reason: "a full reference is taken as it is"},
		"a branch with slashes": {edit: set("spec.branch", "feature/a-b_c.d"), reason: "git allows it"},
		"an empty branch":       {edit: set("spec.branch", ""), want: "spec.branch", reason: "present but empty is neither a branch nor absent"},
		"a branch like a flag":  {edit: set("spec.branch", "--upload-pack=x"), want: "spec.branch", reason: "git would take it for a flag"},
		"a branch with a blank": {edit: set("spec.branch", "a b"), want: "spec.branch", reason: "git forbids it"},
		"a refspec":             {edit: set("spec.branch", "main:other"), want: "spec.branch", reason: "it would write a reference"},
		"a pattern":             {edit: set("spec.branch", "release-*"), want: "spec.branch", reason: "one branch is wanted"},
		"an expression":         {edit: set("spec.branch", "main~1"), want: "spec.branch", reason: "one branch is wanted"},
		"a long branch":         {edit: set("spec.branch", strings.Repeat("b", 256)), want: "spec.branch", reason: "names are bounded"},

		"https":               {edit: set("spec.projectRepo", "https://git.example.com/a/b.git"), reason: "the plain case"},
		"http with a port":    {edit: set("spec.projectRepo", "http://git.example.com:8080/b"), reason: "a server inside the cluster"},
		"git":                 {edit: set("spec.projectRepo", "git://git.example.com/b"), reason: "anonymous git"},
		"ssh":                 {edit: set("spec.projectRepo", "ssh://git.example.com/b"), reason: "the client's own user"},
		"ssh with a user":     {edit: set("spec.projectRepo", "ssh://git@git.example.com/b"), reason: "a user name is no secret"},
		"no repository":       {edit: unset("spec.projectRepo"), want: "spec.projectRepo: Required value", reason: "there is no other source"},
		"an empty repository": {edit: set("spec.projectRepo", ""), want: "spec.projectRepo", reason: "there is no other source"},
		"a token in the URL":  {edit: set("spec.projectRepo", "https://token@git.example.com/b"), want: "spec.projectRepo", reason: "everybody who reads the Stack would have it"},
		"a password in the URL": {
			edit: set("spec.projectRepo", "https://me:secret@git.example.com/b"), want: "spec.projectRepo", reason: "everybody who reads the Stack would have it",
		},
		"a password for ssh": {edit: set("spec.projectRepo", "ssh://me:secret@git.example.com/b"), want: "spec.projectRepo", reason: "everybody who reads the Stack would have it"},
		"a local folder":     {edit: set("spec.projectRepo", "file:///etc"), want: "spec.projectRepo", reason: "it would be read in the operator"},
		"a plain path":       {edit: set("spec.projectRepo", "/etc"), want: "spec.projectRepo", reason: "it would be read in the operator"},
		"scp's form":         {edit: set("spec.projectRepo", "git@git.example.com:b"), want: "spec.projectRepo", reason: "one form is enough: ssh://"},
		"git's ext helper":   {edit: set("spec.projectRepo", "ext::sh -c true"), want: "spec.projectRepo", reason: "it runs a command"},

		"a folder":            {edit: set("spec.repoDir", "infra/web"), reason: "the plain case"},
		"dots in a name":      {edit: set("spec.repoDir", "a..b/...c"), reason: "only the name .. leaves a folder"},
		"an empty folder":     {edit: set("spec.repoDir", ""), reason: "the root, as if absent"},
		"an absolute folder":  {edit: set("spec.repoDir", "/etc"), want: wantInside, reason: "it leaves the repository"},
		"the folder above":    {edit: set("spec.repoDir", ".."), want: wantInside, reason: "it leaves the repository"},
		"a way out":           {edit: set("spec.repoDir", "../../etc"), want: wantInside, reason: "it leaves the repository"},
		"a way out, then in":  {edit: set("spec.repoDir", "a/../b"), want: wantInside, reason: "it needs following to be judged"},
		"a way out, trailing": {edit: set("spec.repoDir", "a/.."), want: wantInside, reason: "it needs following to be judged"},
	})
}

func TestStackPlanSettings(t *testing.T) {
	base := builder.Stack(newNamespace(t), "web").Obj()
	testVerdicts(t, base, map[string]verdictCase{
		"nothing set":               {edit: set("spec.plan", map[string]any{}), reason: "all has defaults"},
		"a day":                     {edit: set("spec.plan.timeToLive", "24h"), reason: "the plain case"},
		"a moment":                  {edit: set("spec.plan.timeToLive", "1ns"), reason: "useless, and allowed"},
		"no time":                   {edit: set("spec.plan.timeToLive", "0s"), want: "timeToLive must be more than nothing", reason: "each plan would be born expired"},
		"less than no time":         {edit: set("spec.plan.timeToLive", "-1h"), want: "timeToLive must be more than nothing", reason: "each plan would be born expired"},
		"a number":                  {edit: set("spec.plan.timeToLive", int64(60)), want: "spec.plan.timeToLive", reason: "of what?"},
		"no duration":               {edit: set("spec.plan.timeToLive", "soon"), want: "spec.plan.timeToLive", reason: "it cannot be understood"},
		"one ended plan":            {edit: set("spec.plan.historyLimit", int64(1)), reason: "the least"},
		"a hundred":                 {edit: set("spec.plan.historyLimit", int64(100)), reason: "the most"},
		"none":                      {edit: set("spec.plan.historyLimit", int64(0)), want: "spec.plan.historyLimit", reason: "the chain needs its head"},
		"more than anybody can see": {edit: set("spec.plan.historyLimit", int64(101)), want: "spec.plan.historyLimit", reason: "objects are not an archive"},
	})
}

func TestStackNames(t *testing.T) {
	base := builder.Stack(newNamespace(t), "web").Obj()
	testVerdicts(t, base, map[string]verdictCase{
		"42 characters":    {edit: set("metadata.name", strings.Repeat("n", 42)), reason: "the longest that leaves room for a plan's name"},
		"43 characters":    {edit: set("metadata.name", strings.Repeat("n", 43)), want: "metadata.name may have at most 42 characters", reason: "a plan's name is derived from it"},
		"name":             {edit: set("spec.stack", "dev"), reason: "the plain case"},
		"project/name":     {edit: set("spec.stack", "proj/dev"), reason: "Pulumi takes it"},
		"org/project/name": {edit: set("spec.stack", "my-org/proj.x/dev_1"), reason: "Pulumi takes it"},
		"four parts":       {edit: set("spec.stack", "a/b/c/d"), want: "spec.stack", reason: "Pulumi does not take it"},
		"an empty part":    {edit: set("spec.stack", "a//c"), want: "spec.stack", reason: "Pulumi does not take it"},
		"a leading slash":  {edit: set("spec.stack", "/dev"), want: "spec.stack", reason: "Pulumi does not take it"},
		"a blank":          {edit: set("spec.stack", "de v"), want: "spec.stack", reason: "Pulumi does not take it"},
		"a line's end":     {edit: set("spec.stack", "dev\n"), want: "spec.stack", reason: "$ must not match before it"},
		"no stack":         {edit: unset("spec.stack"), want: "spec.stack: Required value", reason: "there is no default"},
		"an empty stack":   {edit: set("spec.stack", ""), want: "spec.stack", reason: "there is no default"},
		"too long":         {edit: set("spec.stack", strings.Repeat("s", 301)), want: "spec.stack: Too long", reason: "names are bounded"},
		"no spec":          {edit: unset("spec"), want: "spec: Required value", reason: "a Stack says something"},
		"a backend":        {edit: set("spec.backend", "s3://bucket/prefix?region=x"), reason: "the plain case"},
		"an empty backend": {edit: set("spec.backend", ""), want: "spec.backend", reason: "present but empty would mean Pulumi Cloud by mistake"},
	})
}

func TestStackValues(t *testing.T) {
	base := builder.Stack(newNamespace(t), "web").Obj()
	ref := func(value any) edit { return set("spec.envRefs.TOKEN", value) }
	secret := map[string]any{"name": "s", "key": "k"}
	literal := map[string]any{"value": "v"}
	tooMany := map[string]any{}
	for i := range 1001 {
		tooMany[fmt.Sprint("key", i)] = "v"
	}
	testVerdicts(t, base, map[string]verdictCase{
		"a Secret":            {edit: ref(map[string]any{"type": "Secret", "secret": secret}), reason: "the plain case"},
		"a literal":           {edit: ref(map[string]any{"type": "Literal", "literal": literal}), reason: "the plain case"},
		"an empty literal":    {edit: ref(map[string]any{"type": "Literal", "literal": map[string]any{"value": ""}}), reason: "an empty variable is a value"},
		"a literal of none":   {edit: ref(map[string]any{"type": "Literal", "literal": map[string]any{}}), want: "literal.value: Required value", reason: "a forgotten value is no empty one"},
		"the wrong member":    {edit: ref(map[string]any{"type": "Secret", "literal": literal}), want: wantOneMember, reason: "type and member disagree"},
		"the other wrong one": {edit: ref(map[string]any{"type": "Literal", "secret": secret}), want: wantOneMember, reason: "type and member disagree"},
		"both members":        {edit: ref(map[string]any{"type": "Secret", "secret": secret, "literal": literal}), want: wantOneMember, reason: "one would be ignored"},
		"no member":           {edit: ref(map[string]any{"type": "Secret"}), want: wantOneMember, reason: "there is no value"},
		"no type":             {edit: ref(map[string]any{"secret": secret}), want: "spec.envRefs.TOKEN.type: Required value", reason: "type decides"},
		"PKO's Env":           {edit: ref(map[string]any{"type": "Env"}), want: `Unsupported value: "Env"`, reason: "the operator's environment is not the Stack's to read"},
		"PKO's FS":            {edit: ref(map[string]any{"type": "FS"}), want: `Unsupported value: "FS"`, reason: "the operator's files are not the Stack's to read"},
		"no key":              {edit: ref(map[string]any{"type": "Secret", "secret": map[string]any{"name": "s"}}), want: "secret.key: Required value", reason: "a Secret has many"},
		"an empty name":       {edit: ref(map[string]any{"type": "Secret", "secret": map[string]any{"name": "", "key": "k"}}), want: "secret.name", reason: "no Secret has it"},
		"another namespace": {
			edit: ref(map[string]any{"type": "Secret", "secret": map[string]any{"name": "s", "key": "k", "namespace": "other"}}),
			want: "unknown field", reason: "PKO's deprecated field; a Stack reads its own namespace alone",
		},
		"secretsRef too": {edit: set("spec.secretsRef.key", map[string]any{"type": "Secret"}), want: wantOneMember, reason: "the same rule"},

		"any JSON": {
			edit:   set("spec.config", map[string]any{"a": "text", "proj:b": 1.5, "c": true, "d": []any{1, "x"}, "e": map[string]any{"f": map[string]any{"g": "h"}}}),
			reason: "Pulumi's configuration is any JSON",
		},
		"too many keys":    {edit: set("spec.config", tooMany), want: "spec.config: Too many", reason: "the object is bounded"},
		"an empty config":  {edit: set("spec.config", map[string]any{}), reason: "as if absent"},
		"config as a list": {edit: set("spec.config", []any{"a"}), want: "spec.config", reason: "keys have names"},
	})
}

func TestStackUnknownFields(t *testing.T) {
	base := builder.Stack(newNamespace(t), "web").Obj()
	testVerdicts(t, base, map[string]verdictCase{
		"a misspelled field": {edit: set("spec.brnach", "main"), want: `unknown field "spec.brnach"`, reason: "never ignored in silence"},
		"an unserved field":  {edit: set("spec.fluxSource", map[string]any{}), want: `unknown field "spec.fluxSource"`, reason: "never ignored in silence"},
		"an unknown member":  {edit: set("spec.envRefs.A", map[string]any{"type": "Literal", "literal": map[string]any{"value": "v", "x": 1}}), want: "unknown field", reason: "at any depth"},
		"beside the spec":    {edit: set("program", map[string]any{}), want: `unknown field "program"`, reason: "at any depth"},
	})
}

func TestStackWorkspaceTemplate(t *testing.T) {
	namespace := newNamespace(t)
	template := map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}},
		"spec": map[string]any{
			"image":       "localhost/image:1",
			"podTemplate": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "pulumi", "env": []any{map[string]any{"name": "A"}}}}}},
			"notAField":   map[string]any{"deep": []any{"kept", 1.5, true, nil}},
		},
	}

	t.Run("arbitrary fields are kept as they are", func(t *testing.T) {
		g := NewWithT(t)
		stack := builder.Stack(namespace, "kept").WorkspaceTemplate(template).Obj()
		g.Expect(world.client.Create(t.Context(), stack)).To(Succeed())
		kept := &unstructured.Unstructured{}
		kept.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Stack"))
		g.Expect(world.client.Get(t.Context(), client.ObjectKeyFromObject(stack), kept)).To(Succeed())
		got, _, err := unstructured.NestedMap(kept.Object, "spec", "workspaceTemplate")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(onWire(got)).To(Equal(onWire(template)))
	})

	testVerdicts(t, builder.Stack(namespace, "web").Obj(), map[string]verdictCase{
		"an empty template": {edit: set("spec.workspaceTemplate", map[string]any{}), reason: "nothing is laid over"},
		"a text":            {edit: set("spec.workspaceTemplate", "text"), want: "spec.workspaceTemplate", reason: "it is laid over an object"},
		"a list":            {edit: set("spec.workspaceTemplate", []any{}), want: "spec.workspaceTemplate", reason: "it is laid over an object"},
	})
}

// A change that the rules forbid is refused on an update as well: the rules hold for each write, not for creation alone.
func TestStackUpdate(t *testing.T) {
	g := NewWithT(t)
	stack := builder.Stack(newNamespace(t), "web").Config("a", "b").Obj()
	g.Expect(world.client.Create(t.Context(), stack)).To(Succeed())
	g.Expect(stack.Generation).To(Equal(int64(1)))

	stack.Spec.Commit = builder.Commit
	g.Expect(world.client.Update(t.Context(), stack.DeepCopy())).To(MatchError(ContainSubstring(wantOneRevision)))
	stack.Spec.Branch = ""
	g.Expect(world.client.Update(t.Context(), stack)).To(Succeed())
	g.Expect(stack.Generation).To(Equal(int64(2)), "a new spec is a new generation")
}
