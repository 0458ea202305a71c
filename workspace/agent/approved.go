// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
	"github.com/plangate/plangate/workspace"
)

const (
	// clockTolerance is how far the clocks of operator and pod may be apart.
	clockTolerance = 2 * time.Minute
	// maxRequired bounds the file with required signers.
	maxRequired = 1 << 20
)

// required is the content of Config.RequireSigners, in YAML or JSON. Nobody but whoever may change that file can make the
// agent apply something that none of these signers has signed: neither a forged status nor the operator itself.
type required struct {
	// Cluster is the id that statements must name. Empty: the one that the operator says.
	Cluster string `json:"cluster"`
	// Count is how many distinct signers must have signed. Absent: 1.
	Count *int `json:"count"`
	// Signers are the trusted signers, as a policy has them in spec.signers.
	Signers json.RawMessage `json:"signers"`
}

// approved verifies again, before anything else is done, that exactly this plan was approved: what the operator read from a
// status, which somebody may have forged.
func (x *execution) approved(context.Context) error {
	err := x.checkApproval()
	if err != nil {
		return fail(workspace.ReasonApprovalInvalid, fmt.Errorf("not applied: %w", err))
	}
	return nil
}

func (x *execution) checkApproval() error {
	a := x.op.Approval
	if a == nil {
		if x.config.RequireSigners != "" {
			return errors.New("approval: none came with the plan, and this workspace requires a signature")
		}
		return nil
	}
	stated, err := plans.Parse(a.Statement)
	if err != nil {
		return fmt.Errorf("approval: %w", err)
	}
	if a.Cluster == "" || stated.Predicate.Cluster != a.Cluster {
		return fmt.Errorf("statement: it is of cluster %q, not %q", stated.Predicate.Cluster, a.Cluster)
	}
	if until, err := time.Parse(time.RFC3339, stated.Predicate.NotAfter); err != nil || x.out.StartedAt.After(until.Add(clockTolerance)) {
		return fmt.Errorf("statement: the plan expired at %s", stated.Predicate.NotAfter)
	}
	if err := x.isStated(stated); err != nil {
		return err
	}
	for i := range a.Decisions {
		if err := x.counted(a, &a.Decisions[i]); err != nil {
			return fmt.Errorf("decisions[%d], by %q: %w", i, a.Decisions[i].By, err)
		}
	}
	return x.signedAsRequired(a)
}

// doneBy is the one type of operation that does what a statement's operation says. What was approved as an update never
// destroys, and the other way round.
var doneBy = map[string]workspace.OperationType{
	"Update":  workspace.Apply,
	"Destroy": workspace.Destroy,
	"Refresh": workspace.Accept,
}

// isStated compares what is asked for with what was approved.
func (x *execution) isStated(stated plans.Statement) error {
	is, bound := x.op, stated.Predicate.Binding
	if want := doneBy[string(stated.Predicate.Operation)]; want != is.Type {
		return fmt.Errorf("statement: operation is %s, but %s is asked for", stated.Predicate.Operation, is.Type)
	}
	plugins := make([]workspace.Plugin, 0, len(bound.Plugins))
	for _, p := range bound.Plugins {
		plugins = append(plugins, workspace.Plugin(p))
	}
	fields := []struct{ name, want, is string }{
		{"the plan file's digest", "sha256:" + stated.Subject[0].Digest.SHA256, digestOf(is.Plan)},
		{"binding.revision", bound.Revision, is.Expect.Commit},
		{"binding.tree", bound.Tree, is.Expect.Tree},
		{"binding.stateDigest", bound.StateDigest, is.Expect.StateDigest},
		{"binding.pulumiVersion", bound.PulumiVersion, is.Expect.PulumiVersion},
		{"binding.plugins", fmt.Sprint(plugins), fmt.Sprint(append([]workspace.Plugin{}, is.Expect.Plugins...))},
		{"binding.driftDigest", bound.DriftDigest, is.Expect.DriftDigest},
		{"binding.targets", fmt.Sprint(append([]string{}, bound.Targets...)), fmt.Sprint(append([]string{}, is.Options.Targets...))},
		{"binding.targetDependents", fmt.Sprint(bound.TargetDependents), fmt.Sprint(is.Options.TargetDependents)},
		{"binding.refresh", fmt.Sprint(bound.Refresh), fmt.Sprint(is.Options.Refresh)},
	}
	if is.Type.NeedsSource() {
		fields = append(fields, []struct{ name, want, is string }{
			{"binding.repository", bound.Repository, is.Source.URL},
			{"binding.directory", bound.Directory, is.Source.Dir},
			{"binding.revision", bound.Revision, is.Source.Commit},
		}...)
	}
	for _, f := range fields {
		if f.want != f.is {
			return fmt.Errorf("statement: %s is %s, but %s is asked for", f.name, cut(short(f.want), 256), cut(short(f.is), 256))
		}
	}
	return nil
}

