package dashboard

import (
	"net/http"
	"net/url"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
	agents "sallyport/internal/agent"
)

// sessionLine is a session with what goes on in it.
type sessionLine struct {
	action.Session
	action.SessionState
	Over bool
	Of   event.Origin // the run that it was made for; empty: none
}

func (p *pages) sessionsPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	q := r.URL.Query()
	state, cursor := q.Get("state"), q.Get("cursor")
	switch {
	case !slices.Contains(append([]string{""}, sessionStates()...), state):
		return invalid("/state", "A session is live, running, paused, ended or failed; leave state out for those that are live.")
	case state == "":
		state = "live"
	}
	sessions, err := p.listSessions(r.Context(), me, state, api.Paging{Limit: 50, Cursor: cursor})
	if err != nil {
		return err
	}
	lines, err := p.sessionLines(r, me, sessions.Items)
	if err != nil {
		return err
	}
	integrations, err := p.integrations(r.Context(), me)
	if err != nil {
		return err
	}
	var automations []event.Automation
	if me.Role.Decides() { // nobody else may name one
		if automations, err = p.Inbound.ListAutomations(r.Context(), me.Organization); err != nil {
			return err
		}
	}
	names, err := p.names(r.Context(), me.Organization)
	if err != nil {
		return err
	}
	configs, err := clientConfigs(p.MCPURL)
	if err != nil {
		return err
	}
	older := ""
	if sessions.Next != "" {
		older = "/sessions?" + url.Values{"state": {state}, "cursor": {sessions.Next}}.Encode()
	}
	return p.render(w, "sessions", "layout", view{Page: "sessions", Title: "Sessions", Me: me, Data: struct {
		Sessions     action.Page[action.Session]
		Lines        []sessionLine
		State        string
		States       []string
		Older        string
		First        bool
		Integrations []api.IntegrationView
		Automations  []event.Automation
		Names        map[string]string
		Decides      bool
		Configs      []clientConfig
		Mine         string // in whose name the person makes sessions
	}{sessions, lines, state, sessionStates(), older, cursor == "", integrations, automations, names, me.Role.Decides(), configs, me.By()}})
}

// clientConfig is what one client's configuration must say.
type clientConfig struct{ Name, File, Text string }

// clientConfigs are those of all clients, OpenCode's first.
func clientConfigs(mcpURL string) ([]clientConfig, error) {
	var all []clientConfig
	for _, c := range agents.Clients() {
		config, err := agents.ClientConfig(c, agents.Setup{MCPURL: mcpURL, Permissions: agents.AskOwn})
		if err != nil {
			return nil, err
		}
		text, err := config.JSON()
		if err != nil {
			return nil, err
		}
		all = append(all, clientConfig{c.Name(), config.File, text})
	}
	return all, nil
}

// sessionStates are what the page can show alone.
func sessionStates() []string { return []string{"live", "running", "paused", "ended", "failed", "all"} }

func (p *pages) sessionLines(r *http.Request, me *Principal, list []action.Session) ([]sessionLine, error) {
	ids := make([]string, len(list))
	for i, s := range list {
		ids[i] = s.ID
	}
	states, err := p.Sessions.SessionStates(r.Context(), me.Organization, ids)
	if err != nil {
		return nil, err
	}
	runs, err := p.Inbound.OriginsOfSessions(r.Context(), me.Organization, ids)
	lines := make([]sessionLine, len(list))
	for i, s := range list {
		lines[i] = sessionLine{Session: s, SessionState: states[s.ID], Over: s.Live(p.now()) != nil, Of: runs[s.ID]}
	}
	return lines, err
}
