package page

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
	"sallyport/internal/gitpush"
)

// inboxSize is the number of cards per page. The script loads as many again, or
// twice as many when it refreshes.
const inboxSize = 25

// inboxPage is a page of pending approvals, newest first.
type inboxPage struct {
	Kind   inboxKind // the only one that the page shows; empty: all
	Cards  []card
	Next   string // cursor of the next page; empty if there is none
	Cursor string // of this page; empty for the first
}

// inboxKind is a kind of item in the inbox: a field of [action.InboxCounts].
type inboxKind string

// inboxKinds lists the kinds with their labels, in order.
var inboxKinds = []struct {
	Kind  inboxKind
	Label string
}{{"calls", "Calls"}, {"grants", "Grant requests"}, {"variables", "Variables"}, {"runs", "Runs"}}

// shows reports whether a page of kind k shows another kind.
func (k inboxKind) shows(other inboxKind) bool { return k == "" || k == other }

// inboxKind returns the kind that the request filters by.
func (p *pageRequest) inboxKind() inboxKind {
	kind := inboxKind(p.query("kind"))
	for _, k := range inboxKinds {
		if kind == k.Kind {
			return kind
		}
	}
	if kind != "" {
		p.setError(dashboard.Invalid("/kind", "kind must be calls, grants, variables or runs."))
	}
	return ""
}

func (p *pageRequest) inbox() error {
	return p.show("inbox", "inbox", "Inbox", struct {
		inboxPage
		Kinds    any
		Requests requestList
	}{p.inboxPage(inboxSize), inboxKinds, p.requests()})
}

// inboxMore renders the next page, for the script.
func (p *pageRequest) inboxMore() error {
	return p.showPart("inbox", "part", p.inboxPage(2*inboxSize))
}

func (p *pageRequest) inboxPage(size int) inboxPage {
	kind, cursor := p.inboxKind(), p.query("cursor")
	if !kind.shows("calls") {
		return inboxPage{Kind: kind}
	}
	page := load(p, p.Calls.ListInvocations, action.InvocationFilter{Organization: p.org, Statuses: []action.Status{action.StatusPending}, Limit: size, Cursor: cursor})
	cards := p.cards(page.Items)
	omitHeavyParams(cards)
	return inboxPage{Kind: kind, Cards: cards, Next: page.Next, Cursor: cursor}
}

// inboxCards renders cards by their IDs, in the requested order.
func (p *pageRequest) inboxCards() error {
	var list []action.Invocation
	for _, id := range p.requestedIDs() {
		if inv, err := p.Calls.Invocation(p.ctx(), p.org, id); err == nil { // otherwise it was deleted
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
		p.setError(dashboard.Invalid("/id", "Too many IDs. Request fewer calls at once."))
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

// inboxCount returns the number of pending items of each kind.
func (p *pageRequest) inboxCount() error {
	waiting, err := p.Calls.CountWaiting(p.ctx(), p.org)
	if err != nil {
		return err
	}
	return sendJSON(p.w, waiting)
}

// inboxWaiters returns the caller states of the visible cards.
func (p *pageRequest) inboxWaiters() error {
	states := map[string]waiting{}
	for id, waiter := range load2(p, p.Calls.Waiters, p.org, p.requestedIDs()) {
		states[id] = p.waiting(waiter)
	}
	if p.err != nil {
		return p.err
	}
	return sendJSON(p.w, states)
}

// card is an invocation in the inbox or on its own page.
type card struct {
	action.Invocation
	callerSession
	Why        string           // reason for the hold or denial, in one sentence
	Text       []render.Segment // the params
	Push       []string         // what a push contains, in lines; empty for other calls
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

// waiting is the state of the caller of a pending call.
type waiting struct {
	State string `json:"state"` // waits, told (it may check again) or gone; empty if unknown
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
	if push, ok := gitpush.Parse(inv.Source, inv.Action, inv.Params); ok {
		c.Push = strings.Split(push.Overview(), "\n")
	}
	c.Hides = inv.Status == action.StatusPending && !c.Decides && bytes.Contains(inv.Params, []byte("[redacted"))
	if inv.Status != action.StatusPending || !c.Decides {
		return c, nil
	}
	full, whole, err := p.Gate.Params(ctx, p.org, inv.ID)
	if ctx.Err() != nil {
		return c, ctx.Err()
	}
	if err != nil {
		p.Log.WarnContext(ctx, "could not decrypt the params of a pending call", "invocation", inv.ID, "error", err)
		c.Unreadable = true
		return c, nil
	}
	if whole {
		c.Full, c.Text = true, render.MaskedJSON(full, inv.Params, p.Vault.Hash)
		c.Masked = slices.ContainsFunc(c.Text, func(s render.Segment) bool { return s.Class == render.ClassMasked })
		c.Pins = render.Pinnable(full, inv.Params)
	}
	return c, nil
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
		size := 0 // of its markup, about
		for _, s := range c.Text {
			size += len(s.Text) + 8
			if s.Class != "" {
				size += 24 + len(s.Title)
			}
		}
		switch {
		case size <= minParamsMarkup:
		case size <= room:
			room -= size
		default:
			c.Text, c.Push, c.Partial = nil, nil, true
		}
	}
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

func (p *pageRequest) envCards(list []action.EnvRequest) []envCard {
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
	c := p.envCards([]action.EnvRequest{request})[0]
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

// requestList is the pending requests and the runs that need attention, each up to
// the limit of the inbox.
type requestList struct {
	Cards   []requestCard
	Env     []envCard // for environment variables
	Runs    []runCard
	More    bool // more runs need attention
	Total   int
	Decides bool
}

// runCard is a run that needs attention.
type runCard struct {
	api.RunView
	For     string // names of the people whom its automation names; empty: owners and admins
	Decides bool
}

// runCards returns the runs that need attention, and whether there are more.
func (p *pageRequest) runCards() (cards []runCard, more bool) {
	runs := load2(p, p.ListRuns, p.me, &api.RunQuery{Attention: true, Paging: api.Paging{Limit: inboxSize}})
	if len(runs.Items) == 0 {
		return nil, false
	}
	people, names := map[string]string{}, p.loadNames()
	for _, a := range p.loadAutomations() {
		var known []string
		for _, id := range a.Tell {
			if name := names[id]; name != "" {
				known = append(known, name)
			}
		}
		people[a.ID] = strings.Join(known, ", ")
	}
	for _, r := range runs.Items {
		cards = append(cards, runCard{r, people[r.Automation], p.decides()})
	}
	return cards, runs.NextCursor != ""
}

// Empty reports whether the list shows nothing.
func (l requestList) Empty() bool { return len(l.Cards)+len(l.Env)+len(l.Runs) == 0 }

// inboxRequests renders only the requests, for the script.
func (p *pageRequest) inboxRequests() error {
	return p.showPart("inbox", "requests", p.requests())
}

func (p *pageRequest) requests() requestList {
	kind, list := p.inboxKind(), requestList{Decides: p.decides()}
	if kind.shows("variables") {
		list.Env = p.envCards(load(p, p.Sessions.ListEnvRequests, action.EnvFilter{Organization: p.org, Status: action.EnvPending, Limit: inboxSize}).Items)
	}
	if kind.shows("runs") {
		list.Runs, list.More = p.runCards()
	}
	if !kind.shows("grants") {
		return list
	}
	page := load(p, p.Policy.ListGrantRequests, action.RequestFilter{Organization: p.org, Status: action.RequestPending, Limit: inboxSize})
	if list.Total = page.Total; list.Total == 0 {
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
