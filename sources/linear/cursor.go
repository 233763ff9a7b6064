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
	// overlap is how far each scan reaches back, because changes can become
	// visible late.
	overlap = 2 * time.Minute
	// maxSeen bounds the remembered changes. A change beyond it is emitted
	// again with the same key, and deduplicated downstream.
	maxSeen = 1000
)

// cursor is the polling position. Linear lists the latest change first, so Mark
// advances only when all pages of a scan are read, which may take several
// polls.
type cursor struct {
	Start time.Time    `json:"start"`           // changes up to here predate polling
	Mark  time.Time    `json:"mark"`            // the latest change of completed scans
	Top   time.Time    `json:"top,omitzero"`    // the latest change of the current scan
	After string       `json:"after,omitempty"` // the page cursor of the current scan
	Seen  []seenChange `json:"seen,omitempty"`  // emitted changes within the overlap
}

// seenChange is a change that was emitted.
type seenChange struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
}

// readPage reads the next page of the scan and reports whether it was the last.
func (at *cursor) readPage(ctx context.Context, c *sources.Conn) (found []event.Event, done bool, err error) {
	p, err := listChanges(ctx, c, at.variables())
	if err != nil {
		return nil, false, err
	}
	next := *at
	for _, i := range p.Items {
		e, news, err := next.convert(&i)
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

// variables selects the changes since the mark, including the overlap.
func (at *cursor) variables() inputObject {
	v := inputObject{
		"first":  pollPage,
		"filter": inputObject{"updatedAt": inputObject{"gte": at.since().Format(time.RFC3339Nano)}},
	}
	if at.After != "" {
		v["after"] = at.After
	}
	return v
}

func (at *cursor) since() time.Time { return at.Mark.Add(-overlap).UTC() }

// convert returns the event of an issue; news is false if the change is old or
// was emitted before.
func (at *cursor) convert(i *changedIssue) (e event.Event, news bool, err error) {
	changed, err := parseTime(i.UpdatedAt)
	if err != nil {
		return e, false, err
	}
	at.Top = latest(at.Top, changed)
	now := seenChange{i.ID, changed}
	if !changed.After(at.Start) || slices.ContainsFunc(at.Seen, now.equal) {
		return e, false, nil
	}
	n := at.eventContext(i)
	at.Seen = append(at.Seen, now)
	return n.event(key(i.ID, i.UpdatedAt), "poll:"+n.Action), true, nil
}

func (s seenChange) equal(t seenChange) bool { return s.ID == t.ID && s.At.Equal(t.At) }

// eventContext distinguishes a created issue from an updated one.
func (at *cursor) eventContext(i *changedIssue) eventContext {
	n := eventContext{Action: updated, Issue: i}
	before := slices.ContainsFunc(at.Seen, func(s seenChange) bool { return s.ID == i.ID })
	born, err := parseTime(i.CreatedAt)
	if err == nil && !before && born.After(at.Start) && !born.Before(at.since()) {
		n.Action = created
	}
	return n
}

// pollResult prunes and encodes the cursor.
func (at *cursor) pollResult(out event.PollResult) (_ event.PollResult, err error) {
	since := latest(at.Mark, at.Top).Add(-overlap)
	at.Seen = slices.DeleteFunc(at.Seen, func(s seenChange) bool { return s.At.Before(since) })
	slices.SortFunc(at.Seen, func(a, b seenChange) int {
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
