package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"sallyport/action"
	"sallyport/store"
)

// place is a filled database, and what the queries of a round hand on.
type place struct {
	db   *store.DB
	rows int

	session action.Session // where new calls come from
	round   int
	held    string   // the call that lives through this round
	waited  []string // 250 pending calls
	grant   string   // of the calls in this round and the others
	deep    string   // cursor half way down the list, at most 100,000 rows
}

const (
	instance  = "instance-1"
	idsAtOnce = 250 // as the Gate asks
	dueAtOnce = 100 // as the sweep takes
)

// prepare finds what the queries ask for.
func (p *place) prepare(ctx context.Context) error {
	for n := p.rows - 1; len(p.waited) < idsAtOnce; n-- {
		if n%10 != 0 { // the others execute
			p.waited = append(p.waited, idOf(n))
		}
	}
	g, err := p.db.CreateGrant(ctx, action.Grant{
		Organization: measured, CreatedBy: "person",
		Terms: action.Terms{Scope: action.ScopeOrganization, Source: "connector:1", Action: "write"},
	})
	if err != nil {
		return err
	}
	p.grant = g.ID
	for depth := 0; depth < min(p.rows*3/10, 100_000); depth += 500 {
		page, err := p.db.ListInvocations(ctx, action.InvocationFilter{Organization: measured, Limit: 500, Cursor: p.deep})
		if err != nil {
			return err
		}
		p.deep = page.Next
	}
	return nil
}

// query is something that is asked often.
type query struct {
	name  string
	every int                                 // round; zero: each
	ready func(context.Context, *place) error // before the clock runs; nil: nothing
	run   func(context.Context, *place) error
}

func (q query) measure(ctx context.Context, p *place) (time.Duration, error) {
	if q.ready != nil {
		if err := q.ready(ctx, p); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	err := q.run(ctx, p)
	return time.Since(start), err
}

// hotQueries are in the order of a held call's life, which each round has one
// of; then come those of the instance that holds it, and of people who look.
func hotQueries() []query {
	return []query{
		{name: "begin, held", ready: newSession, run: beginHeld},
		{name: "load, held", run: func(ctx context.Context, p *place) error { return p.load(ctx, p.held) }},
		{name: "approve", run: approve},
		{name: "claim", run: claim},
		{name: "finish", run: func(ctx context.Context, p *place) error { return p.finish(ctx, p.held) }},
		{name: "begin and finish, read", run: readOnce},
		{name: "grants for a call", run: grantsFor},
		{name: "begin and finish, by a grant", run: runByGrant},
		{name: "load, any of the past", run: func(ctx context.Context, p *place) error { return p.load(ctx, idOf(p.past())) }},
		{name: "settled, 250 ids", run: settled},
		{name: "unclaimed", run: unclaimed},
		{name: "seen, 250 ids", run: func(ctx context.Context, p *place) error { return p.db.MarkSeen(ctx, p.waited, time.Now()) }},
		{name: "sweep, nothing due", run: func(ctx context.Context, p *place) error { return p.sweep(ctx, 0) }},
		{name: "sweep, 100 due", every: 10, ready: makeDue, run: func(ctx context.Context, p *place) error { return p.sweep(ctx, dueAtOnce) }},
		{name: "inbox: pending", run: list(func(*place) action.InvocationFilter {
			return action.InvocationFilter{Statuses: []action.Status{action.StatusPending}}
		})},
		{name: "inbox: completed", run: list(func(*place) action.InvocationFilter {
			return action.InvocationFilter{Statuses: []action.Status{action.StatusCompleted}}
		})},
		{name: "list, newest page", run: list(func(*place) action.InvocationFilter { return action.InvocationFilter{} })},
		{name: "list, deep page", run: list(func(p *place) action.InvocationFilter { return action.InvocationFilter{Cursor: p.deep} })},
		{name: "list, one row and count", run: list(func(*place) action.InvocationFilter { return action.InvocationFilter{Limit: 1} })},
		{name: "list of a session", run: list(func(p *place) action.InvocationFilter { return action.InvocationFilter{Session: sessionOf(p.past())} })},
		{name: "list of a week, one source", run: list(func(*place) action.InvocationFilter {
			return action.InvocationFilter{Source: "connector:3", From: time.Now().AddDate(0, 0, -7)}
		})},
		{name: "list by a person", run: list(func(*place) action.InvocationFilter { return action.InvocationFilter{Person: "person"} })},
		{name: "list of what was held", run: list(func(*place) action.InvocationFilter { return action.InvocationFilter{Mode: action.ModeRequireApproval} })},
		{name: "list of several statuses", run: list(func(*place) action.InvocationFilter {
			return action.InvocationFilter{Statuses: []action.Status{action.StatusFailed, action.StatusDenied, action.StatusExpired}}
		})},
		{name: "list of a group", run: list(func(*place) action.InvocationFilter { return action.InvocationFilter{Group: "group-1"} })},
		{name: "search in vain", run: inVain},
		{name: "sessions, newest page", run: sessions},
	}
}

// past is any invocation of the organization that ended.
func (p *place) past() int {
	for {
		if n := rand.IntN(p.rows - open); ofMeasured(n) {
			return n
		}
	}
}

// newSession changes the session every now and then, so that none has many
// more calls than those of the past.
func newSession(ctx context.Context, p *place) (err error) {
	if p.round%perSession == 0 {
		p.session, err = p.db.CreateSession(ctx, action.Session{Organization: measured, CreatedBy: "person"})
	}
	p.round++
	return err
}

func (p *place) draft(name string) *action.Draft {
	id := uuid.Must(uuid.NewV7()).String()
	return &action.Draft{
		Invocation: action.Invocation{
			ID: id, Organization: measured, Session: p.session.ID, Source: "connector:1", SourceName: "A service", Action: name,
			Risk: action.RiskWrite, ModeSource: action.LayerInferred, Steps: []action.Step{{Layer: action.LayerInferred, Note: "It is a write."}},
			Params: json.RawMessage(`{"text":"the quick brown fox jumps over the lazy dog"}`), ParamsHash: "hash of " + id,
			ToolHash: "tool", Revision: "1", CreatedAt: time.Now(),
		},
		PolicyVersion: 1,
	}
}

func (p *place) hold(ctx context.Context, expires time.Time) (string, error) {
	d := p.draft("write")
	d.Status, d.Mode, d.ExpiresAt, d.Joins, d.IdempotencyKey = action.StatusPending, action.ModeRequireApproval, &expires, true, d.ID
	d.SealedParams, d.DeniedSince = []byte(d.Params), d.CreatedAt.Add(-15*time.Minute)
	_, err := p.db.Begin(ctx, d)
	return d.ID, err
}

func beginHeld(ctx context.Context, p *place) (err error) {
	p.held, err = p.hold(ctx, time.Now().Add(time.Hour))
	return err
}

func (p *place) load(ctx context.Context, id string) error {
	_, err := p.db.Load(ctx, measured, id)
	return err
}

func approve(ctx context.Context, p *place) error {
	_, err := p.db.Approve(ctx, action.Verdict{Organization: measured, ID: p.held, By: "person", Now: time.Now()})
	return err
}

func claim(ctx context.Context, p *place) error {
	now := time.Now()
	_, err := p.db.Claim(ctx, action.Claim{Organization: measured, ID: p.held, Executor: instance, LeaseUntil: now.Add(time.Hour), Now: now})
	return err
}

func (p *place) finish(ctx context.Context, id string) error {
	now := time.Now()
	_, recorded, err := p.db.Finish(ctx, &action.Finish{
		Organization: measured, ID: id, Executor: instance, Status: action.StatusCompleted, Result: json.RawMessage(`{"content":[]}`),
		SealedResult: []byte("result"), PickupUntil: now.Add(time.Hour), Now: now, DurationMS: 3,
	})
	if err == nil && !recorded {
		err = errors.New("the end was not recorded")
	}
	return err
}

func readOnce(ctx context.Context, p *place) error {
	d := p.draft("read")
	d.Status, d.Mode, d.Risk, d.Snapshot = action.StatusExecuting, action.ModeAllow, action.RiskRead, true
	d.Executor, d.LeaseUntil = instance, d.CreatedAt.Add(time.Hour)
	if _, err := p.db.Begin(ctx, d); err != nil {
		return err
	}
	return p.finish(ctx, d.ID)
}

func grantsFor(ctx context.Context, p *place) error {
	found, err := p.db.GrantsFor(ctx, measured, p.session.ID, "connector:1", "write", time.Now())
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d grants cover the call", len(found))
	}
	return err
}

