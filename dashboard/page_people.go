package dashboard

import (
	"slices"

	"sallyport/action"
	"sallyport/api"
)

// personLine is a person of the organization, with what the viewer may do.
type personLine struct {
	action.User
	Me      bool
	Via     string // how the person signs in
	Changes bool   // the viewer may remove the person, and sign them out
	Links   bool   // and make a link for them, or give another role
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
		load(p, p.logins, p.me), removed, p.loadNames(), p.decides(), p.me.Role == action.RoleOwner, lasting(p.LoginIdle), lasting(p.LoginLife),
	})
}

func (p *pageRequest) personLines() []personLine {
	users := p.loadUsers()
	lines := make([]personLine, len(users))
	for i, u := range users {
		changes := p.decides() && p.me.outranks(u.Role) == nil
		lines[i] = personLine{User: u, Me: u.ID == p.me.User, Via: p.signsIn(&u), Changes: changes, Links: changes && u.Issuer == ""}
	}
	return lines
}

// signsIn says how somebody does.
func (p *pages) signsIn(u *action.User) string {
	switch {
	case u.Issuer == "":
		return "one-time links"
	case p.OIDC != nil && u.Issuer == p.OIDC.Issuer:
		return p.oidcName()
	}
	return u.Issuer
}
