// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package pulumi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Marker is the environment variable by which the processes of an agent are found again after its death: its value is the
// agent's work folder.
const Marker = "PLANGATE_WORKSPACE"

// outputLimit bounds what is kept of a call's output.
const outputLimit = 256 << 10

type call struct {
	args    []string
	dir     string
	env     []string
	stdin   string
	onStart func(int)
	onLine  func(string)
	grace   time.Duration
	// stdoutOnly keeps stderr out of the output, and bounds nothing: for calls whose output is data.
	stdoutOnly bool
	// expendable is killed at once when the context ends.
	expendable bool
}

type ended struct {
	code        int
	interrupted bool
	output      string
	stderr      string
}

// run starts the CLI in a process group of its own and waits for its end. When the context ends, the CLI gets SIGINT, so
// that it can stop its providers and release its lock; after the grace period everything that it started is killed. Only
// the CLI gets the first signal: it stops its language hosts and providers itself.
func run(ctx context.Context, binary string, c call) (*ended, error) {
	type answer struct {
		e   *ended
		err error
	}
	done := make(chan answer, 1)
	go func() {
		// The parent of PDEATHSIG is the thread that forks: it must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		e, err := runLocked(ctx, binary, c)
		done <- answer{e, err}
	}()
	a := <-done
	return a.e, a.err
}

func runLocked(ctx context.Context, binary string, c call) (*ended, error) {
	cmd := exec.CommandContext(ctx, binary, c.args...) //nolint:gosec // G204: the CLI, with arguments of ours
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if c.expendable {
		cmd.Cancel = func() error { return cmd.Process.Kill() }
	}
	cmd.WaitDelay = c.grace
	if c.stdin != "" {
		cmd.Stdin = strings.NewReader(c.stdin)
	}
	out, err := newCapture(c.onLine, c.stdoutOnly)
	if err != nil {
		return nil, err
	}
	errs := out
	if c.stdoutOnly {
		if errs, err = newCapture(nil, false); err != nil {
			out.finish()
			return nil, err
		}
	}
	cmd.Stdout, cmd.Stderr = out.write, errs.write
	err = cmd.Start()
	if err == nil {
		if c.onStart != nil {
			c.onStart(cmd.Process.Pid)
		}
		err = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		killOperation(c.env)
	}
	e := &ended{output: out.finish(), interrupted: ctx.Err() != nil}
	if c.stdoutOnly {
		e.stderr = errs.finish()
	}
	var exit *exec.ExitError
	switch {
	case cmd.ProcessState != nil:
		e.code = cmd.ProcessState.ExitCode()
	case errors.As(err, &exit):
		e.code = exit.ExitCode()
	default:
		return nil, fmt.Errorf("running %q: %w", filepath.Base(binary), err)
	}
	return e, nil
}

// capture reads one end of a pipe: it calls back for each line and keeps the end of it all.
type capture struct {
	write, read *os.File
	done        chan struct{}
	mu          sync.Mutex
	text        []byte
}

func newCapture(onLine func(string), unbounded bool) (*capture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making pipe: %w", err)
	}
	c := &capture{write: w, read: r, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		in := bufio.NewReaderSize(r, 64<<10)
		for {
			// ReadSlice and not ReadString: a line may be longer than memory.
			line, err := in.ReadSlice('\n')
			c.keep(line, unbounded)
			if onLine != nil && len(line) > 0 {
				onLine(strings.TrimRight(string(line), "\r\n"))
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
	return c, nil
}

func (c *capture) keep(line []byte, unbounded bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text = append(c.text, line...)
	if !unbounded && len(c.text) > 2*outputLimit {
		c.text = append([]byte(nil), c.text[len(c.text)-outputLimit:]...)
	}
}

// finish waits for what is still in the pipe, but not for a process that holds it open.
func (c *capture) finish() string {
	_ = c.write.Close()
	_ = c.read.SetReadDeadline(time.Now().Add(2 * time.Second))
	<-c.done
	_ = c.read.Close()
	return string(c.text)
}

// killOperation kills what an operation left running: Pulumi gives each plugin a process group of its own.
func killOperation(env []string) {
	for _, kv := range env {
		if strings.HasPrefix(kv, Marker+"=") {
			KillMarked(kv)
		}
	}
}

// KillMarked kills all processes that have the given KEY=VALUE in their environment, and tells how many.
func KillMarked(marker string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	killed := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !marked(pid, marker) {
			continue
		}
		if syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}

func marked(pid int, marker string) bool {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	environ, err := io.ReadAll(io.LimitReader(f, 4<<20))
	if err != nil {
		return false
	}
	for _, kv := range strings.Split(string(environ), "\x00") {
		if kv == marker {
			return true
		}
	}
	return false
}
