// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envtest proves, against a real API server, what the CRDs accept and what the controllers do.
//
// The API server and etcd come from the folder that KUBEBUILDER_ASSETS names; `make test-envtest` sets it. One of each
// runs for the whole package; a test has a namespace of its own and leaves the others alone.
package envtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/plangate/plangate/api/v1alpha1"
)

// crdFolder is where the generated CRDs are.
var crdFolder = filepath.Join("..", "..", "config", "crd")

// world is the API server that all tests of this package share, with the admission policies and the roles of config/ in it.
var world struct {
	// admin is an administrator's way in.
	admin *rest.Config
	// config is that of the operator's service account, and may do everything besides: the controllers of these tests are the
	// operator for the admission policies, and their tests may look and meddle anywhere. controllers_rights_test.go has the
	// operator with no more rights than it has.
	config *rest.Config
	// scheme knows our kinds and Kubernetes' own.
	scheme *runtime.Scheme
	// client is config's. It has no cache: what it reads is what is there. Unknown fields are errors.
	client client.Client
	// auditLog is the name of the file with the API server's audit log.
	auditLog string
	// environment is what runs.
	environment *envtest.Environment
	// kubeconfig is the name of a file, for commands.
	kubeconfig string
}

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "envtest:", err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	if err := requireAssets(os.Getenv("KUBEBUILDER_ASSETS")); err != nil {
		return 1, err
	}
	environment := &envtest.Environment{
		CRDDirectoryPaths:        []string{crdFolder},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 10 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	// What etcd writes is thrown away with the tests; waiting for the disk would only take time.
	environment.ControlPlane.Etcd = &envtest.Etcd{}
	environment.ControlPlane.Etcd.Configure().Append("unsafe-no-fsync", "true")
	folder, err := os.MkdirTemp("", "plangate-envtest-")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := keepAudit(environment, folder); err != nil {
		return 1, err
	}
	world.environment = environment
	world.admin, err = environment.Start()
	if err != nil {
		return 1, fmt.Errorf("starting the API server: %w", err)
	}
	defer func() {
		if stopErr := environment.Stop(); stopErr != nil && err == nil {
			code, err = 1, fmt.Errorf("stopping the API server: %w", stopErr)
		}
	}()
	// The tests are no crowd that the API server must be protected from.
	world.admin.QPS, world.admin.Burst = 1000, 1000
	if err := connect(environment.KubeConfig, folder); err != nil {
		return 1, err
	}
	if err := install(); err != nil {
		return 1, err
	}
	code = m.Run()
	return code, tellAttacks()
}

// requireAssets says in plain words what envtest would say in others.
func requireAssets(folder string) error {
	if folder == "" {
		return fmt.Errorf("KUBEBUILDER_ASSETS is not set: run `make test-envtest`, or set it to the output of hack/cache/path.sh kubernetes")
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("KUBEBUILDER_ASSETS is %q, but: %w", folder, err)
		}
	}
	return nil
}

// connect fills world from the administrator's config.
func connect(kubeconfig []byte, folder string) error {
	world.scheme = runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(world.scheme); err != nil {
			return fmt.Errorf("building the scheme: %w", err)
		}
	}
	world.config = impersonating(operator, "system:masters", "system:serviceaccounts", "system:authenticated")
	plain, err := client.New(world.config, client.Options{Scheme: world.scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	world.client = client.WithFieldValidation(plain, metav1.FieldValidationStrict)
	world.kubeconfig = filepath.Join(folder, "kubeconfig")
	return os.WriteFile(world.kubeconfig, kubeconfig, 0o600)
}

// newNamespace makes a namespace for one test, named after it.
func newNamespace(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name()))
	if len(name) > 40 {
		name = name[:40]
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"}}
	g.Expect(world.client.Create(t.Context(), namespace)).To(Succeed())
	// No namespace controller runs here, so the objects in it stay; they end with the API server.
	t.Cleanup(func() { _ = world.client.Delete(context.WithoutCancel(t.Context()), namespace) })
	return namespace.Name
}
