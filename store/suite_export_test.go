package store_test

import (
	"errors"
	"slices"
	"time"

	"sallyport/action"
)

// exported are the ids that an export gives.
func (h *house) exported(f action.InvocationFilter) (ids []string) {
	h.Helper()
	f.Organization = h.org.ID
	h.ok(h.db.Export(h.ctx, f, func(inv action.Invocation) error {
		ids = append(ids, inv.ID)
		return nil
	}))
	return ids
}

var exportStories = map[string]func(*house){
	"everything is exported once, oldest first, whatever the filter": func(h *house) {
		start := h.now
		newest, status := h.shelf(205)
		newHouse(h.T, h.db).ended(`{}`)
		all := slices.Clone(newest)
		slices.Reverse(all)
		h.equal(h.exported(action.InvocationFilter{}), all, "all")
		h.equal(h.exported(action.InvocationFilter{Session: h.s.ID}), all, "those of the session")
		h.equal(h.exported(action.InvocationFilter{Session: newID()}), []string(nil), "those of no session")
		pick := func(in func(i int, id string) bool) (ids []string) {
			for i, id := range all {
				if in(i, id) {
					ids = append(ids, id)
				}
			}
			return ids
		}
		ended := []action.Status{action.StatusCompleted, action.StatusDenied}
		h.equal(h.exported(action.InvocationFilter{Statuses: ended}), pick(func(_ int, id string) bool { return status[id] != action.StatusPending }), "what ended")
		h.equal(h.exported(action.InvocationFilter{Source: "linear", Action: "close_issue"}), pick(func(i int, _ string) bool { return i%3 == 0 }), "one action")
		h.equal(h.exported(action.InvocationFilter{Source: "sentry"}), []string(nil), "another source")
		h.equal(h.exported(action.InvocationFilter{From: start.Add(2 * time.Second), To: start.Add(4 * time.Second)}), all[2:6], "a time")
	},
	"an export carries whole rows, and stops when it is told to": func(h *house) {
		id := h.ended(`{"a":1}`)
		h.ended(`{"a":2}`)
		cancel := errors.New("the reader left")
		n := 0
		err := h.db.Export(h.ctx, action.InvocationFilter{Organization: h.org.ID}, func(inv action.Invocation) error {
			h.equal(inv, h.load(id).Invocation, "the row")
			n++
			return cancel
		})
		if n != 1 || !errors.Is(err, cancel) {
			h.Errorf("%d rows, %v", n, err)
		}
		err = h.db.Export(h.ctx, action.InvocationFilter{Organization: h.org.ID, Statuses: []action.Status{"done"}}, nil)
		h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/status", "field")
	},
}
