package dashboard

import (
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
)

// requestCard is an agent's wish for a grant as the inbox shows it.
type requestCard struct {
	api.RequestView
	asker
	Pins  []pin
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
	asking, all := p.askers(ids), p.loadConnectors()
	for _, r := range page.Items {
		view := api.RequestView{GrantRequest: r, Name: sourceName(r.Terms.Source, all)}
		list.Cards = append(list.Cards, requestCard{view, asking(r.Session), pinsOf(&r.Terms), spansWithin(p.now(), r.Terms.ExpiresAt)})
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
func pinsOf(t *action.Terms) []pin {
	out := make([]pin, 0, len(t.Pins))
	for pointer, value := range t.Pins {
		out = append(out, pin{Pointer: pointer, Value: visible(string(value))})
	}
	slices.SortFunc(out, func(a, b pin) int { return strings.Compare(a.Pointer, b.Pointer) })
	return out
}
