// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e proves on a real cluster what Plangate promises: real API server, kubelet and pods, the real Pulumi CLI, a real
// git server, real providers. `make test-e2e` brings all of it up and runs this package.
//
// A test has a namespace, a git repository and a Stack of its own, and leaves the others alone; only the tests of the manager's
// own death run alone. Nothing here sleeps: it waits for a condition and says what it waited for.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	restclient "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/plangate/plangate/api/v1alpha1"
)

const (
	managerNamespace = "plangate-system"
	managerName      = "plangate-manager"
	gitNamespace     = "plangate-demo-git"
)

// managerFlags make the manager look more often than it does by default, so that tests need not wait.
var managerFlags = []string{"--source-poll-interval=2s", "--retry-interval=2s", "--retry-max-interval=5s"}

// cluster is what all tests of this package share.
var cluster struct {
	client client.WithWatch
	// approver is alice's, who decides on plans: whoever makes a Stack cannot. operator's is the name of the operator's service
	// account, for what only that may write.
	approver, operator client.Client
	// git is the git server's address, good in the cluster and on this machine.
	git string
	// path is PATH for commands, with the cluster's own kubectl and the real Pulumi first.
	path string
}

func TestMain(m *testing.M) {
	if err := setUp(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func setUp(ctx context.Context) error {
	if os.Getenv("PLANGATE_E2E") == "" || os.Getenv("KUBECONFIG") == "" {
		return errors.New("these tests need a cluster with Plangate in it, which they change: run them by `make test-e2e`")
	}
	cluster.path = os.Getenv("PLANGATE_TEST_PATH") + ":" + os.Getenv("PATH")
	if err := os.Setenv("PATH", cluster.path); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	rest, err := config.GetConfig()
	if err != nil {
		return err
	}
	rest.QPS, rest.Burst = 200, 400
	if cluster.client, err = client.NewWithWatch(rest, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := people(rest, scheme); err != nil {
		return err
	}
	if err := tuneManager(ctx); err != nil {
		return err
	}
	return startGit(ctx)
}

// approver decides on plans.
const approver = "alice@example.com"

// people are others than who runs the tests.
func people(admin *restclient.Config, scheme *runtime.Scheme) error {
	as := func(user string, groups ...string) (client.Client, error) {
		c := restclient.CopyConfig(admin)
		c.Impersonate = restclient.ImpersonationConfig{UserName: user, Groups: groups}
		return client.New(c, client.Options{Scheme: scheme})
	}
	var err, operatorErr error
	cluster.approver, err = as(approver)
	cluster.operator, operatorErr = as("system:serviceaccount:"+managerNamespace+":"+managerName, "system:masters")
	if err := errors.Join(err, operatorErr); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "plangate-e2e-approver"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "plangate-approver"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: approver}},
	}
	return ignoreExists(cluster.client.Create(context.Background(), binding))
}

// tuneManager lays the tests' flags over those of the deployed manager; of a flag that is given twice the last counts.
func tuneManager(ctx context.Context) error {
	d := &appsv1.Deployment{}
	if err := cluster.client.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: managerName}, d); err != nil {
		return fmt.Errorf("the manager is not deployed: %w", err)
	}
	container := &d.Spec.Template.Spec.Containers[0]
	if !strings.HasSuffix(strings.Join(container.Args, " "), strings.Join(managerFlags, " ")) {
		before := d.DeepCopy()
		container.Args = append(container.Args, managerFlags...)
		if err := cluster.client.Patch(ctx, d, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return command("kubectl", "-n", managerNamespace, "rollout", "status", "deployment/"+managerName, "--timeout=90s")
}

// startGit makes sure that there is a git server in the cluster.
func startGit(ctx context.Context) error {
	if err := command("kubectl", "apply", "-f", "../../hack/manifests/gitserver.yaml"); err != nil {
		return err
	}
	if err := command("kubectl", "-n", gitNamespace, "rollout", "status", "deployment/gitserver", "--timeout=90s"); err != nil {
		return err
	}
	service := &corev1.Service{}
	if err := cluster.client.Get(ctx, types.NamespacedName{Namespace: gitNamespace, Name: "gitserver"}, service); err != nil {
		return err
	}
	cluster.git = fmt.Sprintf("http://%s:8080", service.Spec.ClusterIP)
	return nil
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput() //nolint:gosec // the tests' own commands
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// eventually waits until check is content, and fails the test with what check said last.
func eventually(t testing.TB, what string, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	ticker := time.NewTicker(150 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s: %v", limit, what, err)
		}
		<-ticker.C
	}
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
