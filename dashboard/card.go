package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"

	"sallyport/action"
)

// card is one invocation as the inbox and its own page show it.
type card struct {
	action.Invocation
	asker
	Why        string    // why it was held or refused, in one sentence
	Text       []Segment // the params
	Pins       []pin     // those that a grant may be bound to
	Full       bool      // they are all that will run, but for what is masked
	Masked     bool      // some of them are masked
	Hides      bool      // some are redacted, and this person may not see them
	Unreadable bool      // the params that would run cannot be opened: nobody can know what he would approve
	Partial    bool      // the params are left out: the script asks for the whole card before anybody decides
	Decides    bool      // the person who looks may decide
	Who        string    // who decided
	Settled    settler   // who or what did, in every case
	Left       int       // seconds
	Hold       int       // seconds, of the whole hold
	Waiting    waiting   // who waits for the answer, while it is pending
	Accounts   []string  // whose credentials it would use, of a module's action
}

// waiting is whether anybody would hear of a decision.
type waiting struct {
	State string `json:"state"` // waits, told or gone; empty: not known
	Text  string `json:"text"`
}

// waiting says it of a caller. Callers are noted every so often, so one that
// was not for three times is gone.
func (p *pages) waiting(w action.Waiter) waiting {
	switch {
	case p.now().Sub(w.SeenAt) < 3*p.SeenEvery:
		return waiting{"waits", "The agent is waiting for a decision."}
	case w.Answered:
		return waiting{"told", "The agent was notified that the call is pending and may check again later."}
	}
	return waiting{"gone", "The agent is no longer waiting. If you approve the call, it runs but the agent may not see the result."}
}

// cards are the calls of a page with what is shown beside them, which is read
// for all of them at once.
func (p *pageRequest) cards(list []action.Invocation) []card {
	var pending, sessions []string
	modules := false
	for _, inv := range list {
		sessions = append(sessions, inv.Session)
		modules = modules || p.provider(inv.Source) != nil
		if inv.Status == action.StatusPending {
			pending = append(pending, inv.ID)
		}
	}
	if len(list) == 0 {
		return nil
	}
	names, asking, waiters := p.loadNames(), p.askers(sessions), load2(p, p.Calls.Waiters, p.org, pending)
	var integrations []action.Integration
	if modules {
		integrations = load2(p, p.Sources.ListIntegrations, p.org, p.me.viewer())
	}
	cards := make([]card, len(list))
	for i, inv := range list {
		c := card{Invocation: inv, asker: asking(inv.Session), Who: cmp.Or(names[inv.ApprovedBy], inv.ApprovedBy), Settled: settledBy(inv, names)}
		c.Accounts = p.accounts(integrations, &c.Asking, &inv)
		if waiter, ok := waiters[inv.ID]; ok {
			c.Waiting = p.waiting(waiter)
		}
		cards[i] = load(p, p.card, c)
	}
	return cards
}

func (p *pageRequest) cardOf(id string) card {
	inv := load2(p, p.Calls.Invocation, p.org, id)
	return p.cards([]action.Invocation{inv})[0]
}

// card completes one with its params and its times.
func (p *pageRequest) card(ctx context.Context, c card) (card, error) {
	inv := c.Invocation
	decision := action.Decision{Source: inv.ModeSource, Steps: inv.Steps}
	c.Why, c.Decides = decision.Why(), p.decides()
	if inv.ExpiresAt != nil {
		c.Left = max(0, int(inv.ExpiresAt.Sub(p.now()).Seconds()))
		c.Hold = max(1, int(inv.ExpiresAt.Sub(inv.CreatedAt).Seconds()))
	}
	c.Text = pretty(inv.Params)
	c.Hides = inv.Status == action.StatusPending && !c.Decides && redacted(inv.Params)
	if inv.Status != action.StatusPending || !c.Decides {
		return c, nil
	}
	full, whole, err := p.Gate.Params(ctx, p.org, inv.ID)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	if err != nil {
		p.Log.WarnContext(ctx, "the params of a held call cannot be opened", "invocation", inv.ID, "error", err)
		c.Unreadable = true
		return c, nil
	}
	if whole {
		c.Full, c.Text = true, prettyMasked(full, inv.Params, p.Vault.Hash)
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

const (
	lightParams = 1 << 10  // of markup, that every card may have
	roomyParams = 12 << 10 // that the cards of a page may have beside
)

// spare leaves out the params of cards that would make a page heavy. The
// script asks for each of these alone, once it comes near the window.
func spare(cards []card) {
	room := roomyParams
	for i := range cards {
		c := &cards[i]
		size := weight(c.Text)
		switch {
		case size <= lightParams:
		case size <= room:
			room -= size
		default:
			c.Text, c.Partial = nil, true
		}
	}
}

// weight is about how much markup text becomes.
func weight(text []Segment) (n int) {
	for _, s := range text {
		n += len(s.Text) + 8
		if s.Class != "" {
			n += 24 + len(s.Title)
		}
	}
	return n
}

// sendJSON writes JSON for a page's script.
func sendJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}
