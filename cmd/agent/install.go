// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// install puts the agent into a folder that the workspace's container shares, with a passwd file that knows the user:
// Pulumi's file backend, git and ssh refuse a user id that has no name.
func install(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return errors.New("install: usage: agent install DIR [HOME]")
	}
	dir, home := args[0], "/tmp"
	if len(args) == 2 {
		home = args[1]
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("installing agent: %w", err)
	}
	if err := copyFile(self, filepath.Join(dir, "agent")); err != nil {
		return fmt.Errorf("installing agent: %w", err)
	}
	passwd, group := accounts(os.Getuid(), os.Getgid(), home)
	//nolint:gosec // G306: everybody reads passwd
	err = errors.Join(os.WriteFile(filepath.Join(dir, "passwd"), []byte(passwd), 0o644),
		os.WriteFile(filepath.Join(dir, "group"), []byte(group), 0o644)) //nolint:gosec // G306: everybody reads group
	if err != nil {
		return fmt.Errorf("installing accounts: %w", err)
	}
	return nil
}

func accounts(uid, gid int, home string) (passwd, group string) {
	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n" //nolint:gosec // G101: no password
	group = "root:x:0:\nnogroup:x:65534:\n"
	name := "pulumi"
	switch uid {
	case 0:
		passwd = fmt.Sprintf("root:x:0:%d:root:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", gid, home)
		return passwd, group
	case 65534:
		return fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\n%s:x:%d:%d:Pulumi:%s:/bin/sh\n", name, uid, gid, home), group
	}
	passwd += fmt.Sprintf("%s:x:%d:%d:Pulumi:%s:/bin/sh\n", name, uid, gid, home)
	if gid != 0 && gid != 65534 {
		group += fmt.Sprintf("%s:x:%d:\n", name, gid)
	}
	return passwd, group
}

func copyFile(from, to string) error {
	in, err := os.Open(from) //nolint:gosec // G304: this binary
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(filepath.Dir(to), ".agent-")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	err = errors.Join(err, out.Chmod(0o755), out.Close())
	if err == nil {
		err = os.Rename(out.Name(), to) //nolint:gosec // G703: the folder is the argument
	}
	if err != nil {
		_ = os.Remove(out.Name()) //nolint:gosec // G703: the folder is the argument
	}
	return err
}
