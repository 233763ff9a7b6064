package page

import (
	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
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

func (p *pageRequest) inbox() error {
	return p.show("inbox", "inbox", "Inbox", struct {
		inboxPage
		Requests requestList
	}{p.inboxPage(inboxSize), p.requests()})
}

// inboxMore is the part that follows one, for the script to put below it.
func (p *pageRequest) inboxMore() error {
	return p.showPart("inbox", "part", p.inboxPage(2*inboxSize))
}

func (p *pageRequest) inboxPage(size int) inboxPage {
	cursor := p.query("cursor")
	page := load(p, p.Calls.ListInvocations, action.InvocationFilter{Organization: p.org, Statuses: []action.Status{action.StatusPending}, Limit: size, Cursor: cursor})
	cards := p.cards(page.Items)
	spare(cards)
	return inboxPage{Cards: cards, Next: page.Next, Cursor: cursor}
}

// inboxCards is some cards by their ids, in the order that was asked for:
// those that the script let go of, and those that it has not seen.
func (p *pageRequest) inboxCards() error {
	var list []action.Invocation
	for _, id := range p.requestedIDs() {
		if inv, err := p.Calls.Invocation(p.ctx(), p.org, id); err == nil { // else it is gone
			list = append(list, inv)
		}
	}
	cards := p.cards(list)
	spare(cards)
	return p.showPart("inbox", "part", inboxPage{Cards: cards})
}

// requestedIDs are the calls that a query names, as many as a page has.
func (p *pageRequest) requestedIDs() []string {
	ids := p.r.URL.Query()["id"]
	if len(ids) > 2*inboxSize {
		p.setError(dashboard.Invalid("/id", "Ask for fewer calls at once."))
		return nil
	}
	return ids
}

// inboxCard is one card alone, and whole.
func (p *pageRequest) inboxCard() error {
	return p.showPart("inbox", "item", layoutData{Me: p.me, Data: p.cardOf(p.r.PathValue("id"))})
}

// inboxGrant is the form of an approval that lets more calls through.
func (p *pageRequest) inboxGrant() error {
	return p.showPart("inbox", "granting-form", p.cardOf(p.r.PathValue("id")))
}

// inboxParams is what a card masks, for a person who asked to see it.
func (p *pageRequest) inboxParams() error {
	full := load2(p, p.FullParams, p.me, p.r.PathValue("id"))
	return p.showPart("inbox", "params-full", layoutData{Me: p.me, Data: render.JSON(full.Params)})
}

// inboxCount is how much waits, however much it is.
func (p *pageRequest) inboxCount() error {
	calls, requests, err := p.Calls.CountWaiting(p.ctx(), p.org)
	if err != nil {
		return err
	}
	return sendJSON(p.w, map[string]int{"calls": calls, "requests": requests})
}

// inboxWaiters tells the script of the callers of cards that are in sight.
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
