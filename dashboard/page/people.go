package page

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
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
	users := p.loadUsers()
	lines := make([]personLine, len(users))
	for i, u := range users {
		changes := p.decides() && p.me.Outranks(u.Role) == nil
		lines[i] = personLine{User: u, Me: u.ID == p.me.User, Via: cmp.Or(u.Issuer, "one-time links"), Changes: changes, Links: changes && u.Issuer == ""}
		if p.OIDC != nil && u.Issuer == p.OIDC.Issuer {
			lines[i].Via = p.OIDCName()
		}
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
		lines, slices.DeleteFunc(load(p, p.People.ListAPIKeys, p.org), func(k action.APIKey) bool { return k.RevokedAt != nil }),
		load(p, p.Logins, p.me), removed, p.loadNames(), p.decides(), p.me.Role == action.RoleOwner, durationText(p.LoginIdle), durationText(p.LoginLife),
	})
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

// signInOptions is the data of the sign-in page.
type signInOptions struct {
	OIDC   string // name of the OpenID provider; empty if there is none
	Begin  string // URL of that sign-in
	Host   bool   // a host application signs its users in
	Ended  string // why the last login ended
	Failed string // why this sign-in failed
}

func (p *pages) signInOptions(next, failed string) signInOptions {
	w := signInOptions{Failed: failed, Host: p.UserJWT != nil}
	if w.OIDC = p.OIDCName(); w.OIDC != "" {
		w.Begin = "/login/oidc"
		if next = dashboard.LocalPath(next); next != "" {
			w.Begin += "?next=" + url.QueryEscape(next)
		}
	}
	return w
}

func (p *pages) login(w http.ResponseWriter, r *http.Request) {
	if to := p.CanonicalURL(r); to != "" {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	data := p.signInOptions(r.URL.Query().Get("next"), "")
	data.Ended = p.signOutReason(r)
	if err := p.render(w, "login", "layout", layoutData{Page: "login", Title: "Sign in", Data: data}); err != nil {
		p.showError(w, r, nil, err)
	}
}

// beginOIDC redirects to the OpenID provider.
func (p *pages) beginOIDC(w http.ResponseWriter, r *http.Request) {
	to, err := p.Server.BeginOIDC(w, r)
	p.redirectSignIn(w, r, to, err)
}

// endOIDC handles the redirect from the OpenID provider.
func (p *pages) endOIDC(w http.ResponseWriter, r *http.Request) {
	to, err := p.Server.EndOIDC(w, r)
	p.redirectSignIn(w, r, to, err)
}

// redirectSignIn continues a sign-in with the OpenID provider, or shows the
// sign-in page with an error.
func (p *pages) redirectSignIn(w http.ResponseWriter, r *http.Request, to string, err error) {
	if err == nil {
		http.Redirect(w, r, to, http.StatusSeeOther)
		return
	}
	problem := p.Problem(r.Context(), err)
	w.WriteHeader(problem.Status)
	if err := p.render(w, "login", "layout", layoutData{Page: "login", Title: "Sign in", Data: p.signInOptions("", problem.Detail)}); err != nil {
		p.Log.ErrorContext(r.Context(), "could not render the sign-in page", "error", err)
	}
}

// signOutReason returns why the login of the browser's cookie ended. It is
// empty without a cookie, and for a valid login.
func (p *pages) signOutReason(r *http.Request) string {
	why, ended := p.LoginEnd(r)
	if !ended {
		return ""
	}
	return map[action.LoginEnd]string{
		action.EndIdle:       "You were signed out after " + durationText(p.LoginIdle) + " of inactivity.",
		action.EndExpired:    "Your session expired after " + durationText(p.LoginLife) + ".",
		action.EndEverywhere: "You signed out, here or from another browser.",
		action.EndAdmin:      "An owner or admin signed you out.",
		action.EndRole:       "You no longer have a role in this organization.",
		action.EndRemoved:    "An owner or admin removed you from this organization.",
		"":                   "You were signed out.",
	}[why]
}

// durationText formats a duration.
func durationText(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d >= day && d%day == 0:
		return render.Count(int(d/day), "day")
	case d >= time.Hour && d%time.Hour == 0:
		return render.Count(int(d/time.Hour), "hour")
	}
	return d.String()
}
