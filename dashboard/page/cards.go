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

// card is an invocation in the inbox or on its own page.
type card struct {
	action.Invocation
	callerSession
	Why        string           // reason for the hold or denial, in one sentence
	Text       []render.Segment // the params
	Pins       []render.Pin     // params that a grant may be bound to
	Full       bool             // the params are complete, apart from masked values
	Masked     bool             // some params are masked
	Hides      bool             // some params are redacted and the user may not reveal them
	Unreadable bool             // the params cannot be decrypted, so nobody can review them
	Partial    bool             // the params are omitted; the script loads the whole card before a decision
	Decides    bool             // the user may decide
	Who        string           // who decided
	Settled    decider          // who or what settled it
	Left       int              // seconds
	Hold       int              // length of the whole hold in seconds
	Waiting    waiting          // state of the caller while it is pending
	Accounts   []string         // accounts whose credentials a module's action would use
}

// waiting says whether a caller would learn of a decision.
type waiting struct {
	State string `json:"state"` // waits, told or gone; empty if unknown
	Text  string `json:"text"`
}

// waiting returns the state of a caller. Callers are recorded at an interval,
// so one that missed three of them is gone.
func (p *pages) waiting(w action.CallerState) waiting {
	switch {
	case p.Now().Sub(w.SeenAt) < 3*p.SeenEvery:
		return waiting{"waits", "The agent is waiting for a decision."}
	case w.Answered:
		return waiting{"told", "The agent was notified that the call is pending and may check again later."}
	}
	return waiting{"gone", "The agent is no longer waiting. If you approve the call, it runs but the agent may not see the result."}
}

// cards returns the cards of a page of calls. It loads related rows for all of
// them at once.
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

// card completes a card with its params and times.
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
	minParamsMarkup    = 1 << 10  // markup bytes that every card may have
	sharedParamsMarkup = 12 << 10 // further markup bytes for all cards of a page
)

// omitHeavyParams omits the params of cards that would make a page heavy. The script
// loads such a card when it comes near the viewport.
func omitHeavyParams(cards []card) {
	room := sharedParamsMarkup
	for i := range cards {
		c := &cards[i]
		size := markupSize(c.Text)
		switch {
		case size <= minParamsMarkup:
		case size <= room:
			room -= size
		default:
			c.Text, c.Partial = nil, true
		}
	}
}

// markupSize estimates the size of the markup of text.
func markupSize(text []render.Segment) (n int) {
	for _, s := range text {
		n += len(s.Text) + 8
		if s.Class != "" {
			n += 24 + len(s.Title)
		}
	}
	return n
}

// sendJSON writes a JSON response for a page's script.
func sendJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(v)
}

// envCard is a request for environment variables.
type envCard struct {
	action.EnvRequest
	callerSession
	By      string // name of the user who decided
	Decides bool
	Alone   bool // on its own page
}

// envCards returns the pending requests, up to the limit of the inbox.
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

// requestCard is a grant request in the inbox.
type requestCard struct {
	api.RequestView
	callerSession
	Pins  []render.Pin
	Spans []span // not longer than requested
}

// requestList is the pending requests, up to the limit of the inbox.
type requestList struct {
	Cards   []requestCard
	Env     []envCard // for environment variables
	Total   int
	Decides bool
}

// inboxRequests renders only the requests, for the script.
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

// span is a duration that a form offers.
type span struct{ Value, Text string }

// spansWithin returns the spans that end no later than until. Nil is never.
func spansWithin(now time.Time, until *time.Time) []span {
	all := []span{{"1h", "an hour"}, {"8h", "8 hours"}, {"24h", "a day"}, {"168h", "a week"}}
	return slices.DeleteFunc(all, func(s span) bool {
		d, err := time.ParseDuration(s.Value)
		return err != nil || until != nil && now.Add(d).After(*until)
	})
}

// pinsOf lists the pins of a grant by pointer.
func pinsOf(t *action.Terms) []render.Pin {
	out := make([]render.Pin, 0, len(t.Pins))
	for pointer, value := range t.Pins {
		out = append(out, render.Pin{Pointer: pointer, Value: render.Escape(string(value))})
	}
	slices.SortFunc(out, func(a, b render.Pin) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out
}
