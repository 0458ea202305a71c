// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package signature_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/plangate/plangate/api/v1alpha1"
	"github.com/plangate/plangate/plans"
	"github.com/plangate/plangate/plans/approval/signature"
)

// kubectlStub is a kubectl that knows one plan, which is files in a folder, and refuses what the real one would.
const kubectlStub = `#!/bin/sh
set -eu
cd "$STUB"
[ "$1" = --namespace ] && [ "$2" = prod ] || { echo "no namespace: $*" >&2; exit 1; }
shift 2
case "$1 $2 $3 ${4:-} ${5:-}" in
  "get updateplan web-7 -o jsonpath={.spec.statement}") cat statement ;;
  "get updateplan web-7 -o jsonpath={.spec.digest}") cat digest ;;
  "annotate updateplan web-7 signature.plangate.dev/"*)
    [ $# = 4 ] || { echo "unexpected: $*" >&2; exit 1; }
    slot=${4%%=*}
    slot=${slot#signature.plangate.dev/}
    [ ! -e "slot-$slot" ] || { echo "error: --overwrite is false but found the annotation" >&2; exit 1; }
    printf '%s' "${4#*=}" > "slot-$slot" ;;
  *) echo "unexpected: $*" >&2; exit 1 ;;
esac
`

// ci is a CI job: a folder with a plan, a PATH with the stub before the real tools, and an environment.
type ci struct {
	t   *testing.T
	dir string
	env []string
}

func newCI(t *testing.T, statement string) *ci {
	t.Helper()
	for _, tool := range []string{"openssl", "ssh-keygen", "curl", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%s is needed to prove that what it signs is taken (Debian packages: openssl openssh-client curl; `make test-unit` installs them): %v", tool, err)
		}
	}
	c := &ci{t: t, dir: t.TempDir()}
	c.write("bin/kubectl", kubectlStub, 0o755)
	c.write("statement", statement, 0o600)
	c.write("digest", plans.Digest(statement), 0o600)
	c.env = append(os.Environ(), "STUB="+c.dir, "PATH="+filepath.Join(c.dir, "bin")+":"+os.Getenv("PATH"), "HOME="+c.dir, "TMPDIR="+t.TempDir())
	return c
}

func (c *ci) write(name, content string, mode os.FileMode) {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), mode); err != nil {
		c.t.Fatal(err)
	}
}

func (c *ci) read(name string) string {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// tool runs a real tool in the job's folder.
func (c *ci) tool(name string, arguments ...string) {
	c.t.Helper()
	command := exec.Command(name, arguments...)
	command.Dir = c.dir
	if out, err := command.CombinedOutput(); err != nil {
		c.t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
}

// script runs one of the samples as a CI job would.
func (c *ci) script(name string, arguments ...string) (string, error) {
	c.t.Helper()
	file, err := filepath.Abs(filepath.Join("..", "..", "..", "config", "samples", "ci", name))
	if err != nil {
		c.t.Fatal(err)
	}
	command := exec.Command(file, arguments...)
	command.Dir, command.Env = c.dir, c.env
	out, err := command.CombinedOutput()
	return string(out), err
}

// maker is a script, and the signer that is trusted for it.
type maker struct {
	script  string
	prepare func(*ci) v1alpha1.TrustedSigner
	format  signature.Format
}

func sshMaker(arguments ...string) maker {
	return maker{"sign-ssh.sh", func(c *ci) v1alpha1.TrustedSigner {
		c.tool("ssh-keygen", append([]string{"-q", "-N", "", "-C", "ci@example", "-f", "key"}, arguments...)...)
		if err := os.Chmod(filepath.Join(c.dir, "key"), 0o644); err != nil {
			c.t.Fatal(err)
		}
		return v1alpha1.TrustedSigner{Name: "ci", SSH: c.read("key.pub")}
	}, signature.SSH}
}

func opensslMaker(arguments ...string) maker {
	return maker{"sign-openssl.sh", func(c *ci) v1alpha1.TrustedSigner {
		c.tool("openssl", append([]string{"genpkey", "-out", "key"}, arguments...)...)
		c.tool("openssl", "pkey", "-in", "key", "-pubout", "-out", "key.pub")
		return v1alpha1.TrustedSigner{Name: "ci", PEM: c.read("key.pub")}
	}, signature.DSSE}
}

// githubMaker has a server that makes tokens as GitHub's does: for the audience that is asked for, to whom has the job's token.
func githubMaker() maker {
	return maker{"sign-github-oidc.sh", func(c *ci) v1alpha1.TrustedSigner {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer job-token" || r.URL.Query().Get("api-version") != "2.0" {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			aud := r.URL.Query().Get("audience")
			value := token(c.t, testKeys().issuer, jose.RS256, claims("", func(m map[string]any) { m["aud"] = aud }))
			_ = json.NewEncoder(w).Encode(map[string]any{"count": 1, "value": value})
		}))
		c.t.Cleanup(server.Close)
		c.env = append(c.env, "ACTIONS_ID_TOKEN_REQUEST_TOKEN=job-token", "ACTIONS_ID_TOKEN_REQUEST_URL="+server.URL+"/token?api-version=2.0")
		return trusted(c.t)[3]
	}, signature.Token}
}

