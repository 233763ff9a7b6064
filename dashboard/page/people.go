package page

import (
	"slices"

	"sallyport/action"
	"sallyport/api"
)

// personLine is a user with the actions that the viewer may take.
type personLine struct {
	action.User
	Me      bool
	Via     string // how the user signs in
	Changes bool   // the viewer may remove the user and sign them out
	Links   bool   // the viewer may also create a sign-in link and change the role
}

func (p *pageRequest) peoplePage() error {
	var removed []action.RemovedUser
	if p.decides() {
		removed = load(p, p.People.RemovedUsers, p.org)
	}
	return p.show("people", "people", "People", struct {
		People  []personLine
		Keys    []action.APIKey
		Logins  []api.LoginView
		Removed []action.RemovedUser
		Names   map[string]string
		Decides bool
		Owns    bool
		Idle    string
		Life    string
	}{
		p.personLines(), slices.DeleteFunc(load(p, p.People.ListAPIKeys, p.org), func(k action.APIKey) bool { return k.RevokedAt != nil }),
		load(p, p.Logins, p.me), removed, p.loadNames(), p.decides(), p.me.Role == action.RoleOwner, durationText(p.LoginIdle), durationText(p.LoginLife),
	})
}

func (p *pageRequest) personLines() []personLine {
	users := p.loadUsers()
	lines := make([]personLine, len(users))
	for i, u := range users {
		changes := p.decides() && p.me.Outranks(u.Role) == nil
		lines[i] = personLine{User: u, Me: u.ID == p.me.User, Via: p.signInText(&u), Changes: changes, Links: changes && u.Issuer == ""}
	}
	return lines
}

// signInText explains how a user signs in.
func (p *pages) signInText(u *action.User) string {
	switch {
	case u.Issuer == "":
		return "one-time links"
	case p.OIDC != nil && u.Issuer == p.OIDC.Issuer:
		return p.OIDCName()
	}
	return u.Issuer
}

// settingsData is the data of the settings page.
type settingsData struct {
	Decides bool
	Webhook *api.NotifyView // nil if it is not configured
	Slack   *api.NotifyView
	Told    []api.NotificationView
	Slacks  []action.Integration // integrations that can post to Slack
	Names   map[string]string
	Public  string
	MCP     string
	Version string
}

func (p *pageRequest) settingsPage() error {
	d := settingsData{Decides: p.decides(), Names: p.loadNames(), Public: p.PublicURL, MCP: p.MCPURL, Version: p.Version}
	channels := load(p, p.NotifyViews, p.org)
	for i, c := range channels {
		if c.Kind == action.NotifyWebhook {
			d.Webhook = &channels[i]
		} else {
			d.Slack = &channels[i]
		}
	}
	if d.Decides {
		d.Told = load2(p, p.Notifications, p.org, 20)
		for _, in := range load2(p, p.Sources.ListIntegrations, p.org, p.me.Viewer()) {
			if in.Provider == "slack" && in.User == "" && in.Visibility == action.VisibleOrganization {
				d.Slacks = append(d.Slacks, in)
			}
		}
	}
	return p.show("settings", "settings", "Settings", d)
}

// notificationScope explains which held calls a channel notifies of.
func notificationScope(w action.NotifyWants) string {
	switch w {
	case action.WantsDanger:
		return "Dangerous calls only"
	case action.WantsUnattended:
		return "Calls of unattended sessions only"
	case action.WantsAll:
	}
	return "All pending approvals"
}

// notificationStatus returns the state of a notification.
func notificationStatus(n api.NotificationView) string {
	switch {
	case n.Status == action.NotifyPending && n.Failures > 0:
		return "retrying"
	case n.Status == action.NotifyPending:
		return "queued"
	case n.Status == action.NotifyVoid && n.Event == action.NotifyHeld:
		return "skipped: the call ended or the channel was disabled"
	case n.Status == action.NotifyVoid:
		return "failed"
	}
	return "sent"
}
