package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"sallyport/action"
)

// Offerings returns the resources and prompts that the session may use, without
// those of sources whose resources/read or prompts/get is denied. The result is
// shared between sessions: treat it as read-only.
func (g *Gate) Offerings(ctx context.Context, s *action.Session) (*action.Offerings, error) {
	all, err := g.Catalog.Offerings(ctx, s.Organization)
	if err != nil {
		return nil, err
	}
	actions, catalog, err := g.Catalog.List(ctx, s.Organization)
	if err != nil {
		return nil, err
	}
	view, policy, err := g.View(ctx, s)
	if err != nil {
		return nil, err
	}
	key, version := listKey{s.Organization, view}, offersVersion{catalog, policy, all}
	if mine, ok := g.offers.find(key, version); ok {
		return mine, nil
	}
	mine, err := g.offered(ctx, s, all, actions)
	if err != nil {
		return nil, err
	}
	g.offers.keep(key, cachedDecision[*action.Offerings]{version, mine, 1}, maxOffers)
	return mine, nil
}

// maxOffers bounds the cached views of offerings.
const maxOffers = 1_000

// offersVersion is what the offerings of a view were decided from.
type offersVersion struct {
	catalog, policy string
	of              *action.Offerings
}

// offered returns the part of the offerings that policy allows the session.
func (g *Gate) offered(ctx context.Context, s *action.Session, all *action.Offerings, actions []*action.Action) (*action.Offerings, error) {
	mine := &action.Offerings{SupportsLogs: all.SupportsLogs}
	reads, gets := map[string]bool{}, map[string]bool{}
	for _, a := range actions {
		if a.Name != action.ActionRead && a.Name != action.ActionPrompt {
			continue
		}
		d, err := g.Decide(ctx, s, a, nil, false)
		if err != nil {
			return nil, err
		}
		if d.Mode == action.ModeDeny {
			continue
		}
		if a.Name == action.ActionRead {
			reads[a.Source], mine.HasResources = true, true
		} else {
			gets[a.Source], mine.HasPrompts = true, true
		}
		mine.SupportsCompletion = mine.SupportsCompletion || a.Complete != nil
		mine.SupportsSubscriptions = mine.SupportsSubscriptions || a.Subscribe != nil
	}
	mine.Resources, mine.Templates = only(all.Resources, reads), only(all.Templates, reads)
	mine.Prompts = only(all.Prompts, gets)
	mine.ResourcesVersion = all.ResourcesVersion + "/" + names(reads)
	mine.PromptsVersion = all.PromptsVersion + "/" + names(gets)
	return mine, nil
}

// only returns the offerings of the sources, without a copy if that is all of them.
func only(list []action.Offering, of map[string]bool) []action.Offering {
	foreign := func(o action.Offering) bool { return !of[o.Source] }
	if !slices.ContainsFunc(list, foreign) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), foreign)
}

