package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/store"
)

// lostGrantCases are those of grants. Where one must be there before, it is
// made first, and its commit is spared.
var lostGrantCases = map[string]lostCase{
	"a call by a grant begins": {
		cut: "commit\x00", spare: 1, check: (*lostWorld).usedOnce,
		do: func(l *lostWorld) error { return l.byGrant(true) },
	},
	"a call by a grant begins and joins nothing": {
		cut: "commit\x00", spare: 1, check: (*lostWorld).usedOnce,
		do: func(l *lostWorld) error { return l.byGrant(false) },
	},
	"a grant is used up": {
		cut: "UPDATE grants SET used_calls", check: (*lostWorld).usedOnce,
		do: func(l *lostWorld) error { return l.byGrant(true) },
	},
	"an approval makes a grant": {cut: "commit\x00", check: grantsAndEvents(1, 1), do: (*lostWorld).approveWith},
	"its grant is cut":          {cut: `INSERT INTO "grants"`, check: grantsAndEvents(1, 1), do: (*lostWorld).approveWith},
	"its event is cut":          {cut: `INSERT INTO "policy_events"`, check: grantsAndEvents(1, 1), do: (*lostWorld).approveWith},
	"a grant is made":           {cut: "commit\x00", check: grantsAndEvents(1, 1), do: func(l *lostWorld) error { _, err := l.grant(); return err }},
	"a grant is revoked": {
		cut: "commit\x00", spare: 1, check: grantsAndEvents(1, 2),
		do: func(l *lostWorld) error {
			g, err := l.grant()
			if err == nil {
				g, err = l.RevokeGrant(l.ctx, g.Organization, g.ID, "bob")
			}
			if err == nil && g.RevokedBy != "bob" {
				err = fmt.Errorf("revoked by %q", g.RevokedBy)
			}
			return err
		},
	},
	"a grant is asked for": {
		cut: "commit\x00", check: func(l *lostWorld) error {
			p, err := l.ListGrantRequests(l.ctx, action.RequestFilter{Organization: l.s.Organization})
			if err == nil && p.Total != 1 {
				err = fmt.Errorf("%d requests", p.Total)
			}
			return err
		},
		do: func(l *lostWorld) error { _, err := l.request(); return err },
	},
	"a request is approved": {
		cut: "commit\x00", spare: 1, check: grantsAndEvents(1, 2),
		do: func(l *lostWorld) error {
			r, err := l.request()
			if err != nil {
				return err
			}
			r, g, err := l.ApproveRequest(l.ctx, action.RequestVerdict{Organization: r.Organization, ID: r.ID, By: "bob"})
			if err == nil && (r.Grant == "" || r.Grant != g.ID) {
				err = fmt.Errorf("request %+v, grant %+v", r, g)
			}
			return err
		},
	},
}

// grant makes one for one call.
func (l *lostWorld) grant() (action.Grant, error) {
	one := int64(1)
	return l.CreateGrant(l.ctx, action.Grant{
		Organization: l.s.Organization, Session: l.s.ID, CreatedBy: "bob",
		Terms: action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "x", MaxCalls: &one},
	})
}

func (l *lostWorld) request() (action.GrantRequest, error) {
	r, made, err := l.RequestGrant(l.ctx, action.GrantRequest{
		Organization: l.s.Organization, Session: l.s.ID, ExpiresAt: time.Now().Add(time.Hour),
		Terms: action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "x"},
	})
	if err == nil && !made {
		err = errors.New("the request is said to be another's")
	}
	return r, err
}

// byGrant begins a call that uses up all that its grant has.
func (l *lostWorld) byGrant(joins bool) error {
	g, err := l.grant()
	if err != nil {
		return err
	}
	d := l.executing(joins)
	d.ModeSource, d.Grants = action.LayerGrant, []string{g.ID}
	return l.fresh(d)
}

func (l *lostWorld) usedOnce() error {
	p, err := l.ListGrants(l.ctx, action.GrantFilter{Organization: l.s.Organization})
	if err == nil && (p.Total != 1 || p.Items[0].UsedCalls != 1) {
		err = fmt.Errorf("grants %+v", p.Items)
	}
	return errors.Join(err, l.rows(1, action.StatusExecuting))
}

// approveWith approves the held call, and the grant of it must be the one that
// is there.
func (l *lostWorld) approveWith() error {
	l.v.Grant = &action.Grant{Terms: action.Terms{Scope: action.ScopeSession}}
	if err := l.approve(); err != nil {
		return err
	}
	g, err := l.Grant(l.ctx, l.s.Organization, l.v.Grant.ID)
	if err == nil && g.Invocation != l.d.ID {
		err = fmt.Errorf("the grant is of %q", g.Invocation)
	}
	return errors.Join(err, l.rows(1, action.StatusApproved))
}

func grantsAndEvents(grants, events int) func(*lostWorld) error {
	return func(l *lostWorld) error {
		g, err := l.ListGrants(l.ctx, action.GrantFilter{Organization: l.s.Organization})
		e, fault := l.PolicyEvents(l.ctx, action.PolicyEventFilter{Organization: l.s.Organization})
		if err = errors.Join(err, fault); err == nil && (g.Total != grants || e.Total != events) {
			err = fmt.Errorf("%d grants and %d events, want %d and %d", g.Total, e.Total, grants, events)
		}
		return err
	}
}

// TestRequestExpiresDuringDecision: a person decides about a request, and
// a sweep expires it before that is written.
func TestRequestExpiresDuringDecision(t *testing.T) {
	url := migrated(t)
	p := newProxy(t, url)
	l, other := newLostWorld(t, p.url), open(t, store.Config{URL: url})
	r, err := l.request()
	if err != nil {
		t.Fatal(err)
	}
	arrived, release := p.holdAt(`UPDATE "grant_requests"`)
	done := make(chan error, 1)
	go func() {
		_, _, err := l.ApproveRequest(l.ctx, action.RequestVerdict{Organization: r.Organization, ID: r.ID, By: "bob"})
		done <- err
	}()
	<-arrived
	_, err = other.SweepGrants(t.Context(), r.ExpiresAt, 0)
	release()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, action.ErrGone) {
		t.Errorf("the verdict: %v", err)
	}
	if err := grantsAndEvents(0, 0)(l); err != nil {
		t.Error(err)
	}
}
