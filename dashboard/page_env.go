package dashboard

import (
	"context"
	"net/http"

	"sallyport/action"
)

// envCard is an agent's request for environment variables as a person sees it.
type envCard struct {
	action.EnvRequest
	Asking     action.Session
	Automation string // the name of the session's
	By         string // the name of who decided
	Decides    bool
	Alone      bool // on its own page
}

// envCards are those that wait, as far as the inbox shows them.
func (p *pages) envCards(ctx context.Context, me *Principal) ([]envCard, error) {
	page, err := p.Sessions.ListEnvRequests(ctx, action.EnvFilter{Organization: me.Organization, Status: action.EnvPending, Limit: inboxSize})
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	return p.envCardsOf(ctx, me, page.Items)
}

func (p *pages) envCardsOf(ctx context.Context, me *Principal, list []action.EnvRequest) ([]envCard, error) {
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.Session
	}
	sessions, err := p.Calls.SessionsOf(ctx, me.Organization, ids)
	if err != nil {
		return nil, err
	}
	automations, err := p.Inbound.AutomationNames(ctx, me.Organization)
	if err != nil {
		return nil, err
	}
	cards := make([]envCard, len(list))
	for i, r := range list {
		c := envCard{EnvRequest: r, Asking: sessions[r.Session], Decides: me.Role.Decides()}
		if c.Asking.ID == "" {
			c.Asking = action.Session{ID: r.Session}
		}
		c.Automation = or(automations[c.Asking.Automation], c.Asking.Automation)
		cards[i] = c
	}
	return cards, nil
}

func (p *pages) envPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	request, err := p.Sessions.EnvRequest(r.Context(), me.Organization, r.PathValue("id"))
	if err != nil {
		return err
	}
	cards, err := p.envCardsOf(r.Context(), me, []action.EnvRequest{request})
	if err != nil {
		return err
	}
	names, err := p.names(r.Context(), me.Organization)
	if err != nil {
		return err
	}
	cards[0].Alone, cards[0].By = true, or(names[request.DecidedBy], request.DecidedBy)
	return p.render(w, "env", "layout", view{Page: "inbox", Title: "Variables for an agent", Me: me, Data: cards[0]})
}
