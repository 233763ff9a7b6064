package mcpserver

import (
	"maps"
	"sync"

	"sallyport/action"
)

// watchKey names a resource: by its URI at its source.
type watchKey struct{ organization, source, uri string }

func (k watchKey) at() sourceKey { return sourceKey{k.organization, k.source} }

// watcher is a session of the older era or a stream of the stateless one.
type watcher interface {
	// update tells of a resource that changed, by the URI that the client
	// knows. It must not block.
	update(uri string)
	// unwatch forgets a subscription and returns it, or nil.
	unwatch(w *watches, uri string) *subscription
	// sees is the view of whoever watches.
	sees() *view
}

// watches know who wants to hear of which resource.
type watches struct {
	mu sync.Mutex
	by map[watchKey]map[watcher]string
}

func (w *watches) add(key watchKey, who watcher, as string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[watchKey]map[watcher]string{}
	}
	if w.by[key] == nil {
		w.by[key] = map[watcher]string{}
	}
	w.by[key][who] = as
}

func (w *watches) remove(key watchKey, who watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.by[key], who)
	if len(w.by[key]) == 0 {
		delete(w.by, key)
	}
}

// hear takes a hint that a resource changed.
func (w *watches) hear(h action.Hint) {
	w.mu.Lock()
	told := maps.Clone(w.by[watchKey{h.Organization, h.Source, h.Resource}])
	w.mu.Unlock() // a session adds to us while it holds itself
	for who, as := range told {
		who.update(as)
	}
}

// watched is a resource that somebody wants to hear of.
type watched struct {
	key watchKey
	who watcher
	as  string
}

// seenBy returns what is watched, by the views of those who do.
func (w *watches) seenBy() map[*view][]watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[*view][]watched{}
	for key, by := range w.by {
		for who, as := range by {
			all[who.sees()] = append(all[who.sees()], watched{key, who, as})
		}
	}
	return all
}
