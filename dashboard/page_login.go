package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/action"
)

// ways is what the sign-in page says: how to sign in, and why one must.
type ways struct {
	OIDC   string // what the OpenID provider is called; empty: there is none
	Begin  string // where signing in there begins
	Host   bool   // a host application leads its users here
	Ended  string // why the last sign-in is over
	Failed string // why this one was
}

func (p *pages) ways(next, failed string) ways {
	w := ways{Failed: failed, Host: p.hostTokens != nil}
	if p.oidc != nil {
		w.OIDC, w.Begin = p.oidc.Name, "/login/oidc"
		if next = within(next); next != "" {
			w.Begin += "?next=" + url.QueryEscape(next)
		}
	}
	return w
}

func (p *pages) login(w http.ResponseWriter, r *http.Request) {
	if p.elsewhere(w, r) {
		return
	}
	data := p.ways(r.URL.Query().Get("next"), "")
	data.Ended = p.ended(r)
	if err := p.render(w, "login", "layout", view{Page: "login", Title: "Sign in", Data: data}); err != nil {
		p.failed(w, r, nil, err)
	}
}

// elsewhere leads those who use another name of this machine to the one that
// sign-ins are for: a cookie is for one name, and localhost has several. The
// fragment follows a redirect.
func (p *pages) elsewhere(w http.ResponseWriter, r *http.Request) bool {
	if !action.Loopback(p.public.Hostname()) || strings.EqualFold(r.Host, p.public.Host) {
		return false
	}
	http.Redirect(w, r, p.PublicURL+r.URL.RequestURI(), http.StatusSeeOther)
	return true
}

// ended says why the login of the browser's cookie is good no more; empty when
// there is none, or it is good.
func (p *pages) ended(r *http.Request) string {
	c, err := r.Cookie(p.cookieName())
	if err != nil || c.Value == "" {
		return ""
	}
	if _, err := p.identifyLogin(r); err == nil {
		return ""
	}
	why, err := p.People.LoginEnd(r.Context(), hashSecret(c.Value))
	if err != nil {
		p.log.WarnContext(r.Context(), "looking why a login ended", "error", err)
	}
	return map[action.LoginEnd]string{
		action.EndIdle:       "You were signed out after " + lasting(p.LoginIdle) + " of inactivity.",
		action.EndExpired:    "Your session expired after " + lasting(p.LoginLife) + ".",
		action.EndEverywhere: "You signed out, here or from another browser.",
		action.EndAdmin:      "An owner or admin signed you out.",
		action.EndRole:       "You no longer have a role in this organization.",
		action.EndRemoved:    "An owner or admin removed you from this organization.",
		"":                   "You were signed out.",
	}[why]
}

// lasting says how long something does.
func lasting(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d >= day && d%day == 0:
		return count(int(d/day), "day")
	case d >= time.Hour && d%time.Hour == 0:
		return count(int(d/time.Hour), "hour")
	}
	return d.String()
}