// counted verifies one approval that the operator counted. Of a person's only the record can be compared.
func (x *execution) counted(a *workspace.Approval, d *workspace.Decision) error {
	if digest := plans.Digest(a.Statement); d.By == "" || d.Digest != digest {
		return fmt.Errorf("it approves %s, but the statement's digest is %s", short(d.Digest), short(digest))
	}
	if len(d.Signer) == 0 {
		return nil
	}
	signers, err := signature.Parse(append(append([]byte("["), d.Signer...), ']'))
	if err != nil {
		return err
	}
	for _, value := range a.Signatures {
		if digestOf([]byte(value)) != d.Evidence {
			continue
		}
		v, err := signature.Verify(signature.Input{Statement: a.Statement, Cluster: a.Cluster, Value: value, Signers: signers, Now: x.out.StartedAt, SeenAt: d.At})
		if err != nil {
			return err
		}
		if v.Verdict != signature.Approve {
			return fmt.Errorf("its signature says %s", v.Verdict)
		}
		return nil
	}
	return fmt.Errorf("the signature %s did not come with it", short(d.Evidence))
}

// signedAsRequired holds the plan back unless enough of the required signers have signed it, and none has rejected it.
func (x *execution) signedAsRequired(a *workspace.Approval) error {
	if x.config.RequireSigners == "" {
		return nil
	}
	r, signers, err := readRequired(x.config.RequireSigners)
	if err != nil {
		return fmt.Errorf("required signers: %w", err)
	}
	cluster := a.Cluster
	if r.Cluster != "" {
		cluster = r.Cluster
	}
	report := signature.VerifyAll(signature.Input{Statement: a.Statement, Cluster: cluster, Signers: signers, Now: x.out.StartedAt}, a.Signatures, seenAt(a.Decisions))
	signed := map[string]bool{}
	for _, v := range report.Verified {
		if v.Verdict != signature.Approve {
			return fmt.Errorf("required signers: %q rejects the plan", v.Signer)
		}
		signed[v.Signer] = true
	}
	if len(signed) >= *r.Count {
		return nil
	}
	why := make([]string, 0, len(report.Refused))
	for i := range report.Refused {
		why = append(why, report.Refused[i].Error())
	}
	return fmt.Errorf("required signers: %d of %d have signed the plan. %s", len(signed), *r.Count, strings.Join(why, "; "))
}

// seenAt tells when the operator saw a signature first. An ID token, which lives for minutes, is verified for that time; it is
// for this very plan, so that a wrong time makes no approval of another.
func seenAt(decisions []workspace.Decision) func(string) time.Time {
	return func(evidence string) time.Time {
		for _, d := range decisions {
			if d.Evidence == evidence {
				return d.At
			}
		}
		return time.Time{}
	}
}

// readRequired reads the file anew: it may have changed since the last Apply. Whatever is wrong with it, nothing is applied.
func readRequired(file string) (*required, *signature.Signers, error) {
	f, err := os.Open(file) //nolint:gosec // G304: a file of the agent's own configuration
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxRequired+1))
	if err == nil && len(raw) > maxRequired {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading %q: %w", file, err)
	}
	if raw, err = yaml.YAMLToJSONStrict(raw); err != nil {
		return nil, nil, fmt.Errorf("%q is no YAML: %w", file, err)
	}
	one := 1
	r := &required{Count: &one}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, nil, fmt.Errorf("%q: %w", file, err)
	}
	signers, err := signature.Parse(r.Signers)
	if err != nil {
		return nil, nil, fmt.Errorf("%q: %w", file, err)
	}
	if r.Count == nil || *r.Count < 1 || *r.Count > signers.Len() {
		return nil, nil, fmt.Errorf("%q: count must be from 1 to the number of signers, %d", file, signers.Len())
	}
	return r, signers, nil
}
