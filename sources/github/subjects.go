package github

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

func (i *issue) line() string            { return fmt.Sprintf("#%d: %s", i.Number, i.Title) }
func (i *issue) link(where) string       { return i.URL }
func (i *issue) changed(where) time.Time { return first(i.UpdatedAt, i.CreatedAt) }
func (i *issue) branch(where) string     { return "" }

func (i *issue) shorten(limit int) bool {
	cut := i.Cut
	i.bound(limit)
	i.Cut = i.Cut || cut
	return i.Cut
}

func (p *pull) branch(where) string { return p.Base.Ref }

// first returns the first time that is there.
func first(times ...*time.Time) time.Time {
	for _, t := range times {
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// maxCommits of a push are told, the last ones.
const maxCommits = 20

// push is what came to a branch or a tag.
type push struct {
	Ref     string  `json:"ref"` // refs/heads/trunk
	Before  string  `json:"before"`
	After   string  `json:"after"`
	Created bool    `json:"created,omitempty"`
	Deleted bool    `json:"deleted,omitempty"`
	Forced  bool    `json:"forced,omitempty"`
	Compare string  `json:"compare,omitempty"`
	Head    *patch  `json:"head_commit,omitempty"`
	Commits []patch `json:"commits,omitempty"`
}

// patch is a commit of a push.
type patch struct {
	ID      string `json:"id"`
	Message string `json:"message"`
	Author  struct {
		Name  string `json:"name"`
		Login string `json:"username,omitempty"`
	} `json:"author"`
	URL string `json:"url,omitempty"`
}

// complete refuses what is no push: other events have a ref, too.
func (p *push) complete() error {
	if p.Ref == "" || p.Before == "" || p.After == "" {
		return errors.New("github: the delivery has no ref, before and after, which a push has")
	}
	return nil
}

func (p *push) line() string {
	line := ": push to " + strings.TrimPrefix(strings.TrimPrefix(p.Ref, "refs/heads/"), "refs/tags/")
	if p.Head != nil {
		subject, _, _ := strings.Cut(p.Head.Message, "\n")
		line += ": " + subject
	}
	return line
}

func (p *push) link(where) string          { return p.Compare }
func (p *push) changed(in where) time.Time { return in.PushedAt.Time }

func (p *push) branch(where) string {
	name, is := strings.CutPrefix(p.Ref, "refs/heads/")
	if !is {
		return ""
	}
	return name
}

func (p *push) shorten(limit int) (cut bool) {
	if n := len(p.Commits) - maxCommits; n > 0 {
		p.Commits, cut = p.Commits[n:], true
	}
	limit /= 16
	for i := range p.Commits {
		cut = brief(&p.Commits[i].Message, limit) || cut
	}
	return p.Head != nil && brief(&p.Head.Message, limit) || cut
}

// brief shortens a text and reports whether there was more.
func brief(text *string, limit int) (cut bool) {
	*text, cut = shortened(*text, limit)
	return cut
}
