// Package gitpush has the params of git:push: what a push changes and contains, as
// the Git server computes it and people review it.
//
// The texts come from the pack, so from whoever wrote the commits: they are bounded
// and have no control characters, and are to be shown as foreign text.
package gitpush

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Params are the params of git:push. Equal pushes have equal params.
type Params struct {
	Repository string `json:"repository"` // host and path
	// Branch is the name of the only ref if that is a branch, without refs/heads/,
	// for pins of grants; otherwise empty.
	Branch  string   `json:"branch,omitempty"`
	Refs    []Ref    `json:"refs"`
	Atomic  bool     `json:"atomic,omitempty"`
	Shallow []string `json:"shallow,omitempty"` // commits where the client's history ends
	// Pack is the SHA-256 of the sorted IDs of the objects in the pack; empty: there
	// is none.
	Pack    string `json:"pack,omitempty"`
	Objects int    `json:"objects"`
	Content
}

// Ref is a change of one ref. An ID of zeros stands for none.
type Ref struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
	Kind Kind   `json:"kind"`
	// Why the gateway takes it for a force although it could be an update.
	Note string `json:"note,omitempty"`
}

// Kind is how a push changes a ref.
type Kind string

// The kinds of changes.
const (
	Create Kind = "create"
	Update Kind = "update" // the new commit has the old one in its history
	Force  Kind = "force"
	Delete Kind = "delete"
)

// Content is what a pack contains, in comparison with what is at the forge.
type Content struct {
	Commits     []Commit `json:"commits"`
	MoreCommits int      `json:"more_commits,omitempty"`
	Files       []File   `json:"files"`
	MoreFiles   int      `json:"more_files,omitempty"`
	Diff        string   `json:"diff,omitempty"`
	DiffCut     bool     `json:"diff_truncated,omitempty"`
	// Findings are places that look like credentials, without their values.
	Findings []string `json:"findings,omitempty"`
	// NoDiff says why the gateway could not compare everything; empty: it did.
	NoDiff string `json:"no_diff,omitempty"`
}

// Commit is a new commit.
type Commit struct {
	ID      string `json:"id"`
	Author  string `json:"author"`
	Subject string `json:"subject"`
}

// File is a changed file.
type File struct {
	Path    string `json:"path"`
	Status  string `json:"status"` // added, changed or deleted
	Added   int    `json:"added,omitempty"`
	Removed int    `json:"removed,omitempty"`
	Binary  bool   `json:"binary,omitempty"`
	Size    int64  `json:"size,omitempty"` // of a binary file, in bytes
	// Runs says what runs the file without anybody starting it; empty: nothing
	// known.
	Runs string `json:"runs,omitempty"`
}

// Parse returns the params of a call of git:push; false if they are not.
func Parse(source, action string, params json.RawMessage) (p Params, ok bool) {
	return p, source == "git" && action == "push" && json.Unmarshal(params, &p) == nil && len(p.Refs) > 0
}

// Short is the abbreviation of an ID.
func Short(id string) string { return id[:min(len(id), 10)] }

// Summary describes the push in one line.
func (p *Params) Summary() string {
	parts := make([]string, len(p.Refs))
	for i, r := range p.Refs {
		parts[i] = r.describe()
	}
	text := p.Repository + ": " + strings.Join(parts, "; ")
	if n := len(p.Commits) + p.MoreCommits; n > 0 {
		text += fmt.Sprintf(" (%s, %s)", count(n, "commit"), count(len(p.Files)+p.MoreFiles, "file"))
	}
	if len(p.Findings) > 0 {
		text += "; it may contain credentials"
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (r *Ref) describe() string {
	name := strings.TrimPrefix(r.Name, "refs/heads/")
	switch r.Kind {
	case Create:
		return "create " + name + " at " + Short(r.New)
	case Delete:
		return "delete " + name + ", which is at " + Short(r.Old)
	case Force:
		return "overwrite " + name + ", " + Short(r.Old) + " with " + Short(r.New)
	case Update:
	}
	return "update " + name + " from " + Short(r.Old) + " to " + Short(r.New)
}

// Overview is everything but the diff, in lines.
func (p *Params) Overview() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Repository: %s\n", p.Repository)
	for _, r := range p.Refs {
		fmt.Fprintf(&b, "  %s\n", r.describe())
		if r.Note != "" {
			fmt.Fprintf(&b, "    %s\n", r.Note)
		}
	}
	for _, f := range p.Findings {
		fmt.Fprintf(&b, "MAY BE A CREDENTIAL: %s\n", f)
	}
	if p.NoDiff != "" {
		fmt.Fprintf(&b, "NOT COMPARED: %s\n", p.NoDiff)
	}
	if len(p.Commits) > 0 {
		b.WriteString("Commits:\n")
		for _, c := range p.Commits {
			fmt.Fprintf(&b, "  %s %s (%s)\n", Short(c.ID), c.Subject, c.Author)
		}
		if p.MoreCommits > 0 {
			fmt.Fprintf(&b, "  and %d more\n", p.MoreCommits)
		}
	}
	if len(p.Files) > 0 {
		b.WriteString("Files:\n")
		for _, f := range p.Files {
			fmt.Fprintf(&b, "  %s\n", f.line())
		}
		if p.MoreFiles > 0 {
			fmt.Fprintf(&b, "  and %d more\n", p.MoreFiles)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (f *File) line() string {
	text := fmt.Sprintf("%-7s %s", f.Status, f.Path)
	if f.Binary {
		text += fmt.Sprintf("  binary, %d bytes", f.Size)
	} else {
		text += fmt.Sprintf("  +%d -%d", f.Added, f.Removed)
	}
	if f.Runs != "" {
		text += "  [" + f.Runs + "]"
	}
	return text
}
