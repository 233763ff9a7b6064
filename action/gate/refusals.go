package gate

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"sallyport/action"
)

const (
	// refusalWindow is the time that one count covers.
	refusalWindow = time.Minute
	// maxRefusedActions bounds the counts of a session and kind in a window; calls of
	// further actions are counted together.
	maxRefusedActions = 20
	// maxRefusedName bounds a name that a caller chose.
	maxRefusedName = 100
)

// refusals counts calls that were refused without a row. What is counted reaches the
// ledger after its window, or when the gateway shuts down.
type refusals struct {
	mu      sync.Mutex
	counts  map[refusalKey]*action.RefusalCount
	actions map[refusalKey]int // distinct actions, by the key without one
}

// refusalKey is what is counted together. Names that only callers know are not part
// of it, because they have no bound.
type refusalKey struct {
	organization, session string
	kind                  action.RefusalKind
	source, action        string
}

// CountRefusal counts a refusal without a row in the evidence. The action is the name
// that the caller gave, of a source or, if that is not known, of none.
func (g *Gate) CountRefusal(s *action.Session, kind action.RefusalKind, source, name string) {
	now := g.Now()
	k := refusalKey{organization: s.Organization, session: s.ID, kind: kind}
	r := &g.refused
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts == nil {
		r.counts, r.actions = map[refusalKey]*action.RefusalCount{}, map[refusalKey]int{}
	}
	switch kind {
	case action.RefusedParams, action.RefusedQuota, action.RefusedPending:
		if source == "" || name == "" || len(source)+len(name) > 2*maxRefusedName || !printable(source) || !printable(name) {
			break // not known
		}
		known := k
		known.source, known.action = source, name
		if r.counts[known] != nil || r.actions[k] < maxRefusedActions {
			if r.counts[known] == nil {
				r.actions[k]++
			}
			k = known
		}
	case action.RefusedUnknown, action.RefusedRate, action.RefusedDecision:
	}
	c := r.counts[k]
	if c == nil {
		c = &action.RefusalCount{Organization: s.Organization, Session: s.ID, Kind: kind, Source: k.source, Action: g.sample(source, name, k), FirstAt: now, LastAt: now}
		r.counts[k] = c
	}
	c.Count++
	if now.After(c.LastAt) {
		c.LastAt = now
	}
}

// sample returns the name of the action of a count, or the one that the first caller
// gave, without what a row cannot hold.
func (g *Gate) sample(source, name string, k refusalKey) string {
	if k.action == "" && source != "" {
		name = source + ":" + name
	}
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(name, string(unicode.ReplacementChar)))
	return clipped(g.JSON.RedactText(name, nil), maxRefusedName)
}

// take removes the counts whose first refusal was not after a time.
func (r *refusals) take(until time.Time) (list []action.RefusalCount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, c := range r.counts {
		if c.FirstAt.After(until) {
			continue
		}
		list = append(list, *c)
		delete(r.counts, k)
		if k.action != "" {
			k.source, k.action = "", ""
			if r.actions[k]--; r.actions[k] == 0 {
				delete(r.actions, k)
			}
		}
	}
	return list
}

// putBack adds counts that could not be written to those that came since.
func (r *refusals) putBack(list []action.RefusalCount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, old := range list {
		k := refusalKey{organization: old.Organization, session: old.Session, kind: old.Kind, source: old.Source}
		if old.Source != "" {
			k.action = old.Action
		}
		if c := r.counts[k]; c != nil {
			old.Count += c.Count
			old.LastAt = c.LastAt
		} else if k.action != "" {
			r.actions[refusalKey{organization: k.organization, session: k.session, kind: k.kind}]++
		}
		r.counts[k] = &old
	}
}

// flushRefusals writes the counts whose first refusal was not after a time.
func (g *Gate) flushRefusals(ctx context.Context, until time.Time) {
	list := g.refused.take(until)
	if err := g.Ledger.AddRefusals(ctx, list); err != nil {
		g.refused.putBack(list)
		g.logError("could not write the counts of refused calls", err)
	}
}
