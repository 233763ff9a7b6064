package main

import (
	"context"
	"io"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
)

// whose is what is told of calls besides their rows: whose session each is of,
// and which account it is for.
type whose struct {
	sessions     map[string]*api.SessionView
	people       []action.User
	integrations []api.IntegrationView
	automations  labels
}

// whose asks for it. What cannot be read is told by its id: the calls alone
// were asked for.
func (c *client) whose(ctx context.Context, calls ...*action.Invocation) *whose {
	w := &whose{sessions: make(map[string]*api.SessionView)}
	bound, unattended := false, false
	for _, i := range calls {
		if _, asked := w.sessions[i.Session]; i.Session != "" && !asked {
			s, _, _ := fetch(ctx, c, api.GetSession, api.ByID{ID: i.Session})
			w.sessions[i.Session] = s
			unattended = unattended || strings.HasPrefix(s.CreatedBy, ofAutomation)
		}
		bound = bound || i.Integration != ""
	}
	if len(w.sessions) > 0 {
		people, _, _ := fetch(ctx, c, api.ListUsers, api.None{})
		w.people = people.Items
	}
	if bound {
		all, _, _ := fetch(ctx, c, api.ListIntegrations, api.None{})
		w.integrations = all.Items
	}
	if unattended {
		w.automations = c.labels(ctx, api.ListAutomations.Operation)
	}
	return w
}

// show tells what the call would do, in the words of its module, for which
// integration and in whose session. A connector's has no words but its params.
func (w *whose) show(out io.Writer, i *action.Invocation) {
	if i.Summary != "" && !strings.HasPrefix(i.Source, "connector:") {
		said("    " + i.Summary)(out)
	}
	if i.Integration != "" {
		said("    for " + w.account(i.Integration))(out)
	}
	if s := w.sessions[i.Session]; s != nil && s.CreatedBy != "" {
		title := ""
		if s.Title != "" {
			title = " " + s.Title
		}
		said("    in the session" + title + " of " + w.person(s.CreatedBy))(out)
	}
}

// account is an integration as people know it. One that is private to somebody
// else is not theirs to know.
func (w *whose) account(id string) string {
	i := slices.IndexFunc(w.integrations, func(in api.IntegrationView) bool { return in.ID == id })
	if i < 0 {
		return "integration " + id
	}
	return integrationName(&w.integrations[i]) + ", account " + accountName(&w.integrations[i])
}

// ofAutomation begins the maker of a session that a run was given.
const ofAutomation = "automation:"

func (w *whose) person(id string) string {
	if strings.HasPrefix(id, ofAutomation) {
		return w.automations.of(id)
	}
	if i := slices.IndexFunc(w.people, func(u action.User) bool { return u.ID == id }); i >= 0 {
		return w.people[i].Name + " (user " + id + ")"
	}
	return "user " + id
}
