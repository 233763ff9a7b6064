package gate

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"sallyport/action"
)

// Available lists the actions that the session may call, without denied ones, in
// the catalog's order. Within an organization the same version means the same
// list. The list is shared: treat it as read-only.
func (g *Gate) Available(ctx context.Context, s *action.Session) (list []action.Available, version string, err error) {
	actions, catalog, err := g.Catalog.List(ctx, s.Organization)
	if err != nil {
		return nil, "", err
	}
	view, policy, err := g.View(ctx, s)
	if err != nil {
		return nil, "", err
	}
	if s.CompletedAt != nil {
		view += "/completed"
	}
	key := listKey{s.Organization, view}
	version = catalog + "/" + policy + "/" + view
	if l := g.lists.find(key, version); l != nil {
		return l.actions, version, nil
	}
	all, err := g.decided(ctx, s, actions)
	if err != nil {
		return nil, "", err
	}
	list = slices.DeleteFunc(all, func(a action.Available) bool { return a.Decision.Mode == action.ModeDeny })
	list = slices.Clip(slices.Clone(list))
	g.lists.keep(key, &decidedList{version: version, actions: list})
	return list, version, nil
}

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
// ErrInvalid for params that do not match the schema, and those of finding the
// action.
func (g *Gate) Explain(ctx context.Context, s *action.Session, source, name string, params json.RawMessage) (action.Explained, error) {
	act, err := g.Catalog.Find(ctx, s.Organization, source, name, false)
	if err != nil {
		return action.Explained{}, err
	}
	if params != nil {
		if params, err = g.check(act, params); err != nil {
			return action.Explained{}, err
		}
	}
	d, err := g.Decide(ctx, s, act, params, true)
	if err != nil {
		return action.Explained{}, err
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
	draft, err := g.draft(ctx, &action.Call{Session: *s}, act, d, params, g.Vault.Hash(params))
	if err != nil {
		return action.Explained{}, err
	}
	e.Refused, e.Note, err = g.Ledger.Preview(ctx, draft)
	return e, err
}

// lists caches decided lists by everything that they depend on.
type lists struct {
	mu     sync.Mutex
	m      map[listKey]*decidedList
	listed int // actions in m, plus one for each list
}

// listKey is what makes two sessions see the same list.
type listKey struct{ organization, view string }

type decidedList struct {
	version string
	actions []action.Available
}

// maxListed bounds the actions of all cached lists, about a kilobyte each; the
// cache is emptied when it is full.
const maxListed = 100_000

func (l *lists) find(k listKey, version string) *decidedList {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d := l.m[k]; d != nil && d.version == version {
		return d
	}
	return nil
}

func (l *lists) keep(k listKey, d *decidedList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listed += 1 + len(d.actions)
	if old := l.m[k]; old != nil {
		l.listed -= 1 + len(old.actions)
	}
	if l.m == nil || l.listed > maxListed {
		l.m, l.listed = make(map[listKey]*decidedList), 1+len(d.actions)
	}
	l.m[k] = d
}
