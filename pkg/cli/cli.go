// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is what the kubectl plugin does. It only reads, with the rights of whoever runs it.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plangate/plangate/api/v1alpha1"
)

const usage = `Usage: kubectl plangate audit STACK [-n NAMESPACE] [--kubeconfig FILE] [--context NAME]

Verifies the chain of records of a Stack's ended plans, and prints a line for each.
It ends with an error when the chain is broken, and says where.`

// errUsage explains the command line.
var errUsage = errors.New("this is not how it is called\n\n" + usage) //nolint:staticcheck // ST1005: the usage is for people

// Run runs a command line.
func Run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 || args[0] != "audit" {
		return errUsage
	}
	rules, overrides := clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}
	flags := flag.NewFlagSet("audit", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, name := range []string{"n", "namespace"} {
		flags.StringVar(&overrides.Context.Namespace, name, "", "")
	}
	flags.StringVar(&rules.ExplicitPath, "kubeconfig", "", "")
	flags.StringVar(&overrides.CurrentContext, "context", "", "")
	stacks, err := parse(flags, args[1:])
	if errors.Is(err, flag.ErrHelp) {
		_, err := fmt.Fprintln(out, usage)
		return err
	}
	if err != nil || len(stacks) != 1 {
		return errors.Join(err, errUsage)
	}
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	namespace, _, err := config.Namespace()
	if err != nil {
		return fmt.Errorf("finding the namespace: %w", err)
	}
	c, err := connect(config)
	if err != nil {
		return err
	}
	return Audit(ctx, c, client.ObjectKey{Namespace: namespace, Name: stacks[0]}, out)
}

// parse takes flags before and after the other arguments, as kubectl does.
func parse(flags *flag.FlagSet, args []string) (others []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return others, nil
		}
		others, args = append(others, flags.Arg(0)), flags.Args()[1:]
	}
}

func connect(config clientcmd.ClientConfig) (client.Client, error) {
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("building the scheme: %w", err)
	}
	c, err := client.New(rest, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, nil
}
