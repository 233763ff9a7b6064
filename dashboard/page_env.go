package dashboard

import (
	"cmp"
	"sallyport/action"
)

// envCard is an agent's request for environment variables as a person sees it.
type envCard struct {
	action.EnvRequest
	asker
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
	asking, cards := p.askers(ids), make([]envCard, len(list))
	for i, r := range list {
		cards[i] = envCard{EnvRequest: r, asker: asking(r.Session), Decides: p.decides()}
	}
	return cards
}

func (p *pageRequest) envPage() error {
	request := load2(p, p.Sessions.EnvRequest, p.org, p.r.PathValue("id"))
	c := p.envCardsOf([]action.EnvRequest{request})[0]
	c.Alone, c.By = true, cmp.Or(p.loadNames()[request.DecidedBy], request.DecidedBy)
	return p.show("env", "inbox", "Environment variables", c)
}
