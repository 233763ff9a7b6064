package dashboard_test

import (
	"context"
	"slices"

	"sallyport/action"
)

// countedRows is how rows are counted.
type countedRows struct {
	counted  int                       // how often
	counting func(ctx context.Context) // before it is done; nil: nothing
}

// Statistics counts by time and source, and fails every call.
func (m *memory) Statistics(ctx context.Context, organization string, p action.Period) (action.Statistics, error) {
	if m.counting != nil {
		m.counting(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counted++
	s := action.Statistics{From: p.From, To: p.To, Width: int(p.Width.Seconds()), Calls: action.Extent{Since: p.From}, Actions: []action.ActionCount{}}
	for at := p.From; at.Before(p.To); at = at.Add(p.Width) {
		s.Buckets = append(s.Buckets, action.Bucket{At: at})
	}
	s.Held = action.Holds{Extent: s.Calls, Bins: []action.Bin{{UpToMS: 5000}, {UpToMS: 60000}, {}}}
	s.Denied = action.Denials{Extent: s.Calls, Reasons: []action.DenialCount{}}
	for _, inv := range m.invocations {
		if inv.Organization != organization || inv.CreatedAt.Before(p.From) || !inv.CreatedAt.Before(p.To) {
			continue
		}
		s.Calls.Count++
		s.Buckets[inv.CreatedAt.Sub(p.From)/p.Width].Allow++
		i := slices.IndexFunc(s.Sources, func(c action.SourceCount) bool { return c.Source == inv.Source })
		if i < 0 {
			i, s.Sources = len(s.Sources), append(s.Sources, action.SourceCount{Source: inv.Source, SourceName: inv.SourceName})
			s.Actions = append(s.Actions, action.ActionCount{Source: inv.Source, SourceName: inv.SourceName, Action: inv.Action, Risk: inv.Risk, Calls: 1, Failed: 1})
		}
		s.Sources[i].Calls++
		if inv.Status == action.StatusDenied {
			s.Denied.Count++
			s.Denied.Reasons = append(s.Denied.Reasons, action.DenialCount{Reason: inv.DeniedReason, Layer: inv.ModeSource, Calls: 1})
		}
	}
	return s, nil
}
