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

// Offerings returns what the session may read and get beside actions: what is
// of a source whose resources/read or prompts/get is denied is left out.
// It is shared between sessions that see the same: treat it as read-only.
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

// offered decides what of the offerings is a session's.
func (g *Gate) offered(ctx context.Context, s *action.Session, all *action.Offerings, actions []*action.Action) (*action.Offerings, error) {
	mine := &action.Offerings{Logs: all.Logs}
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
			reads[a.Source], mine.Reads = true, true
		} else {
			gets[a.Source], mine.Gets = true, true
		}
		mine.Completes = mine.Completes || a.Complete != nil
		mine.Subscribes = mine.Subscribes || a.Subscribe != nil
	}
	mine.Resources, mine.Templates = only(all.Resources, reads), only(all.Templates, reads)
	mine.Prompts = only(all.Prompts, gets)
	mine.ResourcesVersion = all.ResourcesVersion + "/" + names(reads)
	mine.PromptsVersion = all.PromptsVersion + "/" + names(gets)
	return mine, nil
}

// only returns the part of a list that is of the sources: the list itself where
// that is all of it.
func only(list []action.Offering, of map[string]bool) []action.Offering {
	foreign := func(o action.Offering) bool { return !of[o.Source] }
	if !slices.ContainsFunc(list, foreign) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), foreign)
}

// offers remembers decided offerings by everything that decides them.
type offers struct {
	mu sync.Mutex
	m  map[listKey]*decidedOffers
}

type decidedOffers struct {
	version string            // of catalog and policy
	of      *action.Offerings // from which they were decided
	mine    *action.Offerings
}

// maxOffers bounds how many views are remembered. Past it they are decided
// anew.
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

// Complete answers completion/complete about an argument of a source's
// resources/read or prompts/get. It is no invocation: it is counted as a call
// of the session, and answered only where policy allows the action itself
// without asking. Errors: as [Gate.Call], and ErrForbidden.
func (g *Gate) Complete(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Answer, error) {
	if err := g.Admit(ctx, s); err != nil {
		return action.Answer{}, err
	}
	act, err := g.beside(ctx, s, source, name)
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

// Subscribe has a source tell of changes of one of its resources, or no more;
// they come as hints of kind HintResource. It is allowed where Complete is; to
// end it is always allowed. It is not counted: see [Gate.Admit].
func (g *Gate) Subscribe(ctx context.Context, s *action.Session, source, uri string, on bool) error {
	find := g.beside
	if !on { // who may not subscribe any more must not go on being told
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

// Admit counts something that is no call as one call of the session. Errors:
// ErrUnauthenticated, ErrTooMany, ErrNotReady.
func (g *Gate) Admit(ctx context.Context, s *action.Session) error {
	if g.refusing.Load() {
		return errDraining()
	}
	return g.admit(ctx, &action.Call{Session: *s})
}

// beside finds the action that something which is no call belongs to, and
// checks that policy allows the action.
func (g *Gate) beside(ctx context.Context, s *action.Session, source, name string) (*action.Action, error) {
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

// reading turns an unknown outcome of something that has none into a plain
// failure.
func reading(err error) error {
	if !errors.Is(err, action.ErrOutcomeUnknown) {
		return err
	}
	e := *action.Public(err)
	e.Kind = action.ErrUnavailable
	return &e
}
