package gitserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"sallyport/internal/gitpush"
)

// Bounds of what people see of a push.
const (
	maxShownCommits  = 100
	maxShownFiles    = 250
	maxFindings      = 20
	maxDiff          = 48 << 10 // bytes that are shown
	maxScanned       = 16 << 20 // bytes that are searched for credentials
	maxComparedFiles = 5_000
	maxMerged        = 20 // branches of the forge that a push merges
)

// emptyTree is the ID of the tree without files.
const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

// review computes what a push contains.
type review struct {
	*quarantine
	remote     *Remote
	commits    map[string]*commit // of the pack, and those fetched for the comparison
	pushed     map[string]bool    // the commits of the pack
	refs       map[string]string  // of the forge
	tips       map[string]bool    // commits outside the pack that a branch of the forge has
	suspicious func(line string) bool
	p          *gitpush.Params
	diff       strings.Builder
	scanned    int
}

// review fills in the kinds of the refs and the content. An error says that the pack
// cannot be read; what else prevents a comparison is noted.
func (s *Server) review(ctx context.Context, q *quarantine, remote *Remote, p *gitpush.Params) error {
	v := &review{quarantine: q, remote: remote, pushed: map[string]bool{}, suspicious: s.Suspicious, p: p, commits: map[string]*commit{}}
	p.Commits, p.Files = []gitpush.Commit{}, []gitpush.File{}
	if p.Pack != "" {
		found, n, hash, err := q.inventory(ctx)
		if err == nil && len(found) > maxCommits {
			err = fmt.Errorf("it has more than %d commits", maxCommits)
		}
		if err == nil {
			v.commits, err = q.read(ctx, found)
		}
		if err != nil {
			return err
		}
		p.Pack, p.Objects = hash, n
	}
	for id := range v.commits {
		v.pushed[id] = true
	}
	var names []string
	for _, r := range p.Refs {
		names = append(names, r.Name)
	}
	var err error
	if v.refs, v.tips, err = remote.readRefs(ctx, names, v.boundary()); err != nil {
		return err
	}
	v.fetchBases(ctx)
	for i := range p.Refs {
		v.classify(ctx, &p.Refs[i])
	}
	v.listCommits()
	for i := range p.Refs {
		if err := v.compare(ctx, &p.Refs[i]); err != nil {
			v.note(fmt.Sprintf("%s: %v", p.Refs[i].Name, err))
		}
	}
	p.Diff = clip(v.diff.String(), maxDiff)
	return nil
}

// note records why something was not compared.
func (v *review) note(why string) {
	if v.p.NoDiff == "" {
		v.p.NoDiff = oneLine(why, 300)
	}
}

// boundary returns the commits that the pack builds upon, or that refs point to,
// and that it lacks.
func (v *review) boundary() map[string]bool {
	all := map[string]bool{}
	for _, c := range v.commits {
		for _, parent := range c.parents {
			all[parent] = true
		}
	}
	for _, r := range v.p.Refs {
		if !isZero(r.New) {
			all[r.New] = true
		}
	}
	maps.DeleteFunc(all, func(id string, _ bool) bool { return v.commits[id] != nil })
	return all
}

// fetchBases fetches the trees of the commits that something is compared with.
func (v *review) fetchBases(ctx context.Context) {
	wants := map[string]bool{}
	for i := range v.p.Refs {
		r := &v.p.Refs[i]
		if r.Kind == gitpush.Delete {
			continue
		}
		if base := v.base(r); base != emptyTree {
			wants[base] = true
		}
		if v.commits[r.New] == nil {
			wants[r.New] = true
		}
	}
	for id := range v.boundary() { // the new trees share parts with them
		if v.tips[id] && len(wants) < len(v.p.Refs)+maxMerged {
			wants[id] = true
		}
	}
	if len(wants) == 0 {
		return
	}
	err := v.fetchObjects(ctx, v.remote, &objectRequest{wants: slices.Sorted(maps.Keys(wants)), filter: "blob:none", shallow: true})
	if err != nil {
		v.note("The forge did not send what the push is compared with: " + err.Error())
	}
}

// base returns the commit that a ref is compared with: its old one, the branch that a
// new one starts at, or else the default branch. A commit that no branch has is
// never taken, since nobody may have seen its content.
func (v *review) base(r *gitpush.Ref) string {
	if !isZero(r.Old) {
		return r.Old
	}
	at := r.New
	for n := 0; v.commits[at] != nil && n <= len(v.commits); n++ {
		if len(v.commits[at].parents) == 0 {
			break
		}
		at = v.commits[at].parents[0]
	}
	switch head := v.refs["HEAD"]; {
	case v.tips[at]:
		return at
	case head != "":
		return head
	}
	return emptyTree
}

