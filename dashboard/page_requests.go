package dashboard

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// requestCard is an agent's wish for a grant as the inbox shows it.
type requestCard struct {
	api.RequestView
	Asking     action.Session
	Automation string // the name of the session's
	Pins       []pin
	Spans      []span // that are not longer than was asked
}

// requestList is what waits, as far as the inbox shows it.
type requestList struct {
	Cards   []requestCard
	Env     []envCard // of those who want environment variables
	Total   int
	Decides bool
}

// inboxRequests is the requests alone, for the script to put in their place.
func (p *pages) inboxRequests(w http.ResponseWriter, r *http.Request, me *Principal) error {
	list, err := p.requests(r.Context(), me)
	if err != nil {
		return err
	}
	return p.render(w, "inbox", "requests", list)
}

func (p *pages) requests(ctx context.Context, me *Principal) (requestList, error) {
	list := requestList{Decides: me.Role.Decides()}
	page, err := p.Policy.ListGrantRequests(ctx, action.RequestFilter{
		Organization: me.Organization, Status: action.RequestPending, Limit: inboxSize,
	})
	if err != nil {
		return list, err
	}
	all, err := p.Sources.ListConnectors(ctx, me.Organization)
	if err != nil {
		return list, err
	}
	if list.Env, err = p.envCards(ctx, me); err != nil {
		return list, err
	}
	if list.Total = page.Total; len(page.Items) == 0 {
		return list, nil
	}
	ids := make([]string, len(page.Items))
	for i, r := range page.Items {
		ids[i] = r.Session
	}
	sessions, err := p.Calls.SessionsOf(ctx, me.Organization, ids)
	if err != nil {
		return list, err
	}
	automations, err := p.Inbound.AutomationNames(ctx, me.Organization)
	if err != nil {
		return list, err
	}
	for _, r := range page.Items {
		c := requestCard{RequestView: api.RequestView{GrantRequest: r, Name: sourceName(r.Terms.Source, all)}, Pins: pinsOf(&r.Terms), Spans: spansWithin(p.now(), r.Terms.ExpiresAt)}
		if c.Asking = sessions[r.Session]; c.Asking.ID == "" {
			c.Asking = action.Session{ID: r.Session}
		}
		c.Automation = or(automations[c.Asking.Automation], c.Asking.Automation)
		list.Cards = append(list.Cards, c)
	}
	return list, nil
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
func pinsOf(t *action.Terms) []pin {
	out := make([]pin, 0, len(t.Pins))
	for pointer, value := range t.Pins {
		out = append(out, pin{Pointer: pointer, Value: visible(string(value))})
	}
	slices.SortFunc(out, func(a, b pin) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out
}
