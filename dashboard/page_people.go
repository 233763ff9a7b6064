package dashboard

import (
	"net/http"
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

func (p *pages) peoplePage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	users, err := p.People.ListUsers(ctx, me.Organization)
	if err != nil {
		return err
	}
	keys, err := p.People.ListAPIKeys(ctx, me.Organization)
	if err != nil {
		return err
	}
	own, err := p.logins(ctx, me)
	if err != nil {
		return err
	}
	var removed []action.RemovedUser
	if me.Role.Decides() {
		if removed, err = p.People.RemovedUsers(ctx, me.Organization); err != nil {
			return err
		}
	}
	names := map[string]string{}
	for _, u := range users {
		names[u.ID] = u.Name
	}
	return p.render(w, "people", "layout", view{Page: "people", Title: "People", Me: me, Data: struct {
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
		p.personLines(me, users), slices.DeleteFunc(keys, func(k action.APIKey) bool { return k.RevokedAt != nil }), own, removed, names,
		me.Role.Decides(), me.Role == action.RoleOwner, lasting(p.LoginIdle), lasting(p.LoginLife),
	}})
}

func (p *pages) personLines(me *Principal, users []action.User) []personLine {
	lines := make([]personLine, len(users))
	for i, u := range users {
		changes := me.Role.Decides() && me.outranks(u.Role) == nil
		lines[i] = personLine{User: u, Me: u.ID == me.User, Via: p.signsIn(&u), Changes: changes, Links: changes && u.Issuer == ""}
	}
	return lines
}

// signsIn says how somebody does.
func (p *pages) signsIn(u *action.User) string {
	switch {
	case u.Issuer == "":
		return "one-time links"
	case p.oidc != nil && u.Issuer == p.oidc.Issuer:
		return p.oidc.Name
	}
	return u.Issuer
}
