package store_test

import (
	"fmt"
	"slices"
	"time"

	"sallyport/action"
)

// shelf writes n rows, some of each status, two at each moment, and returns
// their ids, newest first.
func (h *house) shelf(n int) (ids []string, status map[string]action.Status) {
	status = map[string]action.Status{}
	for i := range n {
		if i%2 == 0 {
			h.later(time.Second)
		}
		d := h.held(fmt.Sprintf(`{"i":%d}`, i))
		d.MaxPending = 0
		if i%3 == 0 {
			d = h.allowed(fmt.Sprintf(`{"i":%d}`, i))
			d.Action = "close_issue"
		}
		h.began(d)
		switch i % 3 {
		case 0:
			h.finish(h.done(d.ID))
			status[d.ID] = action.StatusCompleted
		case 1:
			h.deny(d.ID, "")
			status[d.ID] = action.StatusDenied
		default:
			status[d.ID] = action.StatusPending
		}
		ids = append(ids, d.ID)
	}
	slices.Reverse(ids)
	return ids, status
}

// pages reads a list to its end.
func (h *house) pages(f action.InvocationFilter) (ids []string) {
	h.Helper()
	for range 1000 {
		p := must(h.db.ListInvocations(h.ctx, f))(h)
		for _, inv := range p.Items {
			ids = append(ids, inv.ID)
		}
		if f.Cursor = p.Next; f.Cursor == "" {
			return ids
		}
	}
	h.Fatal("the list has no end")
	return nil
}

var listStories = map[string]func(*house){
	"pages follow each other without gap or double, whatever the filter": func(h *house) {
		other := newHouse(h.T, h.db)
		other.shelf(3)
		mine, status := h.shelf(30)
		first := h.s.ID
		h.s = h.session(action.Interactive)
		more, status2 := h.shelf(6)
		for id, s := range status2 {
			status[id] = s
		}
		all := append(slices.Clone(more), mine...)
		of := func(ids []string, want ...action.Status) (some []string) {
			for _, id := range ids {
				if slices.Contains(want, status[id]) {
					some = append(some, id)
				}
			}
			return some
		}
		for _, row := range []struct {
			f    action.InvocationFilter
			want []string
		}{
			{action.InvocationFilter{}, all},
			{action.InvocationFilter{Session: first}, mine},
			{action.InvocationFilter{Statuses: []action.Status{action.StatusPending}}, of(all, action.StatusPending)},
			{action.InvocationFilter{Statuses: []action.Status{action.StatusPending, action.StatusDenied, action.StatusExpired}}, of(all, action.StatusPending, action.StatusDenied)},
			{action.InvocationFilter{Session: first, Statuses: []action.Status{action.StatusPending, action.StatusDenied}}, of(mine, action.StatusPending, action.StatusDenied)},
			{action.InvocationFilter{Action: "close_issue"}, of(all, action.StatusCompleted)},
			{action.InvocationFilter{Source: "linear", Action: "close_issue", Statuses: []action.Status{action.StatusCompleted}}, of(all, action.StatusCompleted)},
			{action.InvocationFilter{Source: "jira"}, nil},
		} {
			for _, limit := range []int{1, 7, 500} {
				row.f.Organization, row.f.Limit = h.org.ID, limit
				h.equal(h.pages(row.f), row.want, fmt.Sprintf("%+v", row.f))
			}
			p := must(h.db.ListInvocations(h.ctx, row.f))(h)
			if p.Total != len(row.want) || p.Capped {
				h.Errorf("%+v: total %d (capped %t), want %d", row.f, p.Total, p.Capped, len(row.want))
			}
		}
	},
	"a new row shifts no page": func(h *house) {
		ids, _ := h.shelf(6)
		p := must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID, Limit: 3}))(h)
		h.s = h.session(action.Interactive)
		h.shelf(4)
		p = must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID, Limit: 3, Cursor: p.Next}))(h)
		h.equal([]string{p.Items[0].ID, p.Items[1].ID, p.Items[2].ID}, ids[3:], "the second page")
	},
	"totals stop at a thousand": func(h *house) {
		together(8, func(n int) {
			for i := range 130 {
				d := h.read(fmt.Sprintf(`{"n":%d,"i":%d}`, n, i))
				if _, err := h.db.Begin(h.ctx, d); err != nil {
					h.Error(err)
				}
			}
		})
		h.ok(h.db.Flush(h.ctx))
		p := must(h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID}))(h)
		h.equal([]any{len(p.Items), p.Total, p.Capped}, []any{50, 1000, true}, "items, total, capped")
	},
	"an invalid cursor or status is refused": func(h *house) {
		for _, c := range []string{"x", "!", "AAAA", "MjAyNi0xMS0yMVQwMDowMDowMC4wMDAwMDBa", "MjAyNi0xMy0yMVQwMDowMDowMC4wMDAwMDBaaWQ"} {
			_, err := h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID, Cursor: c})
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/cursor", "field")
			_, err = h.db.ListSessions(h.ctx, action.SessionFilter{Organization: h.org.ID, Cursor: c})
			h.refused(err, action.ErrInvalid, "invalid")
		}
		_, err := h.db.ListInvocations(h.ctx, action.InvocationFilter{Organization: h.org.ID, Statuses: []action.Status{"done"}})
		h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/status", "field")
	},
}
