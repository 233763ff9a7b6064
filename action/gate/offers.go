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
	key, version := listKey{s.Organization, view}, catalog+"/"+policy
	if mine := g.offers.find(key, version, all); mine != nil {
		return mine, nil
	}
	mine, err := g.offered(ctx, s, all, actions)
	if err != nil {
		return nil, err
	}
	g.offers.keep(key, &decidedOffers{version: version, of: all, mine: mine})
	return mine, nil
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

// offers caches decided offerings by everything that they depend on.
type offers struct {
	mu sync.Mutex
	m  map[listKey]*decidedOffers
}

type decidedOffers struct {
	version string            // of catalog and policy
	of      *action.Offerings // decided from these
	mine    *action.Offerings
}

// maxOffers bounds the cached views; the cache is emptied when it is full.
const maxOffers = 1_000

func (o *offers) find(k listKey, version string, of *action.Offerings) *action.Offerings {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d := o.m[k]; d != nil && d.version == version && d.of == of {
		return d.mine
	}
	return nil
}

func (o *offers) keep(k listKey, d *decidedOffers) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil || len(o.m) >= maxOffers {
		o.m = make(map[listKey]*decidedOffers)
	}
	o.m[k] = d
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
	return g.admit(ctx, &action.Call{Session: *s})
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
