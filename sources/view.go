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

// view is what an organization sees at one point in time. It is immutable and
// rebuilt after each change.
type view struct {
	actions []*action.Action
	index   map[action.Key]*action.Action
	tools   map[string]*action.Action // by tool name
	toolOf  map[*action.Action]*tool  // source of each action
	version string
	// Resources, templates and prompts, and where each comes from.
	offerings *action.Offerings
	routes    *routes

	served atomic.Bool // to at least one caller
}

// rebuildLocked rebuilds the view and reports whether a served list is
// outdated.
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

// actionBuilder builds the action of one of its tools, without the definition.
type actionBuilder interface {
	action(t *tool, name string) *action.Action
}

// allToolsLocked returns all tools, with the request for a name and the builder
// of each.
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

// sourceActionsLocked returns the actions that are not tools.
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

// action implements [actionBuilder].
func (f *feed) action(t *tool, name string) *action.Action {
	con := f.connector
	source, review := f.source, cmp.Or(con.Review, action.ReviewTrust)
	asks, timeout := f.askLimits()
	if f.about == nil || f.about.Guide != f.instructions {
		f.about = &action.About{Guide: f.instructions, Untrusted: true}
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

// askLimits returns what the source can ask of callers, and the timeout of its
// actions: as configured, or long enough for a person's answer; zero: the
// default.
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

// effectiveRisk returns the first valid risk: an admin's for this tool, the
// source's annotation, an admin's for the whole connector. Default: write.
func effectiveRisk(override, hint, standard action.Risk) action.Risk {
	for _, r := range []action.Risk{override, hint, standard} {
		if r.Valid() {
			return r
		}
	}
	return action.RiskWrite
}

// approvalHash returns the hash that approvals and grants refer to. If texts
// are reviewed, too, a change of either makes it another tool.
func approvalHash(h action.ToolHashes, review action.ReviewRule) string {
	if !review.CountsText() {
		return h.Behaviour
	}
	sum := sha256.Sum256([]byte(h.Behaviour + "\n" + h.Text))
	return hex.EncodeToString(sum[:])
}

// sameAction reports whether two actions of one tool, or of none, are equal.
func sameAction(a, b *action.Action) bool {
	return a.Tool == b.Tool && a.SourceName == b.SourceName && a.Risk == b.Risk && a.Review == b.Review && a.About == b.About && a.Revision == b.Revision &&
		a.Timeout == b.Timeout && slices.Equal(a.MayAsk, b.MayAsk) && (a.Complete == nil) == (b.Complete == nil) && (a.Subscribe == nil) == (b.Subscribe == nil)
}

// hash covers everything that agents see of the actions, everything that policy
// uses, and the number of announced changes of tools. Server instructions are
// excluded: some contain the current time, and would notify agents of a change
// each time. Guides show them as of the last other change.
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
