package linear

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/sources"
)

const (
	// minInterval is the minimum interval between polls. Linear prefers
	// webhooks to polling.
	minInterval = time.Minute

	pollPage  = 50
	pollPages = 20 // per poll
)

// poll returns the issues that changed. Comments and deletions are not visible
// to polling.
func poll(ctx context.Context, c *sources.Conn, raw json.RawMessage) (event.PollResult, error) {
	var at cursor
	if json.Unmarshal(raw, &at) != nil || at.Mark.IsZero() {
		return baseline(ctx, c)
	}
	out := event.PollResult{Wait: minInterval, More: true}
	for n := range pollPages {
		found, done, err := at.readPage(ctx, c)
		if n == 0 && at.After != "" && isRefusal(err) { // the page cursor expired
			at.After = ""
			found, done, err = at.readPage(ctx, c)
		}
		if err != nil && (n == 0 || isRefusal(err)) {
			return event.PollResult{}, err
		}
		out.Events = append(out.Events, found...)
		if err != nil { // keep the pages already read
			out.Wait = max(minInterval, action.Public(err).RetryAfter)
		}
		if out.More = err == nil && !done; !out.More {
			break
		}
	}
	slices.SortStableFunc(out.Events, func(a, b event.Event) int { return a.OccurredAt.Compare(b.OccurredAt) })
	return at.pollResult(out)
}

// baseline starts polling from the latest change. Using its timestamp avoids
// depending on the local clock.
func baseline(ctx context.Context, c *sources.Conn) (event.PollResult, error) {
	p, err := listChanges(ctx, c, inputObject{"first": 1})
	if err != nil {
		return event.PollResult{}, err
	}
	start := time.Unix(0, 0).UTC() // no issues: every issue is new
	for _, i := range p.Items {
		if start, err = parseTime(i.UpdatedAt); err != nil {
			return event.PollResult{}, err
		}
	}
	at := cursor{Start: start, Mark: start}
	return at.pollResult(event.PollResult{Wait: minInterval})
}

func listChanges(ctx context.Context, c *sources.Conn, variables inputObject) (page[changedIssue], error) {
	data, err := do(ctx, c, operation{"PollIssues", variables, true})
	if err != nil {
		return page[changedIssue]{}, err
	}
	return decodeField[page[changedIssue]](data, "issues")
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, outcomeUnknown(http.StatusOK, err.Error())
	}
	return t.UTC(), nil
}

// isRefusal reports whether Linear rejects the query itself.
func isRefusal(err error) bool {
	var refusal *sources.Refusal
	return errors.As(err, &refusal) && !refusal.Credential
}

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
	variables := inputObject{
		"first":  pollPage,
		"filter": inputObject{"updatedAt": inputObject{"gte": at.since().Format(time.RFC3339Nano)}},
	}
	if at.After != "" {
		variables["after"] = at.After
	}
	p, err := listChanges(ctx, c, variables)
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

// since is the mark, less the overlap.
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
	n := eventContext{Action: updated, Issue: i}
	before := slices.ContainsFunc(at.Seen, func(s seenChange) bool { return s.ID == i.ID })
	if born, err := parseTime(i.CreatedAt); err == nil && !before && born.After(at.Start) && !born.Before(at.since()) {
		n.Action = created
	}
	at.Seen = append(at.Seen, now)
	return n.event(key(i.ID, i.UpdatedAt), "poll:"+n.Action), true, nil
}

func (s seenChange) equal(t seenChange) bool { return s.ID == t.ID && s.At.Equal(t.At) }

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
