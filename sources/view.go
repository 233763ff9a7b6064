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
	hash := t.hashes.Behaviour // that approvals and grants refer to
	if review.CountsText() {   // a change of either makes it another tool
		sum := sha256.Sum256([]byte(hash + "\n" + t.hashes.Text))
		hash = hex.EncodeToString(sum[:])
	}
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
		Hash:         hash,
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

// Maximum length of the names that agents see. Tools: some clients add a prefix
// of their own and allow 64 characters in total.
const (
	maxToolName           = 50
	maxPrefixedPromptName = 64
)

// nameRequest is a tool or a prompt that needs a name.
type nameRequest struct {
	created time.Time // of the source
	source  string
	slug    string
	name    string // at the source
	prompt  bool
}

// names assigns to each request the name that agents see, in the order of the
// requests. A name depends only on older sources and on the other tools of the
// same source, so that a new source renames nothing. All requests are for
// tools, or all for prompts.
func names(origins []nameRequest, reserved []string) []string {
	taken := make(map[string]bool, len(origins)+len(reserved))
	for _, name := range reserved {
		taken[strings.ToLower(name)] = true
	}
	order := make([]int, len(origins))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &origins[i], &origins[j] // older sources first, and within a source the tools that keep their names
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.source, b.source), cmp.Compare(a.changesName(), b.changesName()), strings.Compare(a.name, b.name))
	})
	out := make([]string, len(origins))
	for _, i := range order {
		out[i] = origins[i].unusedName(taken)
		taken[origins[i].conflictKey(out[i])] = true
	}
	return out
}

// changesName is 1 if the preferred name differs from the name at the source,
// otherwise 0.
func (o *nameRequest) changesName() int {
	if plain := o.preferred(); len(plain) > o.maxLength() || !strings.HasSuffix(plain, o.name) {
		return 1
	}
	return 0
}

// keepsName reports whether the name stays unchanged, whatever its characters:
// clients show prompt names to people, and models never write them.
func (o *nameRequest) keepsName() bool { return o.prompt && o.slug == "" }

// conflictKey is equal for names that conflict.
func (o *nameRequest) conflictKey(name string) string {
	if o.prompt {
		return name
	}
	return strings.ToLower(name)
}

func (o *nameRequest) maxLength() int {
	switch {
	case o.keepsName():
		return maxPromptName
	case o.prompt:
		return maxPrefixedPromptName
	}
	return maxToolName
}

// preferred returns the name with only valid characters, before it is
// truncated.
func (o *nameRequest) preferred() string {
	if o.keepsName() {
		return o.name
	}
	return o.sanitized()
}

// sanitized returns the prefixed name with only letters, digits, _ and -.
func (o *nameRequest) sanitized() string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, o.name)
	if o.slug == "" {
		return name
	}
	return o.slug + "_" + name
}

// unusedName returns the preferred name. If that is too long or taken, it
// returns a prefix of it with a hash of source and name, and with a longer hash
// if somebody chose the short form on purpose.
func (o *nameRequest) unusedName(taken map[string]bool) string {
	if name := o.preferred(); len(name) <= o.maxLength() && !taken[o.conflictKey(name)] {
		return name
	}
	name := o.sanitized()
	sum := sha256.Sum256([]byte(o.source + "\x00" + o.name))
	mark := hex.EncodeToString(sum[:])
	for n := 6; ; n += 6 {
		suffixed := name[:min(len(name), min(o.maxLength(), maxPrefixedPromptName)-1-n)] + "_" + mark[:n]
		if n >= 42 || !taken[o.conflictKey(suffixed)] {
			return suffixed
		}
	}
}