func names(of map[string]bool) string {
	list := make([]string, 0, len(of))
	for name := range of {
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// Complete answers completion/complete for an argument of a source's resources/read
// or prompts/get. It writes no invocation, counts against the session's rate limit,
// and works only where policy allows the action. Errors: those of [Gate.Call], and
// ErrForbidden.
func (g *Gate) Complete(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Answer, error) {
	if err := g.Admit(ctx, s); err != nil {
		return action.Answer{}, err
	}
	act, err := g.allowed(ctx, s, source, name)
	if err != nil {
		return action.Answer{}, err
	}
	if act.Complete == nil {
		return action.Answer{}, action.NewError("no_completion", act.SourceName)
	}
	ctx, stop := context.WithTimeout(ctx, g.timeout(act))
	defer stop()
	res, err := act.Complete(ctx, params)
	if err != nil {
		return action.Answer{}, reading(err)
	}
	return action.Answer{Body: res.Body, Problem: res.Problem}, nil
}

// Subscribe starts or ends the subscription to a resource of a source; changes
// arrive as hints of kind HintResource. Starting is allowed where Complete is,
// ending always. It is not counted; see [Gate.Admit].
func (g *Gate) Subscribe(ctx context.Context, s *action.Session, source, uri string, on bool) error {
	find := g.allowed
	if !on { // a session that lost access must be able to unsubscribe
		find = func(ctx context.Context, s *action.Session, source, name string) (*action.Action, error) {
			return g.Catalog.Find(ctx, s.Organization, source, name, false)
		}
	}
	act, err := find(ctx, s, source, action.ActionRead)
	if err != nil {
		return err
	}
	if act.Subscribe == nil {
		return action.NewError("no_subscription", act.SourceName)
	}
	ctx, stop := context.WithTimeout(ctx, g.timeout(act))
	defer stop()
	return reading(act.Subscribe(ctx, uri, on))
}

// Admit counts a request that is not a call against the session's rate limit.
// Errors: ErrUnauthenticated, ErrTooMany, ErrNotReady.
func (g *Gate) Admit(ctx context.Context, s *action.Session) error {
	if g.refusing.Load() {
		return errDraining()
	}
	err := g.admit(ctx, &action.Call{Session: *s})
	if kind, ok := action.RefusalOf(err); ok {
		g.CountRefusal(s, kind, "", "")
	}
	return err
}

// allowed returns the action that a completion or a subscription belongs to, if
// policy allows it.
func (g *Gate) allowed(ctx context.Context, s *action.Session, source, name string) (*action.Action, error) {
	if g.refusing.Load() {
		return nil, errDraining()
	}
	if err := s.Accepts(g.Now()); err != nil {
		return nil, err
	}
	act, err := g.Catalog.Find(ctx, s.Organization, source, name, false)
	if err != nil {
		return nil, err
	}
	d, err := g.Decide(ctx, s, act, nil, false)
	if err != nil {
		return nil, err
	}
	if d.Mode != action.ModeAllow {
		return nil, action.NewError("not_allowed", name, act.SourceName, d.Why())
	}
	return act, nil
}

// reading turns "outcome unknown" into "unavailable" for requests that change
// nothing.
func reading(err error) error {
	if !errors.Is(err, action.ErrOutcomeUnknown) {
		return err
	}
	e := *action.Public(err)
	e.Kind = action.ErrUnavailable
	return &e
}

// Available lists the actions that the session may call, without denied ones, in
// the catalog's order. Within an organization the same version means the same
// list. The list is shared: treat it as read-only.
func (g *Gate) Available(ctx context.Context, s *action.Session) (list []action.Available, version string, err error) {
	l, version, err := g.listed(ctx, s)
	return l.available, version, err
}

// Denied counts the tools that policy denies the session, by source in the order of
// the catalog. Tools of integrations that the session is not connected to are left out.
func (g *Gate) Denied(ctx context.Context, s *action.Session) ([]action.DeniedTools, error) {
	l, _, err := g.listed(ctx, s)
	return l.denied, err
}

// decidedList is a list of actions after the decisions for a session.
type decidedList struct {
	available []action.Available
	denied    []action.DeniedTools
}

func (g *Gate) listed(ctx context.Context, s *action.Session) (l decidedList, version string, err error) {
	actions, catalog, err := g.Catalog.List(ctx, s.Organization)
	if err != nil {
		return l, "", err
	}
	view, policy, err := g.View(ctx, s)
	if err != nil {
		return l, "", err
	}
	if s.CompletedAt != nil {
		view += "/completed"
	}
	key := listKey{s.Organization, view}
	version = catalog + "/" + policy + "/" + view
	if l, ok := g.lists.find(key, version); ok {
		return l, version, nil
	}
	all, err := g.decided(ctx, s, actions)
	if err != nil {
		return l, "", err
	}
	for i := range all {
		a := &all[i]
		if a.Tool == "" || a.Decision.Mode != action.ModeDeny || s.CompletedAt != nil || unavailable(a) { // no policy change helps a completed session
			continue
		}
		at := slices.IndexFunc(l.denied, func(d action.DeniedTools) bool { return d.Source == a.Source })
		if at < 0 {
			at, l.denied = len(l.denied), append(l.denied, action.DeniedTools{Source: a.Source, SourceName: a.SourceName})
		}
		l.denied[at].Count++
	}
	list := slices.DeleteFunc(all, func(a action.Available) bool { return a.Decision.Mode == action.ModeDeny })
	l.available = slices.Clip(slices.Clone(list))
	g.lists.keep(key, cachedDecision[decidedList]{version, l, 1 + len(list)}, maxListed)
	return l, version, nil
}

// unavailable reports whether a denied action is not the session's whatever policy says:
// the session is not connected to the integration, or is of another type than the
// gateway's own tool. Policy asks that first, so this is the only step.
func unavailable(a *action.Available) bool {
	return (a.Provider != "" || a.Platform != nil) && a.Decision.Source == action.LayerCeiling && len(a.Decision.Steps) == 1
}

// maxListed bounds the actions of all cached lists, about a kilobyte each.
const maxListed = 100_000

// Abilities lists every action of the organization with the decision of policy for
// the session, denied ones included.
func (g *Gate) Abilities(ctx context.Context, s *action.Session) ([]action.Available, error) {
	actions, _, err := g.Catalog.List(ctx, s.Organization)
	if err != nil {
		return nil, err
	}
	return g.decided(ctx, s, actions)
}

// decided decides the whole catalog for a session, without params.
func (g *Gate) decided(ctx context.Context, s *action.Session, actions []*action.Action) ([]action.Available, error) {
	list := make([]action.Available, 0, len(actions))
	for _, a := range actions {
		d, err := g.Decide(ctx, s, a, nil, false)
		if err != nil {
			return nil, err
		}
		d.Limits = nil // they name the session, and the list may be shared
		if s.CompletedAt != nil {
			d = d.AfterCompletion(a)
		}
		list = append(list, action.Available{Action: a, Decision: d})
	}
	return list, nil
}

// Explain decides a call without making it: nothing is counted or written. Nil
// params stand for any, a session without an id for all that are like it. Errors:
// ErrInvalid for params that do not match the schema, unless any are denied, and
// those of finding the action.
func (g *Gate) Explain(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Explained, error) {
	act, err := g.Catalog.Find(ctx, s.Organization, source, name, false)
	if err != nil {
		return action.Explained{}, err
	}
	var asked json.RawMessage
	var invalid error
	if params != nil {
		if params, invalid = g.check(act, params); invalid == nil {
			asked = params
		}
	}
	d, err := g.Decide(ctx, s, act, asked, true)
	if err != nil {
		return action.Explained{}, err
	}
	if invalid != nil && d.Mode != action.ModeDeny {
		return action.Explained{}, invalid
	}
	var binding action.Binding
	if s.ID != "" { // else there is no integration
		act, binding, err = g.bind(ctx, s, act, &d, params, func(act *action.Action) (action.Decision, error) {
			return g.Decide(ctx, s, act, asked, true)
		})
		if err != nil {
			return action.Explained{}, err
		}
	}
	e := action.Explained{Available: action.Available{Action: act, Decision: d}}
	if d.Mode != action.ModeRequireApproval {
		return e, nil
	}
	if params == nil {
		e.Decision.Steps = append(slices.Clip(d.Steps), action.Step{Layer: action.LayerGrant, Note: "Grants depend on the params. None were given, so grants were not checked."})
	}
	if s.ID == "" {
		return e, nil // no session, so no earlier denial
	}
	draft, err := g.draft(&action.Call{Session: *s}, act, &d, params, binding)
	if err != nil {
		return action.Explained{}, err
	}
	e.Refused, e.Note, err = g.Ledger.Preview(ctx, draft)
	return e, err
}

// listKey is what makes two sessions see the same list.
type listKey struct{ organization, view string }

// decisionCache caches what was decided for all sessions of a key, by everything
// else that it depends on: version is comparable.
type decisionCache[T any] struct {
	mu   sync.Mutex
	m    map[listKey]cachedDecision[T]
	size int
}

type cachedDecision[T any] struct {
	version any
	value   T
	size    int
}

func (c *decisionCache[T]) find(k listKey, version any) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.m[k]
	if d.version != version {
		return value, false
	}
	return d.value, true
}

// keep caches a value of some size. A cache that would exceed the limit is emptied
// first.
func (c *decisionCache[T]) keep(k listKey, d cachedDecision[T], limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += d.size - c.m[k].size
	if c.m == nil || c.size > limit {
		c.m, c.size = make(map[listKey]cachedDecision[T]), d.size
	}
	c.m[k] = d
}
