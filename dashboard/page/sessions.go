package page

import (
	"cmp"
	"slices"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/ingest/event"
	agents "sallyport/internal/agent"
)

// sessionLine is a session with its activity.
type sessionLine struct {
	action.Session
	action.SessionState
	Over bool
	Of   event.SessionOrigin // the run that it was created for; may be empty
}

func (p *pageRequest) sessionsPage() error {
	f := p.readFilters("state")
	state := cmp.Or(f.Get("state"), "live")
	states := []string{"live", "running", "paused", "ended", "failed", "all"}
	if !slices.Contains(states, state) {
		return dashboard.Invalid("/state", "state must be live, running, paused, ended, failed or all.")
	}
	f.values.Set("state", state)
	sessions := load2(p, p.ListSessions, p.me, &api.ListSessionsInput{State: state, Paging: api.Paging{Limit: 50, Cursor: f.Get("cursor")}})
	ids := make([]string, len(sessions.Items))
	for i, s := range sessions.Items {
		ids[i] = s.ID
	}
	activity, runs := load2(p, p.Sessions.SessionStates, p.org, ids), load2(p, p.Inbound.OriginsOfSessions, p.org, ids)
	lines := make([]sessionLine, len(ids))
	for i, s := range sessions.Items {
		lines[i] = sessionLine{Session: s, SessionState: activity[s.ID], Over: s.Live(p.Now()) != nil, Of: runs[s.ID]}
	}
	configs, err := clientConfigs(p.MCPURL)
	if err != nil {
		return err
	}
	var automations []event.Automation
	if p.decides() { // only owners and admins can set one
		automations = p.loadAutomations()
	}
	return p.show("sessions", "sessions", "Sessions", struct {
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
		Mine         string // ID of the user, as the creator of sessions
	}{
		sessions, lines, state, states, f.Older(sessions.Next), f.Get("cursor") == "",
		load(p, p.Integrations, p.me), automations, p.loadNames(), p.decides(), configs, p.me.By(),
	})
}

// clientConfig is the configuration of an MCP client.
type clientConfig struct{ Name, File, Text string }

// clientConfigs returns the configurations of all clients, OpenCode's first.
func clientConfigs(mcpURL string) ([]clientConfig, error) {
	var all []clientConfig
	for _, c := range agents.Clients() {
		config, err := agents.ClientConfig(c, agents.Setup{MCPURL: mcpURL, Permissions: agents.AllowGateway})
		if err != nil {
			return nil, err
		}
		text, err := config.Text()
		if err != nil {
			return nil, err
		}
		all = append(all, clientConfig{c.Name(), config.Place(), text})
	}
	return all, nil
}
