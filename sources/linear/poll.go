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
	// quiet is the least time between looks: Linear would rather tell by
	// webhook.
	quiet = time.Minute

	pollPage  = 50
	pollPages = 20 // in one look
)

// poll reads the issues that changed. It never tells of comments, nor of what
// was deleted.
func poll(ctx context.Context, c *sources.Conn, raw json.RawMessage) (event.PollResult, error) {
	var at cursor
	if json.Unmarshal(raw, &at) != nil || at.Mark.IsZero() {
		return baseline(ctx, c)
	}
	out := event.PollResult{Wait: quiet, More: true}
	for n := range pollPages {
		found, done, err := at.page(ctx, c)
		if n == 0 && at.After != "" && refused(err) { // that place is gone
			at.After = ""
			found, done, err = at.page(ctx, c)
		}
		if err != nil && (n == 0 || refused(err)) {
			return event.PollResult{}, err
		}
		out.Events = append(out.Events, found...)
		if err != nil { // what was read stays read
			out.Wait = max(quiet, patience(err))
		}
		if out.More = err == nil && !done; !out.More {
			break
		}
	}
	slices.SortStableFunc(out.Events, func(a, b event.Event) int { return a.OccurredAt.Compare(b.OccurredAt) })
	return at.leave(out)
}

// baseline takes the latest change as the one up to which all is old. The clock
// that counts is Linear's.
func baseline(ctx context.Context, c *sources.Conn) (event.PollResult, error) {
	p, err := changes(ctx, c, object{"first": 1})
	if err != nil {
		return event.PollResult{}, err
	}
	start := time.Unix(0, 0).UTC() // no issues: whatever comes is new
	for _, i := range p.Items {
		if start, err = moment(i.UpdatedAt); err != nil {
			return event.PollResult{}, err
		}
	}
	at := cursor{Start: start, Mark: start}
	return at.leave(event.PollResult{Wait: quiet})
}

func changes(ctx context.Context, c *sources.Conn, variables object) (page[changedIssue], error) {
	data, err := ask(ctx, c, operation{"PollIssues", variables, true})
	if err != nil {
		return page[changedIssue]{}, err
	}
	return field[page[changedIssue]](data, "issues")
}

func moment(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, uncertain(http.StatusOK, err.Error())
	}
	return t.UTC(), nil
}

// refused reports whether Linear does not take the question itself.
func refused(err error) bool {
	var no *sources.Refusal
	return errors.As(err, &no) && !no.Credential
}

// patience is how long the service wants to be left alone.
func patience(err error) time.Duration {
	var e *action.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
