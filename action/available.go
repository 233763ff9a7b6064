package action

import (
	"context"
	"encoding/json"
	"sync"
)

// Available lists the actions that the session may call or ask for, denied
// ones left out, in the catalog's order, with a version that changes when the
// list may have. The list is shared: treat it as read-only.
func (g *Gate) Available(ctx context.Context, s *Session) (list []Available, version string, err error) {
	all, version, err := g.decided(ctx, s)
	return all.available, version, err
}

// Abilities lists every action of the organization with what policy says of it
// for the session, denied ones too. The list is shared: treat it as read-only.
func (g *Gate) Abilities(ctx context.Context, s *Session) ([]Available, error) {
	all, _, err := g.decided(ctx, s)
	return all.actions, err
}

// decided decides the whole catalog for a session.
func (g *Gate) decided(ctx context.Context, s *Session) (*decidedList, string, error) {
	none := &decidedList{}
	actions, catalog, err := g.Catalog.List(ctx, s.Organization)
	if err != nil {
		return none, "", err
	}
	policy, err := g.Decider.Version(ctx, s.Organization)
	if err != nil {
		return none, "", err
	}
	key, version := keyOf(s), catalog+"/"+policy
	if l := g.lists.find(key, version); l != nil {
		return l, version, nil
	}
	l := &decidedList{version: version, actions: make([]Available, 0, len(actions)), available: make([]Available, 0, len(actions))}
	for _, a := range actions {
		d, err := g.Decider.Decide(ctx, s, a, nil, false)
		if err != nil {
			return none, "", err
		}
		d.Limits = nil // they name who is counted, and the list is shared
		one := Available{Action: a, Decision: d}
		l.actions = append(l.actions, one)
		if d.Mode != ModeDeny {
			l.available = append(l.available, one)
		}
	}
	g.lists.keep(key, l)
	return l, version, nil
}

// Explain decides a call for nobody: nothing is counted, used up or written.
// Nil params stand for any. Errors: ErrInvalid for params that do not fit, and
// those of finding the action.
func (g *Gate) Explain(ctx context.Context, s *Session, source, name string, params json.RawMessage) (Available, error) {
	act, err := g.Catalog.Find(ctx, s.Organization, source, name, false)
	if err != nil {
		return Available{}, err
	}
	if params != nil {
		if params, err = g.check(act, params); err != nil {
			return Available{}, err
		}
	}
	d, err := g.Decider.Decide(ctx, s, act, params, true)
	return Available{Action: act, Decision: d}, err
}

// lists remembers decided lists by everything that decides them.
type lists struct {
	mu sync.Mutex
	m  map[listKey]*decidedList
}

// listKey is what makes two sessions see the same list: all of them that a
// decision without params looks at.
type listKey struct {
	organization, automation, group, task string
	event                                 bool
}

func keyOf(s *Session) listKey {
	k := listKey{organization: s.Organization, automation: s.Automation, group: s.Group, event: s.Event != ""}
	if s.Group != "" { // only gates look at the task, and only groups have gates
		k.task = s.Task
	}
	return k
}

type decidedList struct {
	version   string
	actions   []Available // all
	available []Available // those that are not denied
}

// maxLists bounds the memory; past it the map starts anew.
const maxLists = 1000

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
	if l.m == nil || len(l.m) >= maxLists {
		l.m = make(map[listKey]*decidedList)
	}
	l.m[k] = d
}
