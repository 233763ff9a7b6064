package mcpserver

import (
	"maps"
	"sync"

	"sallyport/action"
)

// watchKey names a resource: by its URI at its source.
type watchKey struct{ organization, source, uri string }

// watcher is told of resources that changed, by the URI that its client knows.
// It must not block.
type watcher interface{ update(uri string) }

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

// released are subscriptions that end at their sources, when there is time for
// it.
type released struct {
	mu    sync.Mutex
	all   []*subscription
	nudge chan struct{}
}

func (r *released) add(sub *subscription) {
	r.mu.Lock()
	r.all = append(r.all, sub)
	r.mu.Unlock()
	select {
	case r.nudge <- struct{}{}:
	default:
	}
}

func (r *released) take() (all []*subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, r.all = r.all, nil
	return all
}
