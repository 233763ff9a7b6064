package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/store/calls"
	"sallyport/store/database"
)

// madeCall is a row as the test made it.
type madeCall struct {
	organization, id, status, mode, layer, risk, source, name, action, reason string
	at                                                                        time.Time
	approved, completed                                                       *time.Time
	took                                                                      *int64
}

// makeCalls makes calls of two organizations around a period, some of them
// right at its edges and several at the same time.
func makeCalls(p action.Period, n int) []madeCall {
	random := rand.New(rand.NewPCG(1, 2))
	edges := []time.Time{p.From, p.From.Add(-time.Microsecond), p.To, p.To.Add(-time.Microsecond), p.From.Add(p.Width), p.From.Add(p.Width - time.Microsecond)}
	made := make([]madeCall, n)
	for i := range made {
		c := &made[i]
		*c = madeCall{
			organization: []string{"o", "o", "o", "other"}[random.IntN(4)], id: fmt.Sprintf("i%05d", random.IntN(90000)*n+i), mode: "allow", layer: "organization",
			risk: "write", source: fmt.Sprintf("connector:%d", random.IntN(60)), name: fmt.Sprintf("Name %d", i), action: fmt.Sprintf("action_%d", random.IntN(3)), status: "completed",
			at: p.From.Add(time.Duration(random.Int64N(int64(p.To.Sub(p.From)*5/4/time.Second))) * time.Second),
		}
		if i%20 == 0 {
			c.at = edges[i/20%len(edges)]
		}
		c.settle(random)
	}
	return made
}

// settle chooses what became of a call.
func (c *madeCall) settle(random *rand.Rand) {
	later := func(most time.Duration) *time.Time {
		t := c.at.Add(time.Duration(random.Int64N(int64(most))).Truncate(time.Microsecond))
		return &t
	}
	took := random.Int64N(3000)
	switch kind := random.IntN(10); kind {
	case 0, 1, 2, 3:
		c.completed, c.took, c.risk = later(time.Minute), &took, "read"
	case 4:
		c.status, c.completed, c.took = "failed", later(time.Minute), &took
	case 5:
		c.status, c.mode, c.layer, c.reason, c.completed = "denied", "deny", []string{"ceiling", "inferred"}[random.IntN(2)], action.DeniedPolicy, later(1)
	default:
		c.mode, c.layer = "require_approval", "inferred"
		switch kind {
		case 6:
			c.status = "pending"
		case 7:
			c.approved, c.completed, c.took = later(30*time.Minute), later(time.Hour), &took
		case 8:
			c.status, c.reason, c.completed = "denied", []string{action.DeniedHuman, action.DeniedWithdrawn, action.DeniedRepeated}[random.IntN(3)], later(30*time.Hour)
		case 9:
			c.status, c.completed = "expired", later(time.Hour)
		}
	}
}

