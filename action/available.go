package action

import (
	"context"
	"strconv"
	"sync"
)

// Available lists the actions that the session may call or ask for, denied
// ones left out, in the catalog's order, with a version that changes when the
// list may have. The list is shared: treat it as read-only.
func (g *Gate) Available(ctx context.Context, s *Session) (list []Available, version string, err error) {
	actions, catalog, err := g.Catalog.List(ctx, s.Organization)
	if err != nil {
		return nil, "", err
	}
	policy, err := g.Decider.Version(ctx, s.Organization)
	if err != nil {
		return nil, "", err
	}
	key := listKey{organization: s.Organization, automation: s.Automation}
	version = catalog + "/" + strconv.FormatInt(policy, 10)
	if l := g.lists.find(key, version); l != nil {
		return l.actions, version, nil
	}
	list = make([]Available, 0, len(actions))
	for _, a := range actions {
		d, err := g.Decider.Decide(ctx, s, a, false)
		if err != nil {
			return nil, "", err
		}
		if d.Mode != ModeDeny {
			list = append(list, Available{Action: a, Decision: d})
		}
	}
	g.lists.keep(key, &decidedList{version: version, actions: list})
	return list, version, nil
}

// lists remembers decided lists by everything that decides them.
type lists struct {
	mu sync.Mutex
	m  map[listKey]*decidedList
}

// listKey is what makes two sessions see the same list.
type listKey struct{ organization, automation string }

type decidedList struct {
	version string
	actions []Available
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
