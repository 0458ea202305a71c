// Copyright The Plangate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source resolves what a Stack asks for (a repository and a branch) to a commit.
//
// It asks the remote for its references and nothing else: it never fetches objects, and never runs anything of them.
package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"
	"golang.org/x/sync/singleflight"
)

// timeout bounds one question to a remote.
const timeout = 20 * time.Second

// Revision is a resolved commit.
type Revision struct {
	// Commit is the full commit id.
	Commit string
	// Ref is the full name of the reference that it was resolved from; "" when the commit was given.
	Ref string
}

// NotFoundError says that the remote answered but has no such reference.
type NotFoundError struct{ Repository, Ref string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("repository %q has no branch or reference %q", e.Repository, e.Ref)
}

// IsNotFound reports whether err says that the remote has no such reference.
func IsNotFound(err error) bool {
	var e *NotFoundError
	return errors.As(err, &e)
}

// Resolver resolves references. One remote's answer is shared by all who ask within MaxAge.
type Resolver struct {
	// maxAge is how long an answer is shared.
	maxAge time.Duration
	now    func() time.Time
	list   func(ctx context.Context, repository string) (map[string]string, error)
	flight singleflight.Group

	mu      sync.Mutex
	answers map[string]answer
}

type answer struct {
	refs map[string]string
	at   time.Time
}

// NewResolver returns a Resolver that shares a remote's answer for maxAge.
func NewResolver(maxAge time.Duration) *Resolver {
	return &Resolver{maxAge: maxAge, now: time.Now, list: listRemote, answers: map[string]answer{}}
}

// Resolve resolves branch of repository to a commit, from an answer at most MaxAge old. A given commit is returned as it is.
func (r *Resolver) Resolve(ctx context.Context, repository, branch, commit string) (Revision, error) {
	return r.resolve(ctx, repository, branch, commit, r.maxAge)
}

// ResolveNow is Resolve with an answer that is asked for now.
func (r *Resolver) ResolveNow(ctx context.Context, repository, branch, commit string) (Revision, error) {
	return r.resolve(ctx, repository, branch, commit, 0)
}

func (r *Resolver) resolve(ctx context.Context, repository, branch, commit string, maxAge time.Duration) (Revision, error) {
	if err := CheckURL(repository); err != nil {
		return Revision{}, err
	}
	if commit != "" {
		return Revision{Commit: commit}, nil
	}
	refs, err := r.references(ctx, repository, maxAge)
	if err != nil {
		return Revision{}, fmt.Errorf("listing the references of repository %q: %w", repository, err)
	}
	for _, name := range candidates(branch) {
		if id, ok := refs[name+"^{}"]; ok {
			return Revision{Commit: id, Ref: name}, nil
		}
		if id, ok := refs[name]; ok {
			return Revision{Commit: id, Ref: name}, nil
		}
	}
	return Revision{}, &NotFoundError{Repository: repository, Ref: branch}
}

// candidates are the full names that a branch can mean. A short name is always a branch, never a tag of the same name.
func candidates(branch string) []string {
	if strings.HasPrefix(branch, "refs/") {
		return []string{branch}
	}
	return []string{"refs/heads/" + branch}
}

func (r *Resolver) references(ctx context.Context, repository string, maxAge time.Duration) (map[string]string, error) {
	r.mu.Lock()
	a, ok := r.answers[repository]
	r.mu.Unlock()
	if ok && maxAge > 0 && r.now().Sub(a.at) < maxAge {
		return a.refs, nil
	}
	refs, err, _ := r.flight.Do(repository, func() (any, error) {
		at := r.now()
		// The question is shared, so that it must not end with the first asker's context.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		refs, err := r.list(ctx, repository)
		if err != nil {
			return nil, err
		}
		r.remember(repository, answer{refs: refs, at: at})
		return refs, nil
	})
	if err != nil {
		return nil, err
	}
	return refs.(map[string]string), nil
}

// remember keeps an answer and drops those that nobody may use any more.
func (r *Resolver) remember(repository string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, old := range r.answers {
		if r.now().Sub(old.at) > r.maxAge {
			delete(r.answers, name)
		}
	}
	r.answers[repository] = a
}

func listRemote(ctx context.Context, repository string) (map[string]string, error) {
	remote := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{repository}})
	list, err := remote.ListContext(ctx, &git.ListOptions{PeelingOption: git.AppendPeeled})
	if errors.Is(err, transport.ErrEmptyRemoteRepository) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, err
	}
	refs := make(map[string]string, len(list))
	for _, ref := range list {
		if ref.Type() == plumbing.HashReference {
			refs[ref.Name().String()] = ref.Hash().String()
		}
	}
	return refs, nil
}

// CheckURL refuses what the operator must not, or cannot, ask: local paths, other schemes, credentials in the URL.
func CheckURL(repository string) error {
	u, err := url.Parse(repository)
	if err != nil {
		return errors.New("spec.projectRepo is not a URL")
	}
	switch u.Scheme {
	case "http", "https", "git", "ssh":
	default:
		return fmt.Errorf("spec.projectRepo has the scheme %q: use https, http, ssh or git", u.Scheme)
	}
	if u.Host == "" {
		return errors.New("spec.projectRepo names no host")
	}
	if _, hasPassword := u.User.Password(); hasPassword || (u.User != nil && u.Scheme != "ssh") {
		return errors.New("spec.projectRepo holds credentials: take them out, objects are readable by many")
	}
	return nil
}