// insert writes the calls as Begin and its kind never would: in one statement.
func insert(t *testing.T, db *DB, made []madeCall) {
	t.Helper()
	text := func(v any) string {
		return strings.TrimPrefix(db.db.Read.NewSelect().ColumnExpr("?", v).String(), "SELECT ")
	}
	open, ended := []string{}, []string{}
	for _, c := range made {
		started := database.Timestamp{}
		if c.took != nil {
			started = database.NewTimestamp(c.at)
		}
		by := database.NullString("")
		if c.approved != nil {
			by = "person"
		}
		code := database.NullString("")
		if c.status == "failed" {
			code = "tool_error"
		}
		row := []any{
			c.id, c.organization, "s of " + c.organization, c.status, 0, 0, database.NewTimestamp(c.at), database.NewTimestamp(c.at), database.NewTimestamp(c.at.Add(time.Hour)), database.TimestampFromPtr(c.approved), started, 1,
			c.source, c.action, "", "", "", c.risk, c.mode, c.layer, by, c.name, "[]", "{}",
		}
		list := &open
		if c.completed != nil {
			row, list = append(row, database.TimestampFromPtr(c.completed), c.took, database.NullString(c.reason), code), &ended
		}
		var values []string
		for _, v := range row {
			values = append(values, text(v))
		}
		*list = append(*list, "("+strings.Join(values, ", ")+")")
	}
	const columns = `id, organization_id, session_id, status, joins, unattended, created_at, waiter_seen_at, expires_at, approved_at, started_at,
		 policy_version, source_id, action, params_hash, tool_hash, revision, risk, mode, mode_source, approved_by, source_name, decision, params`
	for _, statement := range []string{
		`INSERT INTO organizations (id, name, created_at) VALUES ('o', 'O', '` + when + `'), ('other', 'O', '` + when + `')`,
		`INSERT INTO sessions (id, organization_id, kind, type, created_by, created_at)
		 VALUES ('s of o', 'o', 'interactive', 'coding', 'me', '` + when + `'), ('s of other', 'other', 'interactive', 'coding', 'me', '` + when + `')`,
		`INSERT INTO open_calls (` + columns + `) VALUES ` + strings.Join(open, ",\n"),
		`INSERT INTO invocations (` + columns + `, completed_at, duration_ms, denied_reason, error_code) VALUES ` + strings.Join(ended, ",\n"),
	} {
		if _, err := db.db.Write.DB.DB.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
}

// naive counts in the simplest way: everything again for each figure.
func naive(made []madeCall, p action.Period, most calls.CountLimits) action.Statistics {
	of := func(limit int, match func(madeCall) bool) (list []madeCall, e action.Extent) {
		for _, c := range made {
			if c.organization == "o" && !c.at.Before(p.From) && c.at.Before(p.To) && match(c) {
				list = append(list, c)
			}
		}
		slices.SortFunc(list, func(a, b madeCall) int {
			if d := b.at.Compare(a.at); d != 0 {
				return d
			}
			return strings.Compare(b.id, a.id)
		})
		e = action.Extent{Count: len(list), Since: p.From}
		if len(list) > limit {
			e = action.Extent{Count: limit, Since: list[limit-1].at, Capped: true}
			list = list[:limit]
		}
		return list, e
	}
	s := action.Statistics{From: p.From, To: p.To, Width: int(p.Width / time.Second), Actions: []action.ActionCount{}, Sources: []action.SourceCount{}}
	all, extent := of(most.All, func(madeCall) bool { return true })
	s.Calls = extent
	for at := p.From; at.Before(p.To); at = at.Add(p.Width) {
		b := action.Bucket{At: at}
		for _, c := range all {
			if c.at.Before(at) || !c.at.Before(at.Add(p.Width)) {
				continue
			}
			switch c.mode {
			case "allow":
				b.Allow++
			case "deny":
				b.Deny++
			default:
				b.RequireApproval++
			}
		}
		if !s.Calls.Capped || at.Add(p.Width).After(s.Calls.Since) {
			s.Buckets = append(s.Buckets, b)
		}
	}
	s.Actions, s.OtherActions = calls.Top(naiveActions(all), 20)
	s.Sources, s.OtherSources = calls.Top(naiveSources(all), 50)
	s.Held = naiveHolds(of(most.HeldOrDenied, func(c madeCall) bool { return c.mode == "require_approval" }))
	denied, extent := of(most.HeldOrDenied, func(c madeCall) bool { return c.status == "denied" })
	s.Denied = action.Denials{Extent: extent, Reasons: naiveDenials(denied)}
	for _, c := range made {
		if c.organization == "o" && c.status == "pending" {
			s.Queues.Pending.Count++
		}
	}
	return s
}

func naiveActions(all []madeCall) (list []action.ActionCount) {
	for _, c := range all {
		i := slices.IndexFunc(list, func(a action.ActionCount) bool { return a.Source == c.source && a.Action == c.action })
		if i < 0 {
			i, list = len(list), append(list, action.ActionCount{Source: c.source, SourceName: c.name, Action: c.action, Risk: action.Risk(c.risk)})
		}
		list[i].Calls++
		if c.status == "failed" {
			list[i].Failed++
		}
		if c.status == "denied" {
			list[i].Denied++
		}
	}
	slices.SortFunc(list, func(a, b action.ActionCount) int {
		if a.Calls != b.Calls {
			return b.Calls - a.Calls
		}
		return strings.Compare(a.Source+" "+a.Action, b.Source+" "+b.Action)
	})
	return list
}

func naiveSources(all []madeCall) (list []action.SourceCount) {
	took := map[string][]int64{}
	for _, c := range all {
		i := slices.IndexFunc(list, func(s action.SourceCount) bool { return s.Source == c.source })
		if i < 0 {
			i, list = len(list), append(list, action.SourceCount{Source: c.source, SourceName: c.name})
		}
		s := &list[i]
		s.Calls++
		if c.took != nil {
			s.Ran++
			took[c.source] = append(took[c.source], *c.took)
		}
		if c.status == "failed" {
			s.Failed++
			if s.LastFailedAt == nil || c.completed.After(*s.LastFailedAt) {
				s.LastFailedAt = c.completed
			}
		}
	}
	for i := range list {
		list[i].P50MS, list[i].P95MS = naivePercentile(took[list[i].Source], .5), naivePercentile(took[list[i].Source], .95)
	}
	slices.SortFunc(list, func(a, b action.SourceCount) int {
		if a.Calls != b.Calls {
			return b.Calls - a.Calls
		}
		return strings.Compare(a.Source, b.Source)
	})
	return list
}

// naivePercentile tries each value whether enough others are not larger.
func naivePercentile(values []int64, share float64) (found *int64) {
	for _, v := range values {
		n := 0
		for _, other := range values {
			if other <= v {
				n++
			}
		}
		if float64(n) >= share*float64(len(values)) && (found == nil || v < *found) {
			found = &v
		}
	}
	return found
}

func naiveHolds(held []madeCall, e action.Extent) action.Holds {
	h := action.Holds{Extent: e}
	var waited []int64
	for _, c := range held {
		switch {
		case c.approved != nil:
			h.Approved++
			waited = append(waited, c.approved.Sub(c.at).Milliseconds())
		case c.reason == "human":
			h.Denied++
			waited = append(waited, c.completed.Sub(c.at).Milliseconds())
		case c.reason == "withdrawn":
			h.Withdrawn++
		case c.reason == "repeated":
			h.Refused++
		case c.status == "expired":
			h.Expired++
		case c.status == "pending":
			h.Waiting++
		}
	}
	h.P50MS, h.P90MS = naivePercentile(waited, .5), naivePercentile(waited, .9)
	longer := int64(-1)
	for _, upTo := range append(calls.WaitBins(), 0) {
		b := action.Bin{UpToMS: upTo.Milliseconds()}
		for _, w := range waited {
			if w > longer && (upTo == 0 || w <= b.UpToMS) {
				b.Calls++
			}
		}
		longer = b.UpToMS
		h.Bins = append(h.Bins, b)
	}
	return h
}

func naiveDenials(denied []madeCall) (list []action.DenialCount) {
	for _, reason := range []action.DenialCount{
		{Reason: "human"}, {Reason: "policy", Layer: "ceiling"}, {Reason: "policy", Layer: "inferred"}, {Reason: "repeated"}, {Reason: "withdrawn"},
	} {
		for _, c := range denied {
			if c.reason == reason.Reason && (reason.Layer == "" || c.layer == string(reason.Layer)) {
				reason.Calls++
			}
		}
		if reason.Calls > 0 {
			list = append(list, reason)
		}
	}
	slices.SortStableFunc(list, func(a, b action.DenialCount) int { return b.Calls - a.Calls })
	return list
}

// Statistics are what a naive count of the same rows says: also when there are
// more than are looked at, and wherever a part of them ends.
func TestStatistics(t *testing.T) {
	// The time zone of who asks is nothing to the rows.
	from := time.Date(2026, 10, 24, 23, 30, 0, 0, time.UTC).In(time.FixedZone("x", -3*3600-1800))
	p := action.Period{From: from, To: from.Add(24 * time.Hour), Width: 30 * time.Minute}
	made := makeCalls(p, 1500)
	for name, open := range map[string]func(t *testing.T) *DB{
		"SQLite":   func(t *testing.T) *DB { return openAt(t, newPath(t)) },
		"Postgres": func(t *testing.T) *DB { return openPostgres(t, Config{}) },
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			insert(t, db, made)
			total := naive(made, p, calls.CountLimits{All: 10_000, HeldOrDenied: 10_000}).Calls.Count
			for _, most := range []calls.CountLimits{
				{All: 10_000, HeldOrDenied: 10_000, BatchSize: 1000}, {All: 300, HeldOrDenied: 50, BatchSize: 7}, {All: total, HeldOrDenied: 1, BatchSize: 1000}, {All: total - 1, HeldOrDenied: 2, BatchSize: 100},
			} {
				got, err := db.CallStatistics(t.Context(), "o", p, most)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(naive(made, p, most), got); diff != "" {
					t.Errorf("%+v (-naive +got):\n%s", most, diff)
				}
			}
			got, err := db.Statistics(t.Context(), "nobody", p)
			if err != nil || got.Calls.Count != 0 || len(got.Buckets) != 48 || got.Calls.Capped {
				t.Errorf("of an organization without calls: %v, %+v", err, got)
			}
		})
	}
}
