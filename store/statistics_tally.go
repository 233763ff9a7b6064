package store

import (
	"cmp"
	"slices"
	"time"

	"sallyport/action"
)

// How many of each are listed.
const (
	maxActionCounts = 20
	maxSourceCounts = 50
)

// tally counts calls by time, action and source. Calls come newest first.
type tally struct {
	period  action.Period
	buckets []action.Bucket
	actions map[action.Key]*action.ActionCount
	sources map[string]*sourceTally
}

type sourceTally struct {
	action.SourceCount
	took []int64
}

func newTally(p action.Period) *tally {
	t := &tally{period: p, actions: map[action.Key]*action.ActionCount{}, sources: map[string]*sourceTally{}}
	for at := p.From; at.Before(p.To); at = at.Add(p.Width) {
		t.buckets = append(t.buckets, action.Bucket{At: at})
	}
	return t
}

func (t *tally) add(r *invocationRow) {
	t.addBucket(&t.buckets[int(r.CreatedAt.t.Sub(t.period.From)/t.period.Width)], r)
	t.addAction(r)
	t.addSource(r)
}

func (t *tally) addBucket(b *action.Bucket, r *invocationRow) {
	switch action.Mode(r.Mode) {
	case action.ModeAllow:
		b.Allow++
	case action.ModeRequireApproval:
		b.RequireApproval++
	case action.ModeDeny:
		b.Deny++
	}
}

func (t *tally) addAction(r *invocationRow) {
	key := action.Key{Source: r.Source, Action: r.Action}
	a := t.actions[key]
	if a == nil {
		a = &action.ActionCount{Source: r.Source, SourceName: r.SourceName, Action: r.Action, Risk: action.Risk(r.Risk)}
		t.actions[key] = a
	}
	a.Calls++
	switch action.Status(r.Status) {
	case action.StatusFailed:
		a.Failed++
	case action.StatusDenied:
		a.Denied++
	}
}

func (t *tally) addSource(r *invocationRow) {
	s := t.sources[r.Source]
	if s == nil {
		s = &sourceTally{SourceCount: action.SourceCount{Source: r.Source, SourceName: r.SourceName}}
		t.sources[r.Source] = s
	}
	s.Calls++
	if r.DurationMS != nil {
		s.took = append(s.took, *r.DurationMS)
	}
	if r.Status == string(action.StatusFailed) {
		s.Failed++
		if failed := r.CompletedAt.t; s.LastFailedAt == nil || s.LastFailedAt.Before(failed) {
			s.LastFailedAt = &failed
		}
	}
}

// write lists what was counted.
func (t *tally) write(s *action.Statistics) {
	first := 0
	if s.Calls.Capped {
		first = int(s.Calls.Since.Sub(t.period.From) / t.period.Width)
	}
	s.Buckets = t.buckets[first:]
	s.Actions = make([]action.ActionCount, 0, len(t.actions))
	for _, a := range t.actions {
		s.Actions = append(s.Actions, *a)
	}
	slices.SortFunc(s.Actions, func(a, b action.ActionCount) int {
		return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Source, b.Source), cmp.Compare(a.Action, b.Action))
	})
	s.Sources = make([]action.SourceCount, 0, len(t.sources))
	for _, source := range t.sources {
		slices.Sort(source.took)
		source.Ran, source.P50MS, source.P95MS = len(source.took), percentile(source.took, 50), percentile(source.took, 95)
		s.Sources = append(s.Sources, source.SourceCount)
	}
	slices.SortFunc(s.Sources, func(a, b action.SourceCount) int { return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Source, b.Source)) })
	s.Actions, s.OtherActions = top(s.Actions, maxActionCounts)
	s.Sources, s.OtherSources = top(s.Sources, maxSourceCounts)
}

func top[T any](list []T, n int) (first []T, others int) {
	n = min(n, len(list))
	return list[:n], len(list) - n
}

// percentile is the smallest of sorted values that p of a hundred do not
// exceed; nil of none.
func percentile(sorted []int64, p int) *int64 {
	if len(sorted) == 0 {
		return nil
	}
	return &sorted[(len(sorted)*p+99)/100-1]
}

// waitBins are how long people let calls wait: 5 minutes and 24 hours are when
// calls expire.
func waitBins() []time.Duration {
	return []time.Duration{
		5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
		15 * time.Minute, time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
}

// holdTally counts held calls.
type holdTally struct {
	holds  action.Holds
	waited []int64 // milliseconds, of those that a person decided
}

func (t *holdTally) add(r *invocationRow) {
	h := &t.holds
	switch {
	case !r.ApprovedAt.t.IsZero():
		h.Approved++
		t.wait(r, r.ApprovedAt)
	case r.DeniedReason == action.DeniedHuman:
		h.Denied++
		t.wait(r, r.CompletedAt)
	case r.DeniedReason == action.DeniedWithdrawn:
		h.Withdrawn++
	case r.DeniedReason != "":
		h.Refused++
	case r.Status == string(action.StatusExpired):
		h.Expired++
	default:
		h.Waiting++
	}
}

func (t *holdTally) wait(r *invocationRow, until stamp) {
	t.waited = append(t.waited, max(0, until.t.Sub(r.CreatedAt.t).Milliseconds()))
}

// write completes what is said of held calls.
func (t *holdTally) write(h *action.Holds) {
	t.holds.Extent = h.Extent
	*h = t.holds
	slices.Sort(t.waited)
	h.P50MS, h.P90MS = percentile(t.waited, 50), percentile(t.waited, 90)
	rest := t.waited
	for _, upTo := range waitBins() {
		n, _ := slices.BinarySearch(rest, upTo.Milliseconds()+1)
		h.Bins = append(h.Bins, action.Bin{UpToMS: upTo.Milliseconds(), Calls: n})
		rest = rest[n:]
	}
	h.Bins = append(h.Bins, action.Bin{Calls: len(rest)})
}

// denialTally counts denied calls by reason, and those that policy denied by
// the part of it.
type denialTally map[action.DenialCount]int

func (t denialTally) add(r *invocationRow) {
	reason := action.DenialCount{Reason: string(r.DeniedReason)}
	if reason.Reason == action.DeniedPolicy {
		reason.Layer = action.Layer(r.ModeSource)
	}
	t[reason]++
}

func (t denialTally) list() []action.DenialCount {
	list := make([]action.DenialCount, 0, len(t))
	for reason, n := range t {
		reason.Calls = n
		list = append(list, reason)
	}
	slices.SortFunc(list, func(a, b action.DenialCount) int {
		return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Layer, b.Layer))
	})
	return list
}