// gitlabMaker has a token of GitLab in the environment, for the digest and verdict that the pipeline was started with.
func gitlabMaker(verdict signature.Verdict) maker {
	const issuer = "https://gitlab.com"
	return maker{"sign-gitlab-oidc.sh", func(c *ci) v1alpha1.TrustedSigner {
		value := token(c.t, testKeys().issuer, jose.RS256, map[string]any{
			"iss": issuer, "sub": "project_path:octo/infra:ref_type:branch:ref:main", "project_id": "4711", "ref_protected": "true",
			"aud": signature.Audience(verdict, c.read("digest")), "iat": now.Unix(), "nbf": now.Unix() - 5, "exp": now.Unix() + 600,
		})
		c.env = append(c.env, "PLANGATE_ID_TOKEN="+value)
		return v1alpha1.TrustedSigner{Name: "gitlab", OIDC: &v1alpha1.OIDCSigner{Issuer: issuer, JWKS: jwksOf(c.t, testKeys().issuer), Claims: []v1alpha1.PinnedClaim{
			{Name: "project_id", Values: []string{"4711"}}, {Name: "ref_protected", Values: []string{"true"}},
		}}}
	}, signature.Token}
}

func TestWhatTheScriptsForCISignWithTheRealToolsIsTaken(t *testing.T) {
	st := statement(t)
	other := statement(t, func(in *plans.SpecInput) { in.Nonce = strings.Repeat("b", 32) })
	long := statement(t, func(in *plans.SpecInput) {
		for i := range 150 {
			in.Binding.ConfigEntries = append(in.Binding.ConfigEntries, v1alpha1.ConfigEntry{Name: fmt.Sprintf("spec.config[a-rather-long-name-of-a-setting-%03d]", i), Digest: strings.Repeat("6", 16)})
		}
	})
	makers := map[string]func(signature.Verdict) maker{
		"ssh-keygen Ed25519": func(signature.Verdict) maker { return sshMaker("-t", "ed25519") },
		"ssh-keygen ECDSA":   func(signature.Verdict) maker { return sshMaker("-t", "ecdsa", "-b", "256") },
		"ssh-keygen RSA":     func(signature.Verdict) maker { return sshMaker("-t", "rsa", "-b", "2048") },
		"openssl Ed25519":    func(signature.Verdict) maker { return opensslMaker("-algorithm", "ed25519") },
		"openssl P-256": func(signature.Verdict) maker {
			return opensslMaker("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
		},
		"openssl RSA": func(signature.Verdict) maker {
			return opensslMaker("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
		},
		"GitHub Actions": func(signature.Verdict) maker { return githubMaker() },
		"GitLab CI":      gitlabMaker,
	}
	for name, making := range makers {
		for what, tc := range map[string]struct {
			statement string
			flags     []string
			want      signature.Verdict
		}{
			"approve":            {st, nil, signature.Approve},
			"reject":             {st, []string{"-r"}, signature.Reject},
			"approve a long one": {long, []string{"-s", "other.slot"}, signature.Approve},
		} {
			if tc.statement == long && name != "openssl P-256" && name != "ssh-keygen Ed25519" {
				continue // its length makes no difference to the others
			}
			t.Run(name+"/"+what, func(t *testing.T) {
				c, m := newCI(t, tc.statement), making(tc.want)
				signer := m.prepare(c)
				out, err := c.script(m.script, append([]string{"-n", "prod", "-k", "key"}, append(tc.flags, "web-7")...)...)
				if err != nil {
					t.Fatalf("%s: %v\n%s", m.script, err, out)
				}
				slot := "slot-ci"
				if len(tc.flags) == 2 {
					slot = "slot-" + tc.flags[1]
				}
				if !strings.Contains(out, plans.Digest(tc.statement)) || !strings.Contains(out, strings.Repeat("1", 40)) {
					t.Errorf("%s does not show what it signs:\n%s", m.script, out)
				}
				in := signature.Input{Statement: tc.statement, Cluster: cluster, Value: c.read(slot), Signers: signersOf(t, signer), Now: now}
				v, err := signature.Verify(in)
				if err != nil || v.Verdict != tc.want || v.Format != m.format || v.Signer != signer.Name {
					t.Fatalf("Verify() = %+v, %v, want %s\n%s", v, err, tc.want, in.Value)
				}
				in.Statement = other
				if v, err := signature.Verify(in); err == nil {
					t.Errorf("it counts for another plan too: %+v", v)
				}
				if out, err := c.script(m.script, append([]string{"-n", "prod", "-k", "key"}, append(tc.flags, "web-7")...)...); err == nil || !strings.Contains(out, "name another with -s") {
					t.Errorf("a second signature into the same slot: %v\n%s", err, out)
				}
			})
		}
	}
}

func TestTheScriptsForCISignNothingThatIsNotWhatItSays(t *testing.T) {
	st := statement(t)
	for name, m := range map[string]maker{
		"ssh": sshMaker("-t", "ed25519"), "openssl": opensslMaker("-algorithm", "ed25519"), "github": githubMaker(), "gitlab": gitlabMaker(signature.Approve),
	} {
		for what, tc := range map[string]struct {
			change func(*ci)
			says   string
		}{
			"another digest":     {func(c *ci) { c.write("digest", "sha256:"+strings.Repeat("0", 64), 0o600) }, "is not what it says"},
			"a byte more":        {func(c *ci) { c.write("statement", st+"\n", 0o600) }, "is not what it says"},
			"no statement":       {func(c *ci) { c.write("statement", "", 0o600) }, "has no statement"},
			"a check that fails": {func(c *ci) { c.env = append(c.env, `PLANGATE_CHECK=grep -qF "\"revision\":\"abc\""`) }, "PLANGATE_CHECK refuses"},
			"no permission": {func(c *ci) {
				c.env = append(c.env, "PLANGATE_ID_TOKEN=", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=wrong")
				_ = os.Remove(filepath.Join(c.dir, "key"))
			}, "error: "},
			"a plan not known": {func(c *ci) { c.write("bin/kubectl", "#!/bin/sh\nexit 1\n", 0o755) }, ""},
			"an honest plan": {func(c *ci) {
				c.env = append(c.env, `PLANGATE_CHECK=grep -qF "\"revision\":\"`+strings.Repeat("1", 40)+`\""`)
			}, "Signed, to approve"},
		} {
			t.Run(name+"/"+what, func(t *testing.T) {
				c := newCI(t, st)
				m.prepare(c)
				tc.change(c)
				out, err := c.script(m.script, "-n", "prod", "-k", "key", "web-7")
				if honest := what == "an honest plan"; (err == nil) != honest || !strings.Contains(out, tc.says) {
					t.Errorf("%s: %v\n%s", m.script, err, out)
				}
				if _, missing := os.Stat(filepath.Join(c.dir, "slot-ci")); (missing == nil) != (what == "an honest plan") {
					t.Errorf("%s annotated the plan, or did not: %v", m.script, missing)
				}
			})
		}
	}
}

func TestASignatureOfACommitMadeWithTheRealToolIsNoApproval(t *testing.T) {
	st := statement(t)
	c := newCI(t, st)
	signer := sshMaker("-t", "ed25519").prepare(c)
	if err := os.Chmod(filepath.Join(c.dir, "key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.tool("ssh-keygen", "-q", "-Y", "sign", "-f", "key", "-n", "git", "statement")
	_, err := signature.Verify(signature.Input{Statement: st, Cluster: cluster, Value: c.read("statement.sig"), Signers: signersOf(t, signer), Now: now})
	if signature.ReasonOf(err) != signature.OtherPurpose {
		t.Errorf("Verify() of a commit's signature = %v", err)
	}
}
