package page

import (
	"net/http"
	"net/url"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
)

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
		p.Log.ErrorContext(r.Context(), "the sign-in page failed", "error", err)
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
