// Package gmail implements the Gmail module: connecting a mailbox so that
// triggers can poll it. It has no actions for agents.
//
// Polling reads the mailbox's history, so every message added since the last
// poll becomes an event or is reported as lost. When Gmail no longer keeps the
// history since the cursor, polling restarts from now. A message that Gmail
// refuses to return is skipped. The module reads headers and snippets, never
// bodies.
package gmail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/sources"
)

const scope = "https://www.googleapis.com/auth/gmail.readonly"

// Module returns the Gmail module.
func Module() *sources.Module {
	return &sources.Module{
		ID:      "gmail",
		Title:   "Gmail",
		About:   "Watches a mailbox for new mail, which triggers can act on. It has no actions for agents.",
		Guide:   "Gmail has no actions. A connection is for triggers, which watch a mailbox for new mail.",
		BaseURL: "https://gmail.googleapis.com",
		Needs: []sources.Need{{
			Kind: action.KindOAuth2, Users: true, Preset: "google", Scopes: []string{scope},
			Hint: "Sign in with the Google account whose mail triggers are to watch, and allow that it is read.",
		}},
		Account: account,
		Poll:    poll,
	}
}

// account returns the mailbox of a credential. The address is the account ID.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	p, err := getProfile(ctx, c)
	return sources.Account{ID: p.Address, Name: p.Address}, err
}

const messageEvent = "new_message"

// Triggers returns the trigger provider of Gmail, which supports polling only.
func Triggers() event.Provider {
	return event.Provider{
		ID:              "gmail",
		Title:           "Gmail",
		SupportsPolling: true,
		Types: []event.Type{{
			ID: messageEvent, Title: "New mail",
			Description: "Mail came into the mailbox. Without labels: all but spam, trash and what the mailbox itself sent.",
			Config: json.RawMessage(`{
				"type": "object",
				"additionalProperties": false,
				"properties": {
					"labels": {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": "^[A-Za-z0-9_^-]{1,100}$"}, "description": "Ids of labels, one of which the mail has: INBOX, IMPORTANT, STARRED, SENT, SPAM, CATEGORY_UPDATES, or that of a label of one's own, such as Label_12."}
				}
			}`),
			Matches: matches,
		}},
	}
}

func matches(e *event.Event, config json.RawMessage) bool {
	var f struct {
		Labels []string `json:"labels"`
	}
	var n eventContext
	if len(config) > 0 && json.Unmarshal(config, &f) != nil || json.Unmarshal(e.Context, &n) != nil {
		return false
	}
	if len(f.Labels) > 0 {
		return sources.MatchesFilter(f.Labels, n.Labels...)
	}
	has := func(label string) bool { return slices.Contains(n.Labels, label) }
	return !has("SPAM") && !has("TRASH") && (!has("SENT") || has("INBOX"))
}

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
		out.Lost = "Gmail no longer keeps the history since the last poll. Mail that arrived since then produces no events."
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
			out.Wait = action.Public(err).RetryAfter
			return withCursor(out, done)
		}
		out.Events, done = append(out.Events, events...), r.ID
		if refused += skipped; refused > 0 {
			out.Lost = fmt.Sprintf("Gmail refused to return %d message(s), which produce no events.", refused)
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
