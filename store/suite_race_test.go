package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// together runs f on n goroutines that start at once.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

var raceStories = map[string]func(*house){
	"200 identical calls make one row": func(h *house) {
		var fresh atomic.Int64
		var ids sync.Map
		together(200, func(i int) {
			b, err := h.any(i).Begin(h.ctx, h.held(`{"a":1}`))
			if err != nil {
				h.Error(err)
				return
			}
			ids.Store(b.ID, true)
			if b.Created {
				fresh.Add(1)
			}
		})
		rows := must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID}))(h)
		n := 0
		ids.Range(func(any, any) bool { n++; return true })
		h.equal([]int{int(fresh.Load()), rows.Total, n}, []int{1, 1, 1}, "new rows, rows, ids")
	},
	"64 identical calls with keys make one row": func(h *house) {
		var fresh atomic.Int64
		together(64, func(i int) {
			d := h.allowed(`{"a":1}`)
			d.IdempotencyKey = fmt.Sprint("k", i%4)
			b, err := h.any(i/4).Begin(h.ctx, d)
			if err != nil {
				h.Error(err)
			}
			if b.Created {
				fresh.Add(1)
			}
		})
		h.equal(int(fresh.Load()), 1, "new rows")
	},
	"64 different calls: never more than ten wait": func(h *house) {
		var fresh, refused atomic.Int64
		together(64, func(i int) {
			_, err := h.any(i).Begin(h.ctx, h.held(fmt.Sprintf(`{"a":%d}`, i)))
			switch {
			case err == nil:
				fresh.Add(1)
			case errors.Is(err, action.ErrTooMany):
				refused.Add(1)
			default:
				h.Error(err)
			}
		})
		rows := must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID, Statuses: []action.Status{action.StatusPending}}))(h)
		h.equal([]int{int(fresh.Load()), int(refused.Load()), rows.Total}, []int{10, 54, 10}, "begun, refused, pending")
	},
	"64 people decide, one wins": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		var approved, denied, late atomic.Int64
		together(64, func(i int) {
			decide, won := h.any(i/2).Approve, &approved
			if i%2 == 0 {
				decide, won = h.any(i/2).Deny, &denied
			}
			switch _, err := decide(h.ctx, h.verdict(d.ID)); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, action.ErrConflict):
				late.Add(1)
			default:
				h.Error(err)
			}
		})
		h.equal([]int64{approved.Load() + denied.Load(), late.Load()}, []int64{1, 63}, "winners, losers")
		want := action.StatusDenied
		if approved.Load() == 1 {
			want = action.StatusApproved
		}
		h.status(d.ID, want)
	},
	"64 instances claim, one wins": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		h.approve(d.ID)
		var winner sync.Map
		together(64, func(i int) {
			c := h.claimOf(d.ID)
			c.Executor = fmt.Sprint("instance-", i)
			switch rec, err := h.any(i).Claim(h.ctx, c); {
			case err == nil:
				winner.Store(rec.Executor, true)
			case !errors.Is(err, action.ErrConflict):
				h.Error(err)
			}
		})
		var winners []string
		winner.Range(func(k, _ any) bool { winners = append(winners, k.(string)); return true })
		h.equal(winners, []string{h.load(d.ID).Executor}, "winners")
	},
	"approval and expiry cannot both win": func(h *house) {
		for i := range 20 {
			d := h.held(fmt.Sprintf(`{"a":%d}`, i))
			d.MaxPending = 0
			h.began(d)
			var approveErr error
			swept := make([]action.Swept, 4)
			together(5, func(i int) {
				if i == 4 {
					_, approveErr = h.any(i).Approve(h.ctx, h.verdict(d.ID))
					return
				}
				r := h.rules()
				r.Now = h.now.Add(6 * time.Minute)
				swept[i], _ = h.any(i).Sweep(h.ctx, r)
			})
			expired := 0
			for _, done := range swept {
				for _, inv := range done.Ended {
					if inv.ID == d.ID {
						expired++
					}
				}
			}
			if (approveErr == nil) == (expired == 1) {
				h.Fatalf("approve: %v; expired %d times", approveErr, expired)
			}
		}
	},
	"reads and writes of many callers each keep their own": func(h *house) {
		together(64, func(i int) {
			d := h.allowed(fmt.Sprintf(`{"w":%d}`, i))
			if i%2 == 0 {
				d = h.read(`{"r":1}`)
			}
			if i%8 == 7 {
				d.Session = newID() // refused, in the middle of a batch
			}
			_, err := h.any(i/2).Begin(h.ctx, d)
			if i%8 == 7 {
				if !errors.Is(err, action.ErrUnauthenticated) {
					h.Errorf("call %d: %v", i, err)
				}
				return
			}
			if err != nil {
				h.Error(err)
				return
			}
			inv, recorded, err := h.any(i/2).Finish(h.ctx, h.done(d.ID))
			if err != nil || !recorded || inv.ID != d.ID || string(inv.Params) != string(d.Params) {
				h.Errorf("call %d: %+v, %t, %v", i, inv, recorded, err)
			}
		})
		rows := must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID, Statuses: []action.Status{action.StatusCompleted}}))(h)
		h.equal(rows.Total, 56, "completed rows")
	},
	"concurrent updates of callers do not deadlock": func(h *house) {
		var ids []string
		for i := range 60 {
			d := h.held(fmt.Sprintf(`{"a":%d}`, i))
			d.MaxPending = 0
			h.began(d)
			ids = append(ids, d.ID)
		}
		together(24, func(i int) {
			switch mine := slices.Clone(ids); {
			case i == 0:
				if _, err := h.db.RevokeSession(h.ctx, h.org.ID, h.s.ID); err != nil {
					h.Error(err)
				}
			case i%3 == 0:
				_, err := h.any(i).Approve(h.ctx, h.verdict(ids[i]))
				if err != nil && !errors.Is(err, action.ErrConflict) {
					h.Error(err)
				}
			default:
				if i%3 == 1 {
					slices.Reverse(mine)
				}
				if err := h.any(i).MarkSeen(h.ctx, mine, h.now.Add(time.Duration(i)*time.Second)); err != nil {
					h.Error(err)
				}
			}
		})
	},
	"a queued row is visible to other instances after a flush": func(h *house) {
		d := h.read(`{"a":1}`)
		h.began(d)
		h.finish(h.done(d.ID))
		for i := range h.dbs {
			rec := must(h.any(i).Load(h.ctx, h.org.ID, d.ID))(h)
			h.equal(rec.Status, action.StatusCompleted, "status")
		}
	},
	"owners cannot all leave at once": func(h *house) {
		var owners []action.User
		for i := range 8 {
			owners = append(owners, h.user(fmt.Sprint("Owner ", i), action.RoleOwner))
		}
		together(len(owners), func(i int) {
			err := h.any(i).DeleteUser(h.ctx, h.org.ID, owners[i].ID, "me")
			if err != nil && !errors.Is(err, action.ErrConflict) {
				h.Error(err)
			}
		})
		h.equal(len(must(h.db.ListUsers(h.ctx, h.org.ID))(h)), 1, "owners that stayed")
	},
	"a name is taken once": func(h *house) {
		var made atomic.Int64
		together(16, func(i int) {
			c := action.Connector{ID: newID(), Organization: h.org.ID, Name: "Git", Slug: fmt.Sprint("git", i), URL: "https://mcp.example.com/mcp"}
			switch err := h.any(i).CreateConnector(h.ctx, c, nil, "alice"); {
			case err == nil:
				made.Add(1)
			case !errors.Is(err, action.ErrConflict):
				h.Error(err)
			}
		})
		h.equal(made.Load(), int64(1), "connectors")
	},
}
