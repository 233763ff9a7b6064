package page

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

// card is one invocation as the inbox and its own page show it.
type card struct {
	action.Invocation
	callerSession
	Why        string           // why it was held or refused, in one sentence
	Text       []render.Segment // the params
	Pins       []render.Pin     // those that a grant may be bound to
	Full       bool             // they are all that will run, but for what is masked
	Masked     bool             // some of them are masked
	Hides      bool             // some are redacted, and this person may not see them
	Unreadable bool             // the params that would run cannot be opened: nobody can know what he would approve
	Partial    bool             // the params are left out: the script asks for the whole card before anybody decides
	Decides    bool             // the person who looks may decide
	Who        string           // who decided
	Settled    decider          // who or what did, in every case
	Left       int              // seconds
	Hold       int              // seconds, of the whole hold
	Waiting    waiting          // who waits for the answer, while it is pending
	Accounts   []string         // whose credentials it would use, of a module's action
}

// waiting is whether anybody would hear of a decision.
type waiting struct {
	State string `json:"state"` // waits, told or gone; empty: not known
	Text  string `json:"text"`
}

// waiting says it of a caller. Callers are noted every so often, so one that
// was not for three times is gone.
func (p *pages) waiting(w action.CallerState) waiting {
	switch {
	case p.Now().Sub(w.SeenAt) < 3*p.SeenEvery:
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
		modules = modules || p.Provider(inv.Source) != nil
		if inv.Status == action.StatusPending {
			pending = append(pending, inv.ID)
		}
	}
	if len(list) == 0 {
		return nil
	}
	names, asking, waiters := p.loadNames(), p.callerSessions(sessions), load2(p, p.Calls.Waiters, p.org, pending)
	var integrations []action.Integration
	if modules {
		integrations = load2(p, p.Sources.ListIntegrations, p.org, p.me.Viewer())
	}
	cards := make([]card, len(list))
	for i, inv := range list {
		c := card{Invocation: inv, callerSession: asking(inv.Session), Who: cmp.Or(names[inv.ApprovedBy], inv.ApprovedBy), Settled: decidedBy(inv, names)}
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
		c.Left = max(0, int(inv.ExpiresAt.Sub(p.Now()).Seconds()))
		c.Hold = max(1, int(inv.ExpiresAt.Sub(inv.CreatedAt).Seconds()))
	}
	c.Text = render.JSON(inv.Params)
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
		c.Full, c.Text = true, render.MaskedJSON(full, inv.Params, p.Vault.Hash)
		c.Masked, c.Pins = masked(c.Text), render.Pinnable(full, inv.Params)
	}
	return c, nil
}

func masked(text []render.Segment) bool {
	for _, s := range text {
		if s.Class == render.ClassMasked {
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
func weight(text []render.Segment) (n int) {
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

// envCard is an agent's request for environment variables as a person sees it.
type envCard struct {
	action.EnvRequest
	callerSession
	By      string // the name of who decided
	Decides bool
	Alone   bool // on its own page
}

// envCards are those that wait, as far as the inbox shows them.
func (p *pageRequest) envCards() []envCard {
	return p.envCardsOf(load(p, p.Sessions.ListEnvRequests, action.EnvFilter{Organization: p.org, Status: action.EnvPending, Limit: inboxSize}).Items)
}

func (p *pageRequest) envCardsOf(list []action.EnvRequest) []envCard {
	if len(list) == 0 {
		return nil
	}
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.Session
	}
	asking, cards := p.callerSessions(ids), make([]envCard, len(list))
	for i, r := range list {
		cards[i] = envCard{EnvRequest: r, callerSession: asking(r.Session), Decides: p.decides()}
	}
	return cards
}

func (p *pageRequest) envPage() error {
	request := load2(p, p.Sessions.EnvRequest, p.org, p.r.PathValue("id"))
	c := p.envCardsOf([]action.EnvRequest{request})[0]
	c.Alone, c.By = true, cmp.Or(p.loadNames()[request.DecidedBy], request.DecidedBy)
	return p.show("env", "inbox", "Environment variables", c)
}

// requestCard is an agent's wish for a grant as the inbox shows it.
type requestCard struct {
	api.RequestView
	callerSession
	Pins  []render.Pin
	Spans []span // that are not longer than was asked
}

// requestList is what waits, as far as the inbox shows it.
type requestList struct {
	Cards   []requestCard
	Env     []envCard // of those who want environment variables
	Total   int
	Decides bool
}

// inboxRequests is the requests alone, for the script to put in their place.
func (p *pageRequest) inboxRequests() error {
	return p.showPart("inbox", "requests", p.requests())
}

func (p *pageRequest) requests() requestList {
	page := load(p, p.Policy.ListGrantRequests, action.RequestFilter{Organization: p.org, Status: action.RequestPending, Limit: inboxSize})
	list := requestList{Env: p.envCards(), Total: page.Total, Decides: p.decides()}
	if len(page.Items) == 0 {
		return list
	}
	ids := make([]string, len(page.Items))
	for i, r := range page.Items {
		ids[i] = r.Session
	}
	asking, all := p.callerSessions(ids), p.loadConnectors()
	for _, r := range page.Items {
		view := api.RequestView{GrantRequest: r, Name: view.SourceName(r.Terms.Source, all)}
		list.Cards = append(list.Cards, requestCard{view, asking(r.Session), pinsOf(&r.Terms), spansWithin(p.Now(), r.Terms.ExpiresAt)})
	}
	return list
}

// span is a while that a form offers.
type span struct{ Value, Text string }

// spansWithin are those that end no later than until; nil is never.
func spansWithin(now time.Time, until *time.Time) []span {
	all := []span{{"1h", "an hour"}, {"8h", "8 hours"}, {"24h", "a day"}, {"168h", "a week"}}
	return slices.DeleteFunc(all, func(s span) bool {
		d, err := time.ParseDuration(s.Value)
		return err != nil || until != nil && now.Add(d).After(*until)
	})
}

// pinsOf lists the pins of a grant by their pointers, whole.
func pinsOf(t *action.Terms) []render.Pin {
	out := make([]render.Pin, 0, len(t.Pins))
	for pointer, value := range t.Pins {
		out = append(out, render.Pin{Pointer: pointer, Value: render.Escape(string(value))})
	}
	slices.SortFunc(out, func(a, b render.Pin) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out
}