// classify determines whether an update is a force: whether the new commit lacks the
// old one in its history. Without certainty it is.
func (v *review) classify(ctx context.Context, r *gitpush.Ref) {
	if r.Kind != gitpush.Update {
		return
	}
	found, open := v.search(r.New, r.Old)
	if !found && len(open) > 0 {
		err := v.fetchObjects(ctx, v.remote, &objectRequest{wants: open, haves: []string{r.Old}, filter: "tree:0"})
		if err == nil {
			err = v.readMore(ctx)
		}
		if err != nil {
			r.Note = oneLine("The history at the forge could not be read, so this counts as a force: "+err.Error(), 300)
		}
		found, _ = v.search(r.New, r.Old)
	}
	if !found || !strings.HasPrefix(r.Name, "refs/heads/") { // a tag that moves
		r.Kind = gitpush.Force
	}
}

// readMore parses the commits that were fetched.
func (v *review) readMore(ctx context.Context) error {
	found, _, _, err := v.inventory(ctx)
	if err == nil && len(found) > 2*maxCommits {
		err = fmt.Errorf("it has more than %d commits", maxCommits)
	}
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(o object) bool { return v.commits[o.id] != nil })
	more, err := v.read(ctx, found)
	maps.Copy(v.commits, more)
	return err
}

