package github

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

func (i *issue) titleSuffix() string                 { return fmt.Sprintf("#%d: %s", i.Number, i.Title) }
func (i *issue) link(repositoryInfo) string          { return i.URL }
func (i *issue) occurredAt(repositoryInfo) time.Time { return firstTime(i.UpdatedAt, i.CreatedAt) }
func (i *issue) branch(repositoryInfo) string        { return "" }

func (i *issue) truncate(limit int) bool {
	cut := i.Cut
	i.truncateBody(limit)
	i.Cut = i.Cut || cut
	return i.Cut
}

func (p *pull) branch(repositoryInfo) string { return p.Base.Ref }

// firstTime returns the first time that is set.
func firstTime(times ...*time.Time) time.Time {
	for _, t := range times {
		if t != nil {
			return *t
		}
	}
	return time.Time{}
}

// maxCommitsPerPush bounds the commits in a push event; the last ones are kept.
const maxCommitsPerPush = 20

// push is a push to a branch or a tag.
type push struct {
	Ref     string       `json:"ref"` // refs/heads/trunk
	Before  string       `json:"before"`
	After   string       `json:"after"`
	Created bool         `json:"created,omitempty"`
	Deleted bool         `json:"deleted,omitempty"`
	Forced  bool         `json:"forced,omitempty"`
	Compare string       `json:"compare,omitempty"`
	Head    *pushCommit  `json:"head_commit,omitempty"`
	Commits []pushCommit `json:"commits,omitempty"`
}

// pushCommit is a commit of a push.
type pushCommit struct {
	ID      string `json:"id"`
	Message string `json:"message"`
	Author  struct {
		Name  string `json:"name"`
		Login string `json:"username,omitempty"`
	} `json:"author"`
	URL string `json:"url,omitempty"`
}

// validate rejects other events that also have a ref.
func (p *push) validate() error {
	if p.Ref == "" || p.Before == "" || p.After == "" {
		return errors.New("github: the delivery has no ref, before and after, which a push has")
	}
	return nil
}

func (p *push) titleSuffix() string {
	line := ": push to " + strings.TrimPrefix(strings.TrimPrefix(p.Ref, "refs/heads/"), "refs/tags/")
	if p.Head != nil {
		subject, _, _ := strings.Cut(p.Head.Message, "\n")
		line += ": " + subject
	}
	return line
}

func (p *push) link(repositoryInfo) string             { return p.Compare }
func (p *push) occurredAt(in repositoryInfo) time.Time { return in.PushedAt.Time }

func (p *push) branch(repositoryInfo) string {
	name, is := strings.CutPrefix(p.Ref, "refs/heads/")
	if !is {
		return ""
	}
	return name
}

func (p *push) truncate(limit int) (cut bool) {
	if n := len(p.Commits) - maxCommitsPerPush; n > 0 {
		p.Commits, cut = p.Commits[n:], true
	}
	limit /= 16
	for i := range p.Commits {
		cut = truncateInPlace(&p.Commits[i].Message, limit) || cut
	}
	return p.Head != nil && truncateInPlace(&p.Head.Message, limit) || cut
}

// truncateInPlace truncates a text and reports whether it cut any.
func truncateInPlace(text *string, limit int) (cut bool) {
	*text, cut = truncateText(*text, limit)
	return cut
}
