package dashboard

import (
	"context"
	"net/http"

	"sallyport/action"
)

// card is one invocation as the inbox and its own page show it.
type card struct {
	action.Invocation
	Asking   action.Session
	Why      string    // why it was held or refused, in one sentence
	Text     []Segment // the params
	Pins     []pin     // those that a grant may be bound to
	Full     bool      // they are all that will run, but for what is masked
	Masked   bool      // some of them are masked
	Hides    bool      // some are redacted, and this person may not see them
	Decides  bool      // the person who looks may decide
	Who      string    // who decided
	Settled  settler   // who or what did, in every case
	Left     int       // seconds
	Hold     int       // seconds, of the whole hold
	Accounts []string  // whose credentials it would use, of a module's action
}

const inboxSize = 50

func (p *pages) inbox(w http.ResponseWriter, r *http.Request, me *Principal) error {
	page, err := p.Invocations.ListInvocations(r.Context(), InvocationFilter{
		Organization: me.Organization, Status: action.StatusPending, Query: Query{Limit: inboxSize},
	})
	if err != nil {
		return err
	}
	names, err := p.names(r.Context(), me.Organization)
	if err != nil {
		return err
	}
	cards := make([]card, len(page.Items))
	for i, inv := range page.Items {
		if cards[i], err = p.card(r.Context(), me, inv, names); err != nil {
			return err
		}
	}
	requests, err := p.requests(r.Context(), me)
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "layout", view{Page: "inbox", Title: "Inbox", Me: me, Data: struct {
		Cards    []card
		Total    int
		Requests requestList
	}{cards, page.Total, requests}})
}

// inboxCard is one card alone, for the script to put in its place.
func (p *pages) inboxCard(w http.ResponseWriter, r *http.Request, me *Principal) error {
	c, err := p.cardOf(r.Context(), me, r.PathValue("id"))
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "item", view{Me: me, Data: c})
}

// inboxParams is what a card masks, for a person who asked to see it.
func (p *pages) inboxParams(w http.ResponseWriter, r *http.Request, me *Principal) error {
	full, err := p.fullParams(r.Context(), me, r.PathValue("id"))
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "params-full", view{Me: me, Data: pretty(full.Params)})
}

func (p *pages) invocation(w http.ResponseWriter, r *http.Request, me *Principal) error {
	c, err := p.cardOf(r.Context(), me, r.PathValue("id"))
	if err != nil {
		return err
	}
	events, err := p.Events(r.Context(), me.Organization, c.ID)
	if err != nil {
		return err
	}
	return p.render(w, "invocation", "layout", view{Page: "activity", Title: c.Action, Me: me, Data: struct {
		card
		Events []Event
	}{c, events}})
}

func (p *pages) cardOf(ctx context.Context, me *Principal, id string) (card, error) {
	inv, err := p.Invocations.Invocation(ctx, me.Organization, id)
	if err != nil {
		return card{}, err
	}
	names, err := p.names(ctx, me.Organization)
	if err != nil {
		return card{}, err
	}
	return p.card(ctx, me, inv, names)
}

func (p *pages) card(ctx context.Context, me *Principal, inv action.Invocation, names map[string]string) (card, error) {
	decision := action.Decision{Source: inv.ModeSource, Steps: inv.Steps}
	c := card{Invocation: inv, Why: decision.Why(), Decides: me.Role.Decides(), Who: or(names[inv.ApprovedBy], inv.ApprovedBy), Settled: settledBy(inv, names)}
	var err error
	if c.Asking, err = p.session(ctx, me.Organization, inv.Session); err != nil {
		c.Asking = action.Session{ID: inv.Session}
	}
	if c.Accounts, err = p.accounts(ctx, me, &c.Asking, &inv); err != nil {
		return c, err
	}
	if inv.ExpiresAt != nil {
		c.Left = max(0, int(inv.ExpiresAt.Sub(p.now()).Seconds()))
		c.Hold = max(1, int(inv.ExpiresAt.Sub(inv.CreatedAt).Seconds()))
	}
	c.Text = pretty(inv.Params)
	c.Hides = inv.Status == action.StatusPending && !c.Decides && redacted(inv.Params)
	if inv.Status != action.StatusPending || !c.Decides {
		return c, nil
	}
	full, whole, err := p.Gate.Params(ctx, me.Organization, inv.ID)
	if err != nil {
		return c, err
	}
	if whole {
		c.Full, c.Text = true, prettyMasked(full, inv.Params, p.Hash)
		c.Masked, c.Pins = masked(c.Text), pinnable(full, inv.Params)
	}
	return c, nil
}

func masked(text []Segment) bool {
	for _, s := range text {
		if s.Class == classMasked {
			return true
		}
	}
	return false
}
