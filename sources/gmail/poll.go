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

// perLook is how many records of history are read in one look. Each one is a
// request more.
const perLook = 50

// cursor is how far the history of the mailbox was read.
type cursor struct {
	HistoryID string `json:"history_id"`
}

// records are a page of the history, the oldest first.
type records struct {
	History   []record `json:"history"` // absent: nothing happened
	HistoryID string   `json:"historyId"`
	Next      string   `json:"nextPageToken"`
}

type record struct {
	ID    string `json:"id"`
	Added []struct {
		Message struct {
			ID string `json:"id"`
		} `json:"message"`
	} `json:"messagesAdded"`
}

// poll reads the mail that was added to the mailbox. A cursor that is too old
// for Gmail, which keeps a week or less, begins anew, and says that what came
// between is lost.
func poll(ctx context.Context, c *sources.Conn, raw json.RawMessage) (event.PollResult, error) {
	var at cursor
	if json.Unmarshal(raw, &at) != nil || at.HistoryID == "" {
		return baseline(ctx, c)
	}
	var page records
	err := get(ctx, c, url.Values{
		"startHistoryId": {at.HistoryID}, "historyTypes": {"messageAdded"}, "maxResults": {strconv.Itoa(perLook)},
	}, &page, "history")
	if missing(err) {
		out, err := baseline(ctx, c)
		out.Lost = "Gmail keeps no history that is as old as the last look; mail that came since the last look is not told."
		return out, err
	}
	if err != nil {
		return event.PollResult{}, err
	}
	return page.read(ctx, c)
}

// baseline takes all mail that is there for old.
func baseline(ctx context.Context, c *sources.Conn) (event.PollResult, error) {
	p, err := mailbox(ctx, c)
	if err != nil {
		return event.PollResult{}, err
	}
	if p.HistoryID == "" {
		return event.PollResult{}, foreign(c)
	}
	return leave(event.PollResult{}, p.HistoryID)
}

// read tells the mail of a page. The place behind a record is as good as that
// behind a page, so when it breaks off, what was read stays read.
func (p records) read(ctx context.Context, c *sources.Conn) (event.PollResult, error) {
	var out event.PollResult
	done, refused := "", 0
	for _, r := range p.History {
		events, no, err := r.read(ctx, c)
		if err == nil && r.ID == "" {
			err = foreign(c)
		}
		if err != nil && done == "" {
			return event.PollResult{}, err
		}
		if err != nil {
			out.Wait = patience(err)
			return leave(out, done)
		}
		out.Events, done = append(out.Events, events...), r.ID
		if refused += no; refused > 0 {
			out.Lost = fmt.Sprintf("Gmail refused to show %d message(s), which are not told.", refused)
		}
	}
	if p.Next == "" {
		done = p.HistoryID
	}
	if done == "" {
		return event.PollResult{}, foreign(c)
	}
	out.More = p.Next != ""
	return leave(out, done)
}

// read tells the mail of a record, but for what is not there any more, and for
// what Gmail refuses to show: the mailbox would be stuck there.
func (r record) read(ctx context.Context, c *sources.Conn) (events []event.Event, refused int, err error) {
	for _, added := range r.Added {
		m, err := fetch(ctx, c, added.Message.ID)
		switch {
		case err == nil:
			if e, is := m.event(); is {
				events = append(events, e)
			}
		case missing(err):
		case alone(ctx, c, err):
			refused++
		default:
			return nil, 0, err
		}
	}
	return events, refused, nil
}

// alone reports whether Gmail refuses a message for what that is, which will not
// change: whatever is wrong with the credential or a quota, it says of the
// mailbox too.
func alone(ctx context.Context, c *sources.Conn, err error) bool {
	var no *sources.Refusal
	if !errors.As(err, &no) || no.Credential || no.Status < 400 || no.Status >= 500 || no.Status == http.StatusRequestTimeout {
		return false
	}
	_, err = mailbox(ctx, c)
	return err == nil
}

func leave(out event.PollResult, historyID string) (_ event.PollResult, err error) {
	out.Cursor, err = json.Marshal(cursor{historyID})
	return out, err
}

// missing reports whether Gmail does not have it any more.
func missing(err error) bool {
	var no *sources.Refusal
	return errors.As(err, &no) && no.Status == http.StatusNotFound
}

// patience is how long Gmail wants to be left alone.
func patience(err error) (wait time.Duration) {
	var e *action.Error
	if errors.As(err, &e) {
		wait = e.RetryAfter
	}
	return wait
}
