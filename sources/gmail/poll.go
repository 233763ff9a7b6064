package gmail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/sources"
)

// pageSize is the number of history records per poll. Each record costs one
// more request.
const pageSize = 50

// cursor is the position in the mailbox's history.
type cursor struct {
	HistoryID string `json:"history_id"`
}

// historyPage is one page of history, oldest first.
type historyPage struct {
	History   []historyRecord `json:"history"` // absent when nothing changed
	HistoryID string          `json:"historyId"`
	Next      string          `json:"nextPageToken"`
}

type historyRecord struct {
	ID    string `json:"id"`
	Added []struct {
		Message struct {
			ID string `json:"id"`
		} `json:"message"`
	} `json:"messagesAdded"`
}

// poll returns the messages added since the cursor. Gmail keeps about a week of
// history; with an older cursor, polling restarts from now and reports the gap
// as lost.
func poll(ctx context.Context, c *sources.Conn, raw json.RawMessage) (event.PollResult, error) {
	var at cursor
	if json.Unmarshal(raw, &at) != nil || at.HistoryID == "" {
		return baseline(ctx, c)
	}
	var page historyPage
	err := get(ctx, c, url.Values{
		"startHistoryId": {at.HistoryID}, "historyTypes": {"messageAdded"}, "maxResults": {strconv.Itoa(pageSize)},
	}, &page, "history")
	if isNotFound(err) {
		out, err := baseline(ctx, c)
		out.Lost = "Gmail keeps no history that is as old as the last look; mail that came since the last look is not told."
		return out, err
	}
	if err != nil {
		return event.PollResult{}, err
	}
	return page.pollResult(ctx, c)
}

// baseline starts polling from the current state, without events for existing
// mail.
func baseline(ctx context.Context, c *sources.Conn) (event.PollResult, error) {
	p, err := getProfile(ctx, c)
	if err != nil {
		return event.PollResult{}, err
	}
	if p.HistoryID == "" {
		return event.PollResult{}, invalidResponse(c)
	}
	return withCursor(event.PollResult{}, p.HistoryID)
}

// pollResult converts a page to events. Each record's ID is a valid cursor, so
// an error midway keeps the records already read.
func (p historyPage) pollResult(ctx context.Context, c *sources.Conn) (event.PollResult, error) {
	var out event.PollResult
	done, refused := "", 0
	for _, r := range p.History {
		events, skipped, err := r.events(ctx, c)
		if err == nil && r.ID == "" {
			err = invalidResponse(c)
		}
		if err != nil && done == "" {
			return event.PollResult{}, err
		}
		if err != nil {
			out.Wait = retryAfter(err)
			return withCursor(out, done)
		}
		out.Events, done = append(out.Events, events...), r.ID
		if refused += skipped; refused > 0 {
			out.Lost = fmt.Sprintf("Gmail refused to show %d message(s), which are not told.", refused)
		}
	}
	if p.Next == "" {
		done = p.HistoryID
	}
	if done == "" {
		return event.PollResult{}, invalidResponse(c)
	}
	out.More = p.Next != ""
	return withCursor(out, done)
}

// events returns the messages that the record added. It skips deleted messages,
// and messages that Gmail refuses to return, which would otherwise block the
// mailbox.
func (r historyRecord) events(ctx context.Context, c *sources.Conn) (events []event.Event, refused int, err error) {
	for _, added := range r.Added {
		m, err := getMessage(ctx, c, added.Message.ID)
		switch {
		case err == nil:
			if e, is := m.event(); is {
				events = append(events, e)
			}
		case isNotFound(err):
		case refusedForMessage(ctx, c, err):
			refused++
		default:
			return nil, 0, err
		}
	}
	return events, refused, nil
}

// refusedForMessage reports whether Gmail refuses this one message for good. A
// credential or quota error would also fail the request for the profile.
func refusedForMessage(ctx context.Context, c *sources.Conn, err error) bool {
	var refusal *sources.Refusal
	if !errors.As(err, &refusal) || refusal.Credential || refusal.Status < 400 || refusal.Status >= 500 || refusal.Status == http.StatusRequestTimeout {
		return false
	}
	_, err = getProfile(ctx, c)
	return err == nil
}

func withCursor(out event.PollResult, historyID string) (_ event.PollResult, err error) {
	out.Cursor, err = json.Marshal(cursor{historyID})
	return out, err
}

// isNotFound reports whether Gmail answered 404.
func isNotFound(err error) bool {
	var refusal *sources.Refusal
	return errors.As(err, &refusal) && refusal.Status == http.StatusNotFound
}

// retryAfter returns how long to back off before the next request.
func retryAfter(err error) (wait time.Duration) {
	var e *action.Error
	if errors.As(err, &e) {
		wait = e.RetryAfter
	}
	return wait
}
