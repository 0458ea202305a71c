// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"flag"
	"strings"
	"testing"
)

func TestValidateNamesTheOption(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"the defaults":               {args: []string{"--manager-image=m"}},
		"pods for ever":              {args: []string{"--manager-image=m", "--workspace-idle-timeout=0"}},
		"no image of the operator":   {want: "--manager-image"},
		"no image of workspaces":     {args: []string{"--manager-image=m", "--workspace-image="}, want: "--workspace-image"},
		"a negative idle time":       {args: []string{"--manager-image=m", "--workspace-idle-timeout=-1s"}, want: "--workspace-idle-timeout"},
		"no pause between questions": {args: []string{"--manager-image=m", "--source-poll-interval=0"}, want: "--source-poll-interval"},
		"no pause between previews":  {args: []string{"--manager-image=m", "--retry-interval=1ms"}, want: "--retry-interval"},
		"plans that expire at once":  {args: []string{"--manager-image=m", "--plan-ttl=0"}, want: "--plan-ttl"},
		"certificates for a second":  {args: []string{"--manager-image=m", "--certificate-lifetime=1s"}, want: "--certificate-lifetime"},
		"no audit log":               {args: []string{"--manager-image=m", "--audit-log="}, want: "--audit-log"},
		"nobody to work":             {args: []string{"--manager-image=m", "--concurrency=0"}, want: "--concurrency"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o, flags := Options{}, flag.NewFlagSet("manager", flag.ContinueOnError)
			o.Bind(flags)
			if err := flags.Parse(tc.args); err != nil {
				t.Fatal(err)
			}
			err := o.Validate()
			if (err != nil) != (tc.want != "") || (err != nil && !strings.HasPrefix(err.Error(), tc.want)) {
				t.Errorf("Validate() = %v, want %q", err, tc.want)
			}
		})
	}
}
