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
	"time"

	"sallyport/action"
)

// view is all that an organization sees at one time. It is built once for
// each change and never changed.
type view struct {
	actions []*action.Action
	index   map[action.Key]*action.Action
	tools   map[string]*action.Action // by the name that agents see
	toolOf  map[*action.Action]*tool  // from which tool each was made
	version string
	// What is offered beside them, and who does.
	offerings *action.Offerings
	routes    *routes

	served atomic.Bool // somebody was given the list
}

// rebuildLocked builds the view again and reports whether somebody has a list
// that is not so any more.
func (t *tenant) rebuildLocked() (changed bool) {
	before := t.view.Load()
	next := t.buildLocked(before)
	if next.version == before.version && next.offerings == before.offerings {
		return false
	}
	t.view.Store(next)
	return before.served.Load()
}

func (t *tenant) buildLocked(before *view) *view {
	origins, tools, makers := t.allToolsLocked()
	v := &view{
		index:  make(map[action.Key]*action.Action, len(tools)),
		tools:  make(map[string]*action.Action, len(tools)),
		toolOf: make(map[*action.Action]*tool, len(tools)),
	}
	for i, name := range names(origins, t.Reserved) {
		a := makers[i].action(tools[i], name)
		if old := before.index[a.Key()]; old != nil && before.toolOf[old] == tools[i] && sameAction(old, a) {
			a = old
		} else {
			a.Definition = tools[i].definitionAs(name)
		}
		v.actions = append(v.actions, a)
		v.index[a.Key()], v.tools[a.Tool] = a, a
		v.toolOf[a] = tools[i]
	}
	slices.SortFunc(v.actions, func(a, b *action.Action) int { return strings.Compare(a.Tool, b.Tool) })
	v.actions = append(v.actions, t.sourceActionsLocked(before)...)
	for _, a := range v.actions[len(tools):] {
		v.index[a.Key()] = a
	}
	v.version = v.hash(t.changes[changedTools])
	v.offerings, v.routes = t.buildOfferingsLocked(before)
	return v
}

// actionBuilder makes the action of one of its tools under a name, but for the
// definition.
type actionBuilder interface {
	action(t *tool, name string) *action.Action
}

// allToolsLocked returns all tools, with what names each and what makes its
// action.
func (t *tenant) allToolsLocked() (origins []nameRequest, tools []*tool, makers []actionBuilder) {
	add := func(m actionBuilder, o nameRequest, list []*tool) {
		for _, tl := range list {
			o.name = tl.name
			origins, tools, makers = append(origins, o), append(tools, tl), append(makers, m)
		}
	}
	add(platformFor{t.platform, t.organization}, nameRequest{source: action.Platform}, t.platform.tools) // older than all others
	for _, f := range t.feeds {
		add(f, nameRequest{created: f.connector.CreatedAt, source: f.connector.Source(), slug: f.connector.Slug}, f.tools)
	}
	for _, p := range t.modules {
		add(p, nameRequest{created: p.created, source: p.ID, slug: p.ID}, p.tools)
	}
	return origins, tools, makers
}

// sourceActionsLocked returns the actions that are no tools.
func (t *tenant) sourceActionsLocked(before *view) (list []*action.Action) {
	for _, f := range t.feeds {
		for _, a := range f.resourceActions() {
			if old := before.index[a.Key()]; old != nil && sameAction(old, a) {
				a = old
			}
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b *action.Action) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Name, b.Name))
	})
	return list
}

// action implements [maker].
func (f *feed) action(t *tool, name string) *action.Action {
	con := f.connector
	source, review := f.source, cmp.Or(con.Review, action.ReviewTrust)
	asks, timeout := f.askLimits()
	if f.about == nil || f.about.Guide != f.instructions {
		f.about = &action.About{Guide: f.instructions, Foreign: true}
	}
	return &action.Action{
		Source:       con.Source(),
		SourceName:   con.Name,
		Name:         t.name,
		Tool:         name,
		Title:        t.title,
		Description:  t.description,
		Risk:         effectiveRisk(con.Risks[t.name], t.riskHint, con.DefaultRisk),
		InputSchema:  t.input,
		OutputSchema: t.output,
		Hash:         approvalHash(t.hashes, review),
		Hashes:       t.hashes,
		Review:       review,
		Revision:     f.revision(),
		Timeout:      timeout,
		MayAsk:       asks,
		About:        f.about,
		Check:        t.checkFunc(name),
		Run: func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
			return source.Call(ctx, t.name, params, caller)
		},
	}
}

func (f *feed) revision() string {
	return fmt.Sprintf("%s:%d", f.connector.ID, f.connector.Revision)
}

// askLimits is what the source may ask of callers, and how long its actions may
// take: as an admin said, or for the answer of a person; zero: as long as any.
func (f *feed) askLimits() ([]action.AskKind, time.Duration) {
	con := f.connector
	switch {
	case con.TimeoutSeconds > 0:
		return con.MayAsk, min(time.Duration(con.TimeoutSeconds)*time.Second, action.MaxTimeout)
	case len(con.MayAsk) > 0:
		return con.MayAsk, askTimeout
	}
	return nil, 0
}

// effectiveRisk is the first that somebody named: an admin for this tool, the source in
// its annotations, an admin for the whole connector.
func effectiveRisk(override, hint, standard action.Risk) action.Risk {
	for _, r := range []action.Risk{override, hint, standard} {
		if r.Valid() {
			return r
		}
	}
	return action.RiskWrite
}

// approvalHash is the hash that approvals and grants are for: where the texts
// count, a change of either is another tool.
func approvalHash(h action.ToolHashes, review action.ReviewRule) string {
	if !review.Texts() {
		return h.Behaviour
	}
	sum := sha256.Sum256([]byte(h.Behaviour + "\n" + h.Text))
	return hex.EncodeToString(sum[:])
}

// sameAction reports whether two actions of one tool, or of none, differ in nothing.
func sameAction(a, b *action.Action) bool {
	return a.Tool == b.Tool && a.SourceName == b.SourceName && a.Risk == b.Risk && a.Review == b.Review && a.About == b.About && a.Revision == b.Revision &&
		a.Timeout == b.Timeout && slices.Equal(a.MayAsk, b.MayAsk) && (a.Complete == nil) == (b.Complete == nil) && (a.Subscribe == nil) == (b.Subscribe == nil)
}

// hash covers all that anyone sees of the actions, all that policy decides by,
// and how often sources said that their tools are others. What a server says of
// itself is not in it: some say the time, and agents would be told of a change
// each time. Guides have it as it was when something else changed.
func (v *view) hash(told int) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00", told)
	for _, a := range v.actions {
		fmt.Fprintf(h, "%s\x00%s\x00%s\x00%s\x00%s\x00%s\x00%s\x00%d\x00%q\x00", a.Tool, a.Source, a.SourceName, a.Name, a.Risk, a.Review, a.Revision, a.Timeout, a.MayAsk)
		if t := v.toolOf[a]; t != nil {
			_, _ = h.Write(t.digest[:])
			if t.taskOnly {
				fmt.Fprint(h, "task\x00")
			}
		} else {
			fmt.Fprintf(h, "%t %t\x00", a.Complete != nil, a.Subscribe != nil)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
