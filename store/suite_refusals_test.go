package store_test

import (
	"fmt"
	"time"

	"sallyport/action"
)

// refusal is a count of the house's session that ends now.
func (h *house) refusal(kind action.RefusalKind, n int64) action.RefusalCount {
	return action.RefusalCount{
		Organization: h.org.ID, Session: h.s.ID, Kind: kind, Count: n, FirstAt: h.now.Add(-30 * time.Second), LastAt: h.now,
	}
}

// counted writes counts and returns them as they are read.
func (h *house) counted(list ...action.RefusalCount) []action.RefusalCount {
	h.Helper()
	h.ok(h.db.AddRefusals(h.ctx, list))
	return list
}

func (h *house) refusals(f action.RefusalFilter) []action.RefusalCount {
	h.Helper()
	f.Organization = h.org.ID
	return must(h.db.Refusals(h.ctx, f))(h).Items
}

var refusalStories = map[string]func(*house){
	"counts are listed newest first, page by page, and filtered": func(h *house) {
		var all []action.RefusalCount
		for i := range 5 {
			c := h.refusal([]action.RefusalKind{action.RefusedUnknown, action.RefusedQuota}[i%2], int64(i+1))
			c.Action = fmt.Sprint("no such ", i)
			if i == 3 {
				c.Source, c.Action = "linear", "create_issue"
			}
			if i == 4 {
				c.Session, c.Action = newID(), ""
			}
			all = append(h.counted(c), all...)
			h.later(time.Minute)
		}
		other := newHouse(h.T, h.db)
		other.counted(other.refusal(action.RefusedRate, 7))

		h.equal(h.refusals(action.RefusalFilter{}), all, "all")
		h.equal(h.refusals(action.RefusalFilter{Session: h.s.ID}), all[1:], "those of the session")
		h.equal(h.refusals(action.RefusalFilter{Kind: action.RefusedQuota}), []action.RefusalCount{all[1], all[3]}, "those of a kind")
		h.equal(h.refusals(action.RefusalFilter{From: all[3].LastAt, To: all[1].LastAt}), all[2:4], "those of a time")
		page := must(h.db.Refusals(h.ctx, action.RefusalFilter{Organization: h.org.ID, Limit: 2}))(h)
		h.equal([]any{page.Items, page.Total, page.Capped}, []any{all[:2], 5, false}, "the first page")
		page = must(h.db.Refusals(h.ctx, action.RefusalFilter{Organization: h.org.ID, Limit: 3, Cursor: page.Next}))(h)
		h.equal([]any{page.Items, page.Next}, []any{all[2:], ""}, "the last page")
	},
	"counts are exported once, oldest first": func(h *house) {
		var all []action.RefusalCount
		for range 3 {
			var batch []action.RefusalCount
			for range 70 {
				batch = append(batch, h.refusal(action.RefusedParams, 1))
			}
			all = append(all, h.counted(batch...)...)
			h.later(time.Minute)
		}
		var got []action.RefusalCount
		yield := func(c action.RefusalCount) error { got = append(got, c); return nil }
		h.ok(h.db.ExportRefusals(h.ctx, action.RefusalFilter{Organization: h.org.ID}, yield))
		h.equal(got, all, "exported")
		got = nil
		h.ok(h.db.ExportRefusals(h.ctx, action.RefusalFilter{Organization: h.org.ID, From: all[70].LastAt, To: all[140].LastAt}, yield))
		h.equal(got, all[70:140], "exported of a time")
	},
	"counts are sealed with the rest": func(h *house) {
		h.ended(`{"a":1}`)
		h.counted(h.refusal(action.RefusedRate, 40), h.refusal(action.RefusedUnknown, 2))
		r := h.verify(nil)
		h.equal(r.Unsealed, int64(3), "rows that wait")
		h.equal(h.seal(), 3, "sealed")
		h.equal(h.sound(nil), int64(3), "links")
		h.equal(h.seal(), 0, "sealed again")
		h.counted(h.refusal(action.RefusedRate, 40))
		h.equal(h.seal(), 1, "sealed of an organization with counts only")
		h.equal(h.sound(nil), int64(4), "links then")
	},
	"retention removes counts in their order, with or without calls": func(h *house) {
		first := h.counted(h.refusal(action.RefusedRate, 1))[0]
		h.seal()
		h.later(time.Minute)
		id := h.ended(`{"a":1}`)
		h.seal()
		h.later(time.Minute)
		second := h.counted(h.refusal(action.RefusedRate, 2))[0]
		h.seal()
		kept := h.head()
		h.equal(h.retain(first.LastAt), 0, "removed: none is older")
		h.equal(h.retain(first.LastAt.Add(time.Second)), 1, "removed")
		h.equal(h.refusals(action.RefusalFilter{}), []action.RefusalCount{second}, "left")
		h.load(id)
		h.equal(h.sound(kept), int64(2), "links")
		h.equal(h.retain(h.now.Add(time.Second)), 2, "removed at last")
		h.equal(len(h.refusals(action.RefusalFilter{})), 0, "left at last")
		h.gone(id)
		h.sound(kept)
		h.counted(h.refusal(action.RefusedRate, 3))
		h.equal(h.retain(h.now.Add(time.Second)), 0, "removed: it is not sealed")
		h.seal()
		h.equal(h.retain(h.now.Add(time.Second)), 1, "removed when it was sealed")
		h.sound(kept)
	},
}
