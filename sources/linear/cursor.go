package linear

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sallyport/ingest/event"
	"sallyport/sources"
)

const (
	// overlap is how much later than its time a change may show up.
	overlap = 2 * time.Minute
	// maxSeen bounds what a cursor remembers. What is told again beyond it has
	// the same key as before.
	maxSeen = 1000
)

// cursor is how far polling came. Linear lists what changed last first, so the
// mark moves only when all pages of a scan were read, in however many looks.
type cursor struct {
	Start time.Time `json:"start"`           // what is not later was there before
	Mark  time.Time `json:"mark"`            // the last change of the scans that are done
	Top   time.Time `json:"top,omitzero"`    // the last change of the scan under way
	After string    `json:"after,omitempty"` // where that goes on
	Seen  []seen    `json:"seen,omitempty"`  // what later scans find again
}

// seen is a change that was told.
type seen struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// page reads the next page of the scan, and reports whether it was the last.
func (at *cursor) page(ctx context.Context, c *sources.Conn) (found []event.Event, done bool, err error) {
	p, err := changes(ctx, c, at.variables())
	if err != nil {
		return nil, false, err
	}
	next := *at
	for _, i := range p.Items {
		e, news, err := next.take(&i)
		if err != nil {
			return nil, false, err
		}
		if news {
			found = append(found, e)
		}
	}
	if next.After = ""; p.NextCursor != nil {
		next.After = *p.NextCursor
	}
	if done = next.After == ""; done {
		next.Mark, next.Top = latest(next.Mark, next.Top), time.Time{}
	}
	*at = next
	return found, done, nil
}

// variables ask for all changes since the mark, and a little before.
func (at *cursor) variables() object {
	v := object{
		"first":  pollPage,
		"filter": object{"updatedAt": object{"gte": at.since().Format(time.RFC3339Nano)}},
	}
	if at.After != "" {
		v["after"] = at.After
	}
	return v
}

func (at *cursor) since() time.Time { return at.Mark.Add(-overlap).UTC() }

// take returns the event of an issue, unless it is old or was told before.
func (at *cursor) take(i *changedIssue) (e event.Event, news bool, err error) {
	changed, err := moment(i.UpdatedAt)
	if err != nil {
		return e, false, err
	}
	at.Top = latest(at.Top, changed)
	now := seen{i.ID, changed}
	if !changed.After(at.Start) || slices.ContainsFunc(at.Seen, now.equal) {
		return e, false, nil
	}
	n := at.news(i)
	at.Seen = append(at.Seen, now)
	return n.event(key(i.ID, i.UpdatedAt), "poll:"+n.Action), true, nil
}

func (s seen) equal(t seen) bool { return s.ID == t.ID && s.At.Equal(t.At) }

// news tells an issue that is new from one that changed.
func (at *cursor) news(i *changedIssue) news {
	n := news{Action: updated, Issue: i}
	before := slices.ContainsFunc(at.Seen, func(s seen) bool { return s.ID == i.ID })
	born, err := moment(i.CreatedAt)
	if err == nil && !before && born.After(at.Start) && !born.Before(at.since()) {
		n.Action = created
	}
	return n
}

// leave returns what a look found, with where the next one begins.
func (at *cursor) leave(out event.PollResult) (_ event.PollResult, err error) {
	since := latest(at.Mark, at.Top).Add(-overlap)
	at.Seen = slices.DeleteFunc(at.Seen, func(s seen) bool { return s.At.Before(since) })
	slices.SortFunc(at.Seen, func(a, b seen) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.ID, b.ID))
	})
	at.Seen = at.Seen[:min(len(at.Seen), maxSeen)]
	out.Cursor, err = json.Marshal(at)
	return out, err
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
