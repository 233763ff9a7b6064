package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"sallyport/action"
)

// beginMany begins n drafts at once, and returns how many began by which
// grant. The others must have been refused for want of one.
func (h *house) beginMany(n int, draft func(i int) *action.Draft) map[string]int64 {
	h.Helper()
	begun := make([]string, n)
	together(n, func(i int) {
		switch b, err := h.any(i).Begin(h.ctx, draft(i)); {
		case err == nil && b.Created && b.Grant != "":
			begun[i] = b.Grant
		case !errors.Is(err, action.ErrGrantSpent):
			h.Errorf("call %d: new %t, grant %q, %v", i, b.Created, b.Grant, err)
		}
	})
	by := map[string]int64{}
	for _, id := range begun {
		if id != "" {
			by[id]++
		}
	}
	return by
}

// rowsBy counts the executing rows of each grant.
func (h *house) rowsBy() map[string]int64 {
	h.Helper()
	rows := must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID, Statuses: []action.Status{action.StatusExecuting}, Limit: 500}))(h)
	by := map[string]int64{}
	for _, inv := range rows.Items {
		by[inv.Grant]++
	}
	return by
}

var grantRaceStories = map[string]func(*house){
	"64 calls and a budget of seven": func(h *house) {
		t := terms()
		t.Scope, t.MaxCalls = action.ScopeOrganization, budget(7)
		g := h.grant(t)
		sessions := []action.Session{h.s, h.session(action.Interactive), h.session(action.Unattended)}
		begun := h.beginMany(64, func(i int) *action.Draft {
			d := h.by(fmt.Sprintf(`{"a":%d}`, i), g.ID)
			d.Session = sessions[i%3].ID
			if i%4 == 0 {
				d.IdempotencyKey = fmt.Sprint("k", i)
			}
			return d
		})
		want := map[string]int64{g.ID: 7}
		h.equal(begun, want, "calls begun")
		h.equal(h.rowsBy(), want, "rows")
		h.used(g, 7)
	},
	"64 calls that name grants in every order": func(h *house) {
		t := terms()
		t.Scope, t.MaxCalls = action.ScopeOrganization, budget(10)
		one, two, three := h.grant(t), h.grant(t), h.grant(t)
		sessions := []action.Session{h.s, h.session(action.Interactive), h.session(action.Interactive), h.session(action.Interactive)}
		orders := [][]string{{one.ID, two.ID, three.ID}, {three.ID, two.ID, one.ID}, {two.ID, three.ID, one.ID}}
		begun := h.beginMany(64, func(i int) *action.Draft {
			d := h.by(fmt.Sprintf(`{"a":%d}`, i), orders[i%3]...)
			d.Session = sessions[i%4].ID
			return d
		})
		want := map[string]int64{one.ID: 10, two.ID: 10, three.ID: 10}
		h.equal(begun, want, "calls begun")
		h.equal(h.rowsBy(), want, "rows")
	},
	"identical calls use a grant once": func(h *house) {
		g := h.grant(terms())
		var fresh atomic.Int64
		together(32, func(i int) {
			b, err := h.any(i).Begin(h.ctx, h.by(`{"a":1}`, g.ID))
			if err != nil {
				h.Error(err)
			}
			if b.Created {
				fresh.Add(1)
			}
		})
		h.equal(fresh.Load(), int64(1), "new rows")
		h.used(g, 1)
	},
	"a failed insert leaves its grant unused, also in a batch": func(h *house) {
		g := h.grant(terms())
		first := h.began(h.allowed(`{"first":1}`))
		var begun atomic.Int64
		together(32, func(i int) {
			d := h.by(fmt.Sprintf(`{"a":%d}`, i), g.ID)
			if i%2 == 0 {
				d.ID = first.ID // is taken
			}
			if b, err := h.any(i/2).Begin(h.ctx, d); err == nil && b.Created {
				begun.Add(1)
			}
		})
		h.equal(h.rowsBy()[g.ID], begun.Load(), "rows")
		h.used(g, begun.Load())
	},
	"no call begins after a revocation": func(h *house) {
		for round := range 5 {
			g := h.grant(terms())
			var revoked atomic.Bool
			var begun atomic.Int64
			together(16, func(i int) {
				if i == 8 {
					if _, err := h.any(i).RevokeGrant(h.ctx, h.org.ID, g.ID, "carol"); err != nil {
						h.Error(err)
					}
					revoked.Store(true)
					return
				}
				late := revoked.Load()
				_, err := h.any(i/2).Begin(h.ctx, h.by(fmt.Sprintf(`{"round":%d,"a":%d}`, round, i), g.ID))
				switch {
				case err == nil && late:
					h.Errorf("call %d began by a revoked grant", i)
				case err == nil:
					begun.Add(1)
				case !errors.Is(err, action.ErrGrantSpent):
					h.Error(err)
				}
			})
			h.used(g, begun.Load())
			h.equal(h.rowsBy()[g.ID], begun.Load(), "rows")
			h.spent(h.by(fmt.Sprintf(`{"round":%d}`, round), g.ID))
		}
	},
	"an approval that loses the race creates no grant": func(h *house) {
		for i := range 50 {
			d := h.held(fmt.Sprintf(`{"a":%d}`, i))
			d.MaxPending, d.DenialLimit = 0, 0
			h.began(d)
			v := h.approving(d.ID, action.ScopeSession)
			var approved, denied error
			together(2, func(who int) {
				if who == 0 {
					_, approved = h.any(i).Approve(h.ctx, v)
				} else {
					_, denied = h.any(i+1).Deny(h.ctx, h.verdict(d.ID))
				}
			})
			if (approved == nil) == (denied == nil) {
				h.Fatalf("approve: %v; deny: %v", approved, denied)
			}
			made := 0
			for _, g := range must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID, Limit: 500}))(h).Items {
				if g.Invocation == d.ID {
					made++
				}
			}
			if (approved == nil) != (made == 1) || (approved == nil) != (v.Grant.ID != "") {
				h.Fatalf("approve: %v; %d grants, %+v", approved, made, v.Grant)
			}
		}
	},
	"an approval whose grant fails is rolled back, also in a batch": func(h *house) {
		var drafts []*action.Draft
		for i := range 24 {
			d := h.held(fmt.Sprintf(`{"a":%d}`, i))
			d.MaxPending = 0
			h.began(d)
			drafts = append(drafts, d)
		}
		together(len(drafts), func(i int) {
			v := h.approving(drafts[i].ID, action.ScopeSession)
			if i%2 == 0 {
				v.Grant.Pins = map[string]json.RawMessage{"/a": json.RawMessage("{")} // no JSON
			}
			if _, err := h.any(i/2).Approve(h.ctx, v); (err == nil) != (i%2 == 1) {
				h.Errorf("approval %d: %v", i, err)
			}
		})
		for i, d := range drafts {
			h.status(d.ID, []action.Status{action.StatusPending, action.StatusApproved}[i%2])
		}
		h.equal(must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID}))(h).Total, 12, "grants")
	},
	"concurrent creation respects the limit": func(h *house) {
		for range 95 {
			h.grant(terms())
		}
		drafts := make([]*action.Draft, 12)
		for i := range drafts {
			drafts[i] = h.held(fmt.Sprintf(`{"a":%d}`, i))
			drafts[i].MaxPending = 0
			h.began(drafts[i])
		}
		var refused atomic.Int64
		together(len(drafts), func(i int) {
			switch _, err := h.any(i).Approve(h.ctx, h.approving(drafts[i].ID, action.ScopeSession)); {
			case errors.Is(err, action.ErrTooMany):
				refused.Add(1)
			case err != nil:
				h.Error(err)
			}
		})
		all := must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID}))(h).Total
		h.equal([]int{all, int(refused.Load())}, []int{100, 7}, "grants, refused")
	},
	"64 requests: never more than ten wait, and the same is one": func(h *house) {
		var refused atomic.Int64
		together(64, func(i int) {
			t := terms()
			t.Action = fmt.Sprint("action ", i/2) // each twice
			switch _, _, err := h.any(i/2+i).RequestGrant(h.ctx, h.wish(t)); {
			case errors.Is(err, action.ErrTooMany):
				refused.Add(1)
			case err != nil:
				h.Error(err)
			}
		})
		p := must(h.db.ListGrantRequests(h.ctx, action.RequestFilter{Organization: h.org.ID}))(h)
		h.equal([]int{p.Total, int(refused.Load())}, []int{10, 44}, "requests, refused")
	},
	"a request is decided once": func(h *house) {
		for i := range 10 {
			t := terms()
			t.Action = fmt.Sprint("action ", i)
			r := h.request(t)
			var won atomic.Int64
			together(6, func(who int) {
				var err error
				if who%2 == 0 {
					_, _, err = h.any(who/2).ApproveRequest(h.ctx, h.answer(r.ID))
				} else {
					_, err = h.any(who/2).DenyRequest(h.ctx, h.answer(r.ID))
				}
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, action.ErrConflict) {
					h.Error(err)
				}
			})
			stored := must(h.db.GrantRequest(h.ctx, h.org.ID, r.ID))(h)
			grants := must(h.db.ListGrants(h.ctx, action.GrantFilter{Organization: h.org.ID, Action: t.Action}))(h).Total
			if won.Load() != 1 || (stored.Status == action.RequestApproved) != (grants == 1) {
				h.Fatalf("%d won; %s, %d grants", won.Load(), stored.Status, grants)
			}
		}
	},
}