func runByGrant(ctx context.Context, p *place) error {
	d := p.draft("write")
	d.Status, d.Mode, d.ModeSource, d.Grants, d.Joins = action.StatusExecuting, action.ModeAllow, action.LayerGrant, []string{p.grant}, true
	d.Executor, d.LeaseUntil = instance, d.CreatedAt.Add(time.Hour)
	if _, err := p.db.Begin(ctx, d); err != nil {
		return err
	}
	return p.finish(ctx, d.ID)
}

func settled(ctx context.Context, p *place) error {
	found, err := p.db.Settled(ctx, p.waited)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%d pending calls are said to be settled", len(found))
	}
	return err
}

func unclaimed(ctx context.Context, p *place) error {
	_, err := p.db.Unclaimed(ctx, time.Now().Add(-time.Second), dueAtOnce)
	return err
}

// makeDue begins calls whose time is over already.
func makeDue(ctx context.Context, p *place) error {
	var group errgroup.Group
	group.SetLimit(8)
	for range dueAtOnce {
		group.Go(func() error {
			_, err := p.hold(ctx, time.Now().Add(-time.Second))
			return err
		})
	}
	return group.Wait()
}

func (p *place) sweep(ctx context.Context, want int) error {
	now := time.Now()
	done, err := p.db.Sweep(ctx, action.SweepRules{
		Now: now, SeenBefore: now.Add(-24 * time.Hour), ApprovedBefore: now.Add(-time.Hour), LeaseBefore: now, Limit: dueAtOnce,
		PickupInteractive: time.Hour, PickupUnattended: time.Hour,
	})
	if err == nil && len(done.Ended) != want {
		err = fmt.Errorf("%d calls ended, not %d", len(done.Ended), want)
	}
	return err
}

func list(of func(*place) action.InvocationFilter) func(context.Context, *place) error {
	return func(ctx context.Context, p *place) error {
		f := of(p)
		f.Organization = measured
		page, err := p.db.ListInvocations(ctx, f)
		if err == nil && len(page.Items) == 0 {
			err = errors.New("the page is empty")
		}
		return err
	}
}

// inVain looks for what there is none of, as far back as a search goes.
func inVain(ctx context.Context, p *place) error {
	page, err := p.db.ListInvocations(ctx, action.InvocationFilter{Organization: measured, Source: "connector:3", Action: "none"})
	if err == nil && (len(page.Items) > 0 || page.SearchedSince.IsZero()) {
		err = fmt.Errorf("%d calls, looked back to %v", len(page.Items), page.SearchedSince)
	}
	return err
}

func sessions(ctx context.Context, p *place) error {
	_, err := p.db.ListSessions(ctx, action.SessionFilter{Organization: measured})
	return err
}
