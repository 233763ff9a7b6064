package connector

import (
	"slices"
	"sync"

	"sallyport/sources"
)

// maxKept bounds what is kept for the next who listens.
const maxKept = maxWishes + 3

// notices are the words of a server about itself, on whichever stream they
// came. While nobody listens one of each is kept.
type notices struct {
	mu    sync.Mutex // the fields below; held while they are told, one at a time
	heard []*func(sources.Notice)
	kept  []sources.Notice
}

// listen has heard called for each, beginning with what was kept.
func (n *notices) listen(heard func(sources.Notice)) (stop func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, told := range n.kept {
		heard(told)
	}
	n.heard, n.kept = append(n.heard, &heard), nil
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.heard = slices.DeleteFunc(n.heard, func(h *func(sources.Notice)) bool { return h == &heard })
	}
}

func (n *notices) tell(told sources.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, heard := range n.heard {
		(*heard)(told)
	}
	if len(n.heard) == 0 && len(n.kept) < maxKept && !slices.Contains(n.kept, told) {
		n.kept = append(n.kept, told)
	}
}

// notice hands on a notification of the server about itself, and reports
// whether it is one. Of resources that nobody subscribed to none is handed on.
func (s *Source) notice(m *message, method string) bool {
	n := sources.Notice{Kind: sources.NoticeKind(method)}
	switch n.Kind {
	case sources.NoticeTools, sources.NoticeResources, sources.NoticePrompts:
		s.notices.tell(n)
	case sources.NoticeUpdated:
		members, _ := sources.Members(m.params)
		uri, _ := unquoted(sources.Lookup(m.params, members, "uri"))
		s.updated(s.cleaner.Load().text(uri))
	default:
		return false
	}
	return true
}

// updated tells that a resource may have changed.
func (s *Source) updated(uri string) {
	if s.wishes.wants(uri) {
		s.notices.tell(sources.Notice{Kind: sources.NoticeUpdated, URI: uri})
	}
}