// search looks for a commit in the history of another. It returns the commits of the
// history that are not known.
func (v *review) search(from, want string) (found bool, open []string) {
	seen, next := map[string]bool{from: true}, []string{from}
	for len(next) > 0 {
		id := next[len(next)-1]
		next = next[:len(next)-1]
		c := v.commits[id]
		switch {
		case id == want:
			return true, nil
		case c == nil:
			open = append(open, id)
			continue
		}
		for _, parent := range c.parents {
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
	}
	slices.Sort(open)
	return false, open
}

// listCommits lists the commits of the pack that the refs reach, the newest first.
func (v *review) listCommits() {
	seen := map[string]bool{}
	for _, r := range v.p.Refs {
		next := []string{r.New}
		for len(next) > 0 {
			id := next[0]
			next = next[1:]
			c := v.commits[id]
			if c == nil || !v.pushed[id] || seen[id] {
				continue
			}
			seen[id] = true
			next = append(next, c.parents...)
			switch {
			case c.tag:
			case len(v.p.Commits) == maxShownCommits:
				v.p.MoreCommits++
			default:
				v.p.Commits = append(v.p.Commits, gitpush.Commit{ID: id, Author: c.author, Subject: c.subject})
			}
		}
	}
}

// change is a changed file in the form of git diff-tree.
type change struct {
	oldID, newID, status, path string
	submodule                  bool // its IDs are commits of another repository
}

// compare adds the files and the diff of a ref.
func (v *review) compare(ctx context.Context, r *gitpush.Ref) error {
	if r.Kind == gitpush.Delete || v.commits[r.New] == nil && v.tips[r.New] {
		return nil // no content that the forge's branches do not have
	}
	base := v.base(r)
	if !isZero(r.Old) && v.refs[r.Name] != r.Old {
		return errors.New("the ref is no longer at the old commit")
	}
	var changes []change
	var status []string
	err := v.run(ctx, nil, lines(0, 2*maxComparedFiles, func(field string) error {
		if len(status) == 0 {
			status = strings.Fields(strings.TrimPrefix(field, ":"))
			if len(status) != 5 {
				return fmt.Errorf("git says %.100q of a change", field)
			}
			return nil
		}
		const gitlink = "160000"
		changes = append(changes, change{status[2], status[3], status[4], field, status[0] == gitlink || status[1] == gitlink})
		status = nil
		return nil
	}), "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", "--no-abbrev", base+"^{tree}", r.New+"^{tree}")
	if err != nil {
		return err
	}
	sizes, err := v.fetchFiles(ctx, changes)
	if err != nil {
		return err
	}
	if len(v.p.Refs) > 1 || isZero(r.Old) {
		fmt.Fprintf(&v.diff, "### %s compared with %s\n", printable(r.Name), gitpush.Short(base))
	}
	files := map[string]*gitpush.File{}
	for _, c := range changes {
		f := &gitpush.File{Path: clip(printable(c.path), 400), Status: statusWord(c.status), Size: sizes[c.newID].size, Runs: runs(c.path)}
		files[c.path] = f
	}
	err = v.run(ctx, nil, lines(0, len(changes)+1, func(record string) error {
		parts := strings.SplitN(record, "\t", 3)
		if f := files[parts[len(parts)-1]]; f != nil && len(parts) == 3 {
			f.Binary = parts[0] == "-"
			f.Added, _ = strconv.Atoi(parts[0])
			f.Removed, _ = strconv.Atoi(parts[1])
		}
		return nil
	}), "diff-tree", "-r", "-z", "--numstat", "--no-renames", base+"^{tree}", r.New+"^{tree}")
	if err != nil {
		return err
	}
	for _, c := range changes {
		f := files[c.path]
		if !f.Binary {
			f.Size = 0
		}
		if len(v.p.Files) == maxShownFiles {
			if v.p.MoreFiles++; f.Runs != "" { // what runs by itself must be seen
				v.p.Files[maxShownFiles-1], v.p.Files[0] = v.p.Files[0], *f
			}
			continue
		}
		v.p.Files = append(v.p.Files, *f)
	}
	return v.run(ctx, nil, v.readDiff, "diff-tree", "-r", "-p", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", base+"^{tree}", r.New+"^{tree}")
}

// fetchFiles fetches the changed files that the quarantine lacks, and returns the
// sizes of all.
func (v *review) fetchFiles(ctx context.Context, changes []change) (map[string]object, error) {
	var ids []string
	for _, c := range changes {
		for _, id := range []string{c.oldID, c.newID} {
			if !isZero(id) && !c.submodule {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return nil, nil
	}
	sizes, err := v.sizes(ctx, ids)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return sizes[id].kind != "" })
	if len(missing) == 0 {
		return sizes, nil
	}
	if err := v.fetchObjects(ctx, v.remote, &objectRequest{wants: missing}); err != nil {
		return nil, fmt.Errorf("the forge did not send the files to compare with: %w", err)
	}
	return v.sizes(ctx, ids)
}

// readDiff reads a patch: it keeps the beginning, and searches all of it for
// credentials.
func (v *review) readDiff(r io.Reader) error {
	scanner := bufio.NewReaderSize(r, 64<<10)
	file, line := "", 0
	for {
		text, err := scanner.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			err = nil // the rest follows as a line of its own
		}
		if v.scanned += len(text); v.scanned > maxScanned {
			return fmt.Errorf("the diff has more than %d MiB", maxScanned>>20)
		}
		if v.diff.Len() < maxDiff {
			v.diff.WriteString(printable(string(text)))
		} else if len(text) > 0 {
			v.p.DiffCut = true
		}
		switch added, isAdded := strings.CutPrefix(string(text), "+"); {
		case strings.HasPrefix(added, "++ b/"):
			file = strings.TrimSpace(added[len("++ b/"):])
		case strings.HasPrefix(string(text), "@@ "):
			line = hunkStart(string(text))
		case isAdded:
			if len(v.p.Findings) < maxFindings && v.suspicious(added) {
				v.p.Findings = append(v.p.Findings, fmt.Sprintf("%s:%d", clip(printable(file), 300), line))
			}
			line++
		case strings.HasPrefix(string(text), " "):
			line++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// hunkStart returns the first line of a hunk in the new file.
func hunkStart(header string) int {
	_, rest, _ := strings.Cut(header, "+")
	digits := rest[:max(0, strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }))]
	n, _ := strconv.Atoi(digits) // 0 if there is none
	return n
}

func statusWord(s string) string {
	switch s {
	case "A":
		return "added"
	case "D":
		return "deleted"
	}
	return "changed"
}

// runs says what runs a file without anybody starting it; empty: nothing known.
func runs(name string) string {
	base, lower := path.Base(name), strings.ToLower(name)
	switch {
	case strings.HasPrefix(lower, ".github/workflows/"), strings.HasPrefix(lower, ".github/actions/"), strings.HasPrefix(lower, ".circleci/"), strings.HasPrefix(lower, ".woodpecker/"),
		strings.HasPrefix(lower, ".gitea/workflows/"), strings.HasPrefix(lower, ".forgejo/workflows/"), strings.HasPrefix(lower, ".buildkite/"),
		slices.Contains([]string{".gitlab-ci.yml", ".travis.yml", "jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml", ".woodpecker.yml", ".drone.yml", "appveyor.yml"}, lower):
		return runsInCI
	case strings.HasPrefix(lower, ".husky/"), strings.HasPrefix(lower, ".githooks/"), strings.Contains(lower, "hooks/pre-"), strings.Contains(lower, "hooks/post-"),
		slices.Contains([]string{".pre-commit-config.yaml", "lefthook.yml", ".envrc", ".gitmodules", ".gitattributes"}, lower),
		strings.HasPrefix(lower, ".vscode/"), strings.HasPrefix(lower, ".devcontainer/"):
		return "runs in checkouts"
	case slices.Contains([]string{
		"package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "go.sum", "Cargo.lock", "poetry.lock", "uv.lock",
		"Pipfile.lock", "Gemfile.lock", "composer.lock", "flake.lock", "mix.lock", "Podfile.lock", "gradle.lockfile", "packages.lock.json",
	}, base):
		return "lock file"
	}
	return ""
}

const runsInCI = "runs in CI"
