package linear

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
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
			out.Wait = max(minInterval, retryAfter(err))
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

// retryAfter returns how long to back off before the next request.
func retryAfter(err error) time.Duration {
	var e *action.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
