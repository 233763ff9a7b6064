package page

import (
	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
)

// inboxSize is the number of cards per page. The script loads as many again, or
// twice as many when it refreshes.
const inboxSize = 25

// inboxPage is a page of pending approvals, newest first.
type inboxPage struct {
	Cards  []card
	Next   string // cursor of the next page; empty if there is none
	Cursor string // of this page; empty for the first
}

func (p *pageRequest) inbox() error {
	return p.show("inbox", "inbox", "Inbox", struct {
		inboxPage
		Requests requestList
	}{p.inboxPage(inboxSize), p.requests()})
}

// inboxMore renders the next page, for the script.
func (p *pageRequest) inboxMore() error {
	return p.showPart("inbox", "part", p.inboxPage(2*inboxSize))
}

func (p *pageRequest) inboxPage(size int) inboxPage {
	cursor := p.query("cursor")
	page := load(p, p.Calls.ListInvocations, action.InvocationFilter{Organization: p.org, Statuses: []action.Status{action.StatusPending}, Limit: size, Cursor: cursor})
	cards := p.cards(page.Items)
	omitHeavyParams(cards)
	return inboxPage{Cards: cards, Next: page.Next, Cursor: cursor}
}

// inboxCards renders cards by their IDs, in the requested order.
func (p *pageRequest) inboxCards() error {
	var list []action.Invocation
	for _, id := range p.requestedIDs() {
		if inv, err := p.Calls.Invocation(p.ctx(), p.org, id); err == nil { // else it is gone
			list = append(list, inv)
		}
	}
	cards := p.cards(list)
	omitHeavyParams(cards)
	return p.showPart("inbox", "part", inboxPage{Cards: cards})
}

// requestedIDs returns the IDs in a query, up to the size of a page.
func (p *pageRequest) requestedIDs() []string {
	ids := p.r.URL.Query()["id"]
	if len(ids) > 2*inboxSize {
		p.setError(dashboard.Invalid("/id", "Ask for fewer calls at once."))
		return nil
	}
	return ids
}

// inboxCard renders one complete card.
func (p *pageRequest) inboxCard() error {
	return p.showPart("inbox", "item", layoutData{Me: p.me, Data: p.cardOf(p.r.PathValue("id"))})
}

// inboxGrant renders the form for an approval that also creates a grant.
func (p *pageRequest) inboxGrant() error {
	return p.showPart("inbox", "granting-form", p.cardOf(p.r.PathValue("id")))
}

// inboxParams shows the masked params of a card on request.
func (p *pageRequest) inboxParams() error {
	full := load2(p, p.FullParams, p.me, p.r.PathValue("id"))
	return p.showPart("inbox", "params-full", layoutData{Me: p.me, Data: render.JSON(full.Params)})
}

// inboxCount returns the number of all pending items.
func (p *pageRequest) inboxCount() error {
	calls, requests, err := p.Calls.CountWaiting(p.ctx(), p.org)
	if err != nil {
		return err
	}
	return sendJSON(p.w, map[string]int{"calls": calls, "requests": requests})
}

// inboxWaiters returns the caller states of the visible cards.
func (p *pageRequest) inboxWaiters() error {
	said := map[string]waiting{}
	for id, waiter := range load2(p, p.Calls.Waiters, p.org, p.requestedIDs()) {
		said[id] = p.waiting(waiter)
	}
	if p.err != nil {
		return p.err
	}
	return sendJSON(p.w, said)
}
