package dashboard

import (
	"context"
	"net/http"
	"net/url"

	"sallyport/action"
	"sallyport/api"
)

// inboxSize is how many cards a page has; the script asks for as many again at
// once, or for twice as many that follow.
const inboxSize = 25

// inboxPage is a part of what waits, newest first.
type inboxPage struct {
	Cards  []card
	Next   string // cursor of the part that follows; empty: there is none
	Cursor string // of this part; empty: it begins with the newest
}

func (p *pages) inbox(w http.ResponseWriter, r *http.Request, me *Principal) error {
	page, err := p.inboxPage(r.Context(), me, api.Paging{Limit: inboxSize, Cursor: r.URL.Query().Get("cursor")})
	if err != nil {
		return err
	}
	requests, err := p.requests(r.Context(), me)
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "layout", view{Page: "inbox", Title: "Inbox", Me: me, Data: struct {
		inboxPage
		Requests requestList
	}{page, requests}})
}

// inboxMore is the part that follows one, for the script to put below it.
func (p *pages) inboxMore(w http.ResponseWriter, r *http.Request, me *Principal) error {
	page, err := p.inboxPage(r.Context(), me, api.Paging{Limit: 2 * inboxSize, Cursor: r.URL.Query().Get("cursor")})
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "part", page)
}

func (p *pages) inboxPage(ctx context.Context, me *Principal, q api.Paging) (inboxPage, error) {
	page, err := p.Calls.ListInvocations(ctx, pendingOf(me.Organization, q))
	if err != nil {
		return inboxPage{}, err
	}
	cards, err := p.cards(ctx, me, page.Items)
	spare(cards)
	return inboxPage{Cards: cards, Next: page.Next, Cursor: q.Cursor}, err
}

// inboxCards is some cards by their ids, in the order that was asked for:
// those that the script let go of, and those that it has not seen.
func (p *pages) inboxCards(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ids, err := askedIDs(r.URL.Query())
	if err != nil {
		return err
	}
	var list []action.Invocation
	for _, id := range ids {
		if inv, err := p.Calls.Invocation(r.Context(), me.Organization, id); err == nil { // else it is gone
			list = append(list, inv)
		}
	}
	cards, err := p.cards(r.Context(), me, list)
	if err != nil {
		return err
	}
	spare(cards)
	return p.render(w, "inbox", "part", inboxPage{Cards: cards})
}

// askedIDs are the calls that a query names, as many as a page has.
func askedIDs(q url.Values) ([]string, error) {
	if ids := q["id"]; len(ids) <= 2*inboxSize {
		return ids, nil
	}
	return nil, invalid("/id", "Ask for fewer calls at once.")
}

// inboxCard is one card alone, and whole.
func (p *pages) inboxCard(w http.ResponseWriter, r *http.Request, me *Principal) error {
	c, err := p.cardOf(r.Context(), me, r.PathValue("id"))
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "item", view{Me: me, Data: c})
}

// inboxGrant is the form of an approval that lets more calls through.
func (p *pages) inboxGrant(w http.ResponseWriter, r *http.Request, me *Principal) error {
	c, err := p.cardOf(r.Context(), me, r.PathValue("id"))
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "granting-form", c)
}

// inboxParams is what a card masks, for a person who asked to see it.
func (p *pages) inboxParams(w http.ResponseWriter, r *http.Request, me *Principal) error {
	full, err := p.fullParams(r.Context(), me, r.PathValue("id"))
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "params-full", view{Me: me, Data: pretty(full.Params)})
}

// inboxCount is how much waits, however much it is.
func (p *pages) inboxCount(w http.ResponseWriter, r *http.Request, me *Principal) error {
	calls, requests, err := p.Calls.CountWaiting(r.Context(), me.Organization)
	if err != nil {
		return err
	}
	return sendJSON(w, map[string]int{"calls": calls, "requests": requests})
}

// inboxWaiters tells the script of the callers of cards that are in sight.
func (p *pages) inboxWaiters(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ids, err := askedIDs(r.URL.Query())
	if err != nil {
		return err
	}
	waiters, err := p.Calls.Waiters(r.Context(), me.Organization, ids)
	if err != nil {
		return err
	}
	said := map[string]waiting{}
	for id, waiter := range waiters {
		said[id] = p.waiting(waiter)
	}
	return sendJSON(w, said)
}
