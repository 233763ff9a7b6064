package store_test

import (
	"sync/atomic"
	"time"

	"sallyport/action"
)

const issuer = "https://id.example.com"

// elsewhere is somebody whom another house knows.
func (h *house) elsewhere(subject, name string, role action.Role) action.Identity {
	return action.Identity{Organization: h.org.ID, Issuer: issuer, Subject: subject, Name: name, Role: role, AssertedAt: h.now}
}

// persons are what history says of people, the last first.
func (h *house) persons() (said []string) {
	page := must(h.db.PolicyEvents(h.ctx, action.PolicyEventFilter{Organization: h.org.ID, Kind: action.EventPerson}))(h)
	for _, e := range page.Items {
		said = append(said, string(e.Before)+" to "+string(e.After)+" by "+e.By)
	}
	return said
}

// signsIn returns the hash of the cookie of a new login.
func (h *house) signsIn(u action.User) (action.Login, string) {
	h.Helper()
	login, cookie, err := h.redeem(h.link(u))
	h.ok(err)
	return login, cookie
}

var elsewhereStories = map[string]func(*house){
	"a user of an identity provider is created once and kept in sync": func(h *house) {
		h.user("Ada", action.RoleOwner)
		u := must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleMember)))(h)
		h.equal([]string{u.Name, string(u.Role), u.Issuer, u.Subject}, []string{"Bob", "member", issuer, "7"}, "who")
		h.equal(must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleMember)))(h), u, "the second time")
		more := must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Robert", action.RoleAdmin)))(h)
		h.equal([]string{more.ID, more.Name, string(more.Role)}, []string{u.ID, "Robert", "admin"}, "later")
		other := h.elsewhere("7", "Bob", action.RoleMember)
		other.Issuer = "https://other.example.com"
		if o := must(h.db.AdmitUser(h.ctx, other))(h); o.ID == u.ID {
			h.Error("the same subject at another issuer is somebody else")
		}
		is := func(name, role string) string {
			return `{"name":"` + name + `","role":"` + role + `","issuer":"` + issuer + `"}`
		}
		h.equal(h.persons()[1:3], []string{
			is("Bob", "admin") + " to " + is("Robert", "admin") + " by " + issuer,
			is("Bob", "member") + " to " + is("Bob", "admin") + " by " + issuer,
		}, "history")
		h.refused(h.db.SetUserRole(h.ctx, h.org.ID, u.ID, action.RoleOwner, "me"), action.ErrConflict, "role_from_elsewhere")
		away := h.elsewhere("7", "Bob", action.RoleMember)
		away.Organization = newID()
		_, err := h.db.AdmitUser(h.ctx, away)
		h.refused(err, action.ErrNotFound, "organization_not_found")
		_, err = h.db.AdmitUser(h.ctx, h.elsewhere("8", "Eve", "root"))
		h.refused(err, action.ErrInvalid, "invalid")
		if _, err = h.db.AdmitUser(h.ctx, h.elsewhere("", "Eve", action.RoleMember)); err == nil {
			h.Error("somebody without a subject came in")
		}
	},
	"an older assertion changes nothing": func(h *house) {
		h.user("Ada", action.RoleOwner)
		said := func(name string, role action.Role, ago time.Duration) string {
			in := h.elsewhere("7", name, role)
			in.AssertedAt = in.AssertedAt.Add(-ago)
			if ago < 0 {
				in.AssertedAt = time.Time{}
			}
			u := must(h.db.AdmitUser(h.ctx, in))(h)
			return u.Name + " " + string(u.Role)
		}
		h.equal(said("Bob", action.RoleMember, time.Hour), "Bob member", "at first")
		h.equal(said("Bob", action.RoleMember, time.Minute), "Bob member", "again")
		h.equal(said("Eve", action.RoleOwner, 2*time.Minute), "Bob member", "by an older token, that is newer than what made the row")
		h.equal(said("Eve", action.RoleOwner, -1), "Bob member", "by a token of unknown age")
		h.equal(said("Bob", action.RoleAdmin, time.Second), "Bob admin", "by a newer one")
		h.equal(said("Bob", action.RoleMember, time.Minute), "Bob admin", "by the one before")
		h.equal(said("Bob", action.RoleMember, time.Second), "Bob member", "by one of the same second")
		undated := h.elsewhere("9", "Cyd", action.RoleAdmin)
		undated.AssertedAt = time.Time{}
		must(h.db.AdmitUser(h.ctx, undated))(h)
		h.equal(must(h.db.AdmitUser(h.ctx, h.elsewhere("9", "Cyd", action.RoleMember)))(h).Role, action.RoleMember, "of whom nothing newer is known")
	},
	"nobody takes a name from another": func(h *house) {
		h.user("Ada", action.RoleOwner)
		for _, subject := range []string{"1", "2"} {
			for range 2 {
				must(h.db.AdmitUser(h.ctx, h.elsewhere(subject, "ada", action.RoleMember)))(h)
			}
		}
		must(h.db.AdmitUser(h.ctx, h.elsewhere("3", "Cyd", action.RoleMember)))(h)
		must(h.db.AdmitUser(h.ctx, h.elsewhere("3", "Ada", action.RoleMember)))(h)
		var names []string
		for _, u := range must(h.db.ListUsers(h.ctx, h.org.ID))(h) {
			names = append(names, u.Name)
		}
		h.equal(names[0], "Ada", "the first")
		seen := map[string]bool{}
		for _, n := range names {
			seen[n] = true
		}
		h.equal(seen, map[string]bool{"Ada": true, "ada (2)": true, "ada (3)": true, "Ada (4)": true}, "names")
	},
	"32 sign-ins at once make one person": func(h *house) {
		h.user("Ada", action.RoleOwner)
		var failed atomic.Int64
		together(32, func(i int) {
			if _, err := h.any(i).AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleMember)); err != nil {
				failed.Add(1)
			}
		})
		h.equal(failed.Load(), int64(0), "failed")
		h.equal(len(must(h.db.ListUsers(h.ctx, h.org.ID))(h)), 2, "people")
	},
	"an identity provider cannot demote the last owner": func(h *house) {
		u := must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleOwner)))(h)
		_, cookie := h.signsIn(u)
		_, err := h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleMember))
		h.refused(err, action.ErrConflict, "last_owner")
		h.equal(must(h.db.User(h.ctx, h.org.ID, u.ID))(h).Role, action.RoleOwner, "role")
		h.equal(must(h.db.LoginEnd(h.ctx, cookie))(h), action.EndRole, "why the login ended")
		h.user("Ada", action.RoleOwner)
		h.equal(must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleMember)))(h).Role, action.RoleMember, "role beside another owner")
	},
	"a user without a role has no credentials": func(h *house) {
		h.user("Ada", action.RoleOwner)
		u := must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleAdmin)))(h)
		_, cookie := h.signsIn(u)
		unused := h.link(u)
		k := action.APIKey{ID: newID(), Organization: h.org.ID, Name: "ci", User: u.ID, Role: action.RoleAdmin, CreatedAt: h.now}
		h.ok(h.db.CreateAPIKey(h.ctx, k, hash("key")))
		h.equal(must(h.db.CutOffUser(h.ctx, h.org.ID, issuer, "7"))(h), u.ID, "who")
		_, _, err := h.db.Login(h.ctx, cookie)
		h.refused(err, action.ErrNotFound, "login_not_found")
		_, _, err = h.redeem(unused)
		h.refused(err, action.ErrUnauthenticated, "login_link_over")
		got, _, err := h.db.APIKey(h.ctx, k.ID)
		h.ok(err)
		if got.RevokedAt == nil {
			h.Error("the key is good")
		}
		told := len(h.persons())
		h.equal(must(h.db.CutOffUser(h.ctx, h.org.ID, issuer, "7"))(h), "", "who, again")
		h.equal(must(h.db.CutOffUser(h.ctx, h.org.ID, issuer, "8"))(h), "", "who was never here")
		h.equal(len(h.persons()), told, "history of nothing")
		h.equal(must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleAdmin)))(h).ID, u.ID, "with a role again")
	},
	"a removed user stays removed until readmitted": func(h *house) {
		h.user("Ada", action.RoleOwner)
		u := must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleAdmin)))(h)
		_, cookie := h.signsIn(u)
		h.ok(h.db.DeleteUser(h.ctx, h.org.ID, u.ID, "me"))
		h.equal(must(h.db.LoginEnd(h.ctx, cookie))(h), action.EndRemoved, "why the login ended")
		_, err := h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleAdmin))
		h.refused(err, action.ErrForbidden, "person_removed")
		list := must(h.db.RemovedUsers(h.ctx, h.org.ID))(h)
		if len(list) != 1 || list[0].ID != u.ID || list[0].Name != "Bob" || list[0].Role != action.RoleAdmin || list[0].RemovedBy != "me" || list[0].RemovedAt.IsZero() {
			h.Fatalf("removed: %+v", list)
		}
		other := newHouse(h.T, h.db)
		h.refused(h.db.ReadmitUser(h.ctx, other.org.ID, u.ID, action.RoleOwner, "me"), action.ErrNotFound, "user_not_found")
		must(h.db.AdmitUser(h.ctx, other.elsewhere("7", "Bob", action.RoleMember)))(h)
		h.ok(h.db.ReadmitUser(h.ctx, h.org.ID, u.ID, action.RoleAdmin, "me"))
		h.refused(h.db.ReadmitUser(h.ctx, h.org.ID, u.ID, action.RoleAdmin, "me"), action.ErrNotFound, "user_not_found")
		if again := must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleMember)))(h); again.ID == u.ID {
			h.Error("who comes back is somebody new: what the old id did stays his")
		}
	},
	"only an owner readmits a former owner": func(h *house) {
		h.user("Ada", action.RoleOwner)
		u := must(h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleOwner)))(h)
		h.ok(h.db.DeleteUser(h.ctx, h.org.ID, u.ID, "me"))
		h.refused(h.db.ReadmitUser(h.ctx, h.org.ID, u.ID, action.RoleAdmin, "me"), action.ErrForbidden, "owner_required")
		_, err := h.db.AdmitUser(h.ctx, h.elsewhere("7", "Bob", action.RoleOwner))
		h.refused(err, action.ErrForbidden, "person_removed")
		h.ok(h.db.ReadmitUser(h.ctx, h.org.ID, u.ID, action.RoleOwner, "me"))
	},
	"logins are listed, and end one by one or all": func(h *house) {
		h.user("Ada", action.RoleOwner)
		u, other := h.user("Bob", action.RoleMember), h.user("Cyd", action.RoleMember)
		one, _ := h.signsIn(u)
		h.later(time.Second)
		two, cookie := h.signsIn(u)
		_, foreign := h.signsIn(other)
		h.equal(must(h.db.ListLogins(h.ctx, h.org.ID, u.ID))(h), []action.Login{two, one}, "logins")
		h.equal(two.Via, action.ViaLink, "via")
		h.refused(h.db.EndLogin(h.ctx, h.org.ID, other.ID, one.ID), action.ErrNotFound, "login_not_found")
		h.ok(h.db.EndLogin(h.ctx, h.org.ID, u.ID, one.ID))
		h.refused(h.db.EndLogin(h.ctx, h.org.ID, u.ID, one.ID), action.ErrNotFound, "login_not_found")
		h.equal(must(h.db.LoginEnd(h.ctx, cookie))(h), action.LoginEnd(""), "why a good login ended")
		l := h.link(u)
		h.equal(must(h.db.EndLogins(h.ctx, h.org.ID, u.ID, action.EndEverywhere))(h), 1, "ended")
		h.equal(must(h.db.LoginEnd(h.ctx, cookie))(h), action.EndEverywhere, "why it ended")
		_, _, err := h.redeem(l)
		h.refused(err, action.ErrUnauthenticated, "login_link_over")
		_, _, err = h.db.Login(h.ctx, foreign)
		h.ok(err)
		h.equal(must(h.db.LoginEnd(h.ctx, hash("cookie")))(h), action.LoginEnd(""), "why nothing ended")
	},
	"a login has its sign-in method, and a link is created once": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		l := action.LoginLink{Organization: h.org.ID, User: u.ID, CodeHash: hash("code"), KeyHash: hash("key"), Via: action.ViaOIDC}
		h.ok(h.db.CreateLoginLink(h.ctx, l))
		h.refused(h.db.CreateLoginLink(h.ctx, l), action.ErrConflict, "login_link_exists")
		login, _, err := h.redeem(l)
		h.ok(err)
		h.equal(login.Via, action.ViaOIDC, "via")
		h.refused(h.db.CreateLoginLink(h.ctx, l), action.ErrConflict, "login_link_exists")
		must(h.db.EndLogins(h.ctx, h.org.ID, u.ID, action.EndEverywhere))(h)
		h.refused(h.db.CreateLoginLink(h.ctx, l), action.ErrConflict, "login_link_exists")
	},
	"the reason why a login ended": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		for want, change := range map[action.LoginEnd]func(*action.Login){
			action.EndExpired: func(l *action.Login) { l.ExpiresAt = h.now.Add(-time.Minute) },
			action.EndIdle:    func(l *action.Login) { l.SeenAt = h.now.Add(-13 * time.Hour) },
		} {
			l, cookie := h.link(u), hash("cookie")
			login := action.Login{ID: newID(), CreatedAt: h.now, SeenAt: h.now, ExpiresAt: h.now.Add(24 * time.Hour)}
			change(&login)
			must(h.db.RedeemLoginLink(h.ctx, l.CodeHash, cookie, login, h.now.Add(-time.Hour)))(h)
			h.equal(must(h.db.LoginEnd(h.ctx, cookie))(h), want, "why")
		}
		h.equal(must(h.db.ListLogins(h.ctx, h.org.ID, u.ID))(h), []action.Login{}, "good logins")
	},
	"users and keys have their last use": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		login, _ := h.signsIn(u)
		seen := func() time.Time {
			h.ok(h.db.Flush(h.ctx))
			return *must(h.db.User(h.ctx, h.org.ID, u.ID))(h).SeenAt
		}
		h.equal(seen(), login.SeenAt, "at sign-in")
		h.ok(h.db.TouchLogin(h.ctx, login.ID, h.now.Add(90*time.Second)))
		h.equal(seen(), h.now.Add(90*time.Second), "in use")

		k := action.APIKey{ID: newID(), Organization: h.org.ID, Name: "ci", User: u.ID, Role: action.RoleAdmin, CreatedAt: h.now}
		h.ok(h.db.CreateAPIKey(h.ctx, k, hash("key")))
		used := func() *time.Time {
			h.ok(h.db.Flush(h.ctx))
			return must(h.db.ListAPIKeys(h.ctx, h.org.ID))(h)[0].UsedAt
		}
		if at := used(); at != nil {
			h.Errorf("a key that nobody used was used at %s", at)
		}
		h.ok(h.db.TouchAPIKey(h.ctx, k.ID, h.now))
		h.equal(*used(), h.now, "used")
		h.ok(h.db.TouchAPIKey(h.ctx, k.ID, h.now.Add(59*time.Second)))
		h.equal(*used(), h.now, "used again at once")
		h.ok(h.db.TouchAPIKey(h.ctx, k.ID, h.now.Add(time.Minute)))
		h.equal(*used(), h.now.Add(time.Minute), "used a minute later")
		h.ok(h.db.TouchAPIKey(h.ctx, newID(), h.now))
		h.ok(h.db.Flush(h.ctx))
	},
	"sessions tell what goes on in them": func(h *house) {
		h.later(time.Minute)
		quiet := h.session(action.Unattended)
		d := h.held(`{"title":"Bug"}`)
		h.begin(d)
		must(h.db.CreateGrant(h.ctx, action.Grant{
			ID: newID(), Organization: h.org.ID, Session: h.s.ID, CreatedBy: "me", CreatedAt: h.now,
			Terms: action.Terms{Scope: action.ScopeSession, Source: "linear", Action: "create"},
		}))(h)
		states := must(h.db.SessionStates(h.ctx, h.org.ID, []string{h.s.ID, quiet.ID}))(h)
		if s := states[h.s.ID]; s.Pending != 1 || s.Grants != 1 || s.LastCall == nil {
			h.Errorf("a session at work: %+v", s)
		}
		h.equal(states[quiet.ID], action.SessionState{}, "a session that did nothing")
		h.equal(len(must(h.db.SessionStates(h.ctx, newHouse(h.T, h.db).org.ID, []string{h.s.ID}))(h)), 0, "sessions of others")
		must(h.db.RevokeSession(h.ctx, h.org.ID, quiet.ID))(h)
		for want, f := range map[string]action.SessionFilter{h.s.ID: {Live: true}, quiet.ID: {Ended: true}} {
			f.Organization = h.org.ID
			if p := must(h.db.ListSessions(h.ctx, f))(h); len(p.Items) != 1 || p.Items[0].ID != want || p.Total != 1 {
				h.Errorf("%+v: %+v", f, p)
			}
		}
	},
}
