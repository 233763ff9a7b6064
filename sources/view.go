package sources

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"sallyport/action"
)

// view is all that an organization sees at one time. It is built once for
// each change and never changed.
type view struct {
	actions []*action.Action
	index   map[action.Key]*action.Action
	tools   map[string]*action.Action // by the name that agents see
	made    map[*action.Action]*tool  // from which tool each was made
	version string
	shown   atomic.Bool // somebody was given the list
}

// rebuildLocked builds the view again and reports whether somebody has a list
// that is not so any more.
func (t *tenant) rebuildLocked() (changed bool) {
	before := t.view.Load()
	next := t.buildLocked(before)
	if next.version != before.version {
		t.view.Store(next)
	}
	return next.version != before.version && before.shown.Load()
}

func (t *tenant) buildLocked(before *view) *view {
	var origins []origin
	var feeds []*feed
	var tools []*tool
	for _, f := range t.feeds {
		for _, tl := range f.tools {
			origins = append(origins, origin{
				created: f.connector.CreatedAt, source: f.connector.Source(), slug: f.connector.Slug, tool: tl.name,
			})
			feeds, tools = append(feeds, f), append(tools, tl)
		}
	}
	v := &view{
		index: make(map[action.Key]*action.Action, len(tools)),
		tools: make(map[string]*action.Action, len(tools)),
		made:  make(map[*action.Action]*tool, len(tools)),
	}
	for i, name := range names(origins, t.Reserved) {
		a := feeds[i].action(tools[i], name)
		if old := before.index[a.Key()]; old != nil && before.made[old] == tools[i] && same(old, a) {
			a = old
		} else {
			a.Definition = tools[i].renamed(name)
		}
		v.actions = append(v.actions, a)
		v.index[a.Key()], v.tools[a.Tool] = a, a
		v.made[a] = tools[i]
	}
	slices.SortFunc(v.actions, func(a, b *action.Action) int { return strings.Compare(a.Tool, b.Tool) })
	v.version = v.hash()
	return v
}

// action returns the action of a tool, but for its definition.
func (f *feed) action(t *tool, name string) *action.Action {
	con := f.connector
	source, review := f.source, cmp.Or(con.Review, action.ReviewTrust)
	return &action.Action{
		Source:       con.Source(),
		SourceName:   con.Name,
		Name:         t.name,
		Tool:         name,
		Title:        t.title,
		Description:  t.description,
		Risk:         risk(con.Risks[t.name], t.hint, con.DefaultRisk),
		InputSchema:  t.input,
		OutputSchema: t.output,
		Hash:         approved(t.hashes, review),
		Hashes:       t.hashes,
		Review:       review,
		Revision:     fmt.Sprintf("%s:%d", con.ID, con.Revision),
		Check:        t.checker.Check,
		Run: func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
			return source.Call(ctx, t.name, params, caller)
		},
	}
}

// risk is the first that somebody named: an admin for this tool, the source in
// its annotations, an admin for the whole connector.
func risk(override, hint, standard action.Risk) action.Risk {
	for _, r := range []action.Risk{override, hint, standard} {
		if r.Valid() {
			return r
		}
	}
	return action.RiskWrite
}

// approved is the hash that approvals and grants are for: where the texts
// count, a change of either is another tool.
func approved(h action.ToolHashes, review action.ReviewRule) string {
	if !review.Texts() {
		return h.Behaviour
	}
	sum := sha256.Sum256([]byte(h.Behaviour + "\n" + h.Text))
	return hex.EncodeToString(sum[:])
}

// same reports whether two actions of one tool differ in nothing.
func same(a, b *action.Action) bool {
	return a.Tool == b.Tool && a.SourceName == b.SourceName && a.Risk == b.Risk && a.Review == b.Review && a.Revision == b.Revision
}

// hash covers all that anyone sees of the actions, and all that policy decides
// by.
func (v *view) hash() string {
	h := sha256.New()
	for _, a := range v.actions {
		fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%s\x00%s\x00", a.Tool, a.Source, a.SourceName, a.Risk, a.Review, a.Revision)
		digest := v.made[a].digest
		_, _ = h.Write(digest[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
