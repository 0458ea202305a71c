// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// maxBody bounds what one request may send, compressed as it comes.
const maxBody = 256 << 20

// A repository's name is one path element that cannot climb.
var repositoryPath = regexp.MustCompile(`^/([A-Za-z0-9][A-Za-z0-9._-]{0,99}\.git)(/.*)?$`)

// server puts names and repositories in front of `git http-backend`, which does
// all of git's protocol.
type server struct {
	root    string
	git     string
	backend http.Handler

	// creating keeps two first pushes from making one repository twice.
	creating sync.Mutex
}

var _ http.Handler = (*server)(nil)

func newServer(root string) (*server, error) {
	if root == "" {
		return nil, errors.New("the folder of the repositories is needed: -root")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(root); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%q is not a folder", root)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, err
	}
	s := &server{root: root, git: git}
	s.backend = &cgi.Handler{
		Path: git,
		Args: []string{"http-backend"},
		Dir:  root,
		Env:  append(s.environment(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"),
	}
	return s, nil
}

// environment keeps the settings of whoever started the server out, and lets
// everybody push, which git otherwise grants only to users it knows.
func (s *server) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + s.root,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true",
	}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, "ok")
		return
	}
	log.Printf("%s %s", r.Method, r.URL)
	match := repositoryPath.FindStringSubmatch(r.URL.Path)
	if match == nil || path.Clean(r.URL.Path) != r.URL.Path {
		http.Error(w, "the path must be clean and start with /NAME.git", http.StatusNotFound)
		return
	}
	name, rest := match[1], match[2]
	if r.Method == http.MethodPut && rest == "" {
		s.put(w, name)
		return
	}
	if isPush(r, rest) {
		if _, err := s.create(name); err != nil {
			fail(w, err)
			return
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := s.withLength(r); err != nil {
		fail(w, err)
		return
	}
	defer r.Body.Close()
	s.backend.ServeHTTP(w, r)
}

// isPush tells whether this is the first request of a push.
func isPush(r *http.Request, rest string) bool {
	return rest == "/info/refs" && r.URL.Query().Get("service") == "git-receive-pack"
}

func (s *server) put(w http.ResponseWriter, name string) {
	created, err := s.create(name)
	if err != nil {
		fail(w, err)
		return
	}
	if created {
		w.WriteHeader(http.StatusCreated)
	}
	fmt.Fprintln(w, name)
}

// create makes an empty repository unless it is there. It is made beside and
// renamed, so that a reader never sees half of one.
func (s *server) create(name string) (created bool, err error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	dir := filepath.Join(s.root, name)
	if _, err := os.Stat(dir); err == nil {
		return false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	temp, err := os.MkdirTemp(s.root, ".new-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(temp)
	fresh := filepath.Join(temp, name)
	init := exec.Command(s.git, "init", "--quiet", "--bare", "--initial-branch=main", fresh)
	init.Env = s.environment()
	if out, err := init.CombinedOutput(); err != nil {
		return false, fmt.Errorf("making repository %q: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return true, os.Rename(fresh, dir)
}

// withLength gives a chunked request, as git sends for a large push, the length
// that CGI wants, by way of a file.
func (s *server) withLength(r *http.Request) error {
	if r.ContentLength >= 0 {
		return nil
	}
	spool, err := os.CreateTemp(s.root, ".body-")
	if err != nil {
		return err
	}
	// The open file stays readable without its name.
	if err := os.Remove(spool.Name()); err != nil {
		return errors.Join(err, spool.Close())
	}
	size, err := io.Copy(spool, r.Body)
	if err != nil {
		return errors.Join(err, spool.Close())
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return errors.Join(err, spool.Close())
	}
	r.Body, r.ContentLength, r.TransferEncoding = spool, size, nil
	return nil
}

func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	}
	log.Printf("Answering %d: %v", status, err)
	http.Error(w, err.Error(), status)
}
