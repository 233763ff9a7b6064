package store_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
)

func (h *house) user(name string, role action.Role) action.User {
	h.Helper()
	u := action.User{ID: newID(), Organization: h.org.ID, Name: name, Role: role, CreatedAt: h.now}
	h.ok(h.db.CreateUser(h.ctx, u, "me"))
	h.later(time.Second)
	return u
}

// hash stands for one, which has a length.
func hash(of string) string { return of + strings.Repeat("0", 32) + newID() }

func (h *house) link(u action.User) action.LoginLink {
	h.Helper()
	l := action.LoginLink{Organization: h.org.ID, User: u.ID, CodeHash: hash("code"), KeyHash: hash("key"), ExpiresAt: h.now.Add(10 * time.Minute)}
	h.ok(h.db.CreateLoginLink(h.ctx, l))
	return l
}

func (h *house) redeem(l action.LoginLink) (action.Login, string, error) {
	cookie := hash("cookie")
	login, err := h.db.RedeemLoginLink(h.ctx, l.CodeHash, cookie, action.Login{
		ID: newID(), CreatedAt: h.now, SeenAt: h.now, ExpiresAt: h.now.Add(24 * time.Hour),
	}, h.now)
	return login, cookie, err
}

var peopleStories = map[string]func(*house){
	"users have names and roles": func(h *house) {
		owner, member := h.user("Ada", action.RoleOwner), h.user("Bob", action.RoleMember)
		h.equal(must(h.db.ListUsers(h.ctx, h.org.ID))(h), []action.User{owner, member}, "people")
		h.equal(must(h.db.User(h.ctx, h.org.ID, member.ID))(h), member, "one of them")
		h.refused(h.db.CreateUser(h.ctx, action.User{ID: newID(), Organization: h.org.ID, Name: "ada", Role: action.RoleAdmin}, "me"), action.ErrConflict, "user_exists")
		h.refused(h.db.CreateUser(h.ctx, action.User{ID: newID(), Organization: h.org.ID, Name: "Eve", Role: "root"}, "me"), action.ErrInvalid, "invalid")
		h.refused(h.db.CreateUser(h.ctx, action.User{ID: newID(), Organization: h.org.ID, Role: action.RoleMember}, "me"), action.ErrInvalid, "invalid")
		_, err := h.db.User(h.ctx, newHouse(h.T, h.db).org.ID, member.ID)
		h.refused(err, action.ErrNotFound, "user_not_found")
	},
	"an organization keeps an owner": func(h *house) {
		ada, bob := h.user("Ada", action.RoleOwner), h.user("Bob", action.RoleMember)
		h.refused(h.db.SetUserRole(h.ctx, h.org.ID, ada.ID, action.RoleAdmin, "me"), action.ErrConflict, "last_owner")
		h.refused(h.db.DeleteUser(h.ctx, h.org.ID, ada.ID, "me"), action.ErrConflict, "last_owner")
		h.ok(h.db.SetUserRole(h.ctx, h.org.ID, ada.ID, action.RoleOwner, "me"))
		h.ok(h.db.SetUserRole(h.ctx, h.org.ID, bob.ID, action.RoleOwner, "me"))
		var refused atomic.Int64
		together(2, func(i int) {
			if h.db.DeleteUser(h.ctx, h.org.ID, []string{ada.ID, bob.ID}[i], "me") != nil {
				refused.Add(1)
			}
		})
		h.equal(refused.Load(), int64(1), "owners that stayed")
		h.refused(h.db.DeleteUser(h.ctx, h.org.ID, newID(), "me"), action.ErrNotFound, "user_not_found")
		h.refused(h.db.SetUserRole(h.ctx, h.org.ID, newID(), action.RoleAdmin, "me"), action.ErrNotFound, "user_not_found")
		h.refused(h.db.SetUserRole(h.ctx, h.org.ID, bob.ID, "root", "me"), action.ErrInvalid, "invalid")
	},
	"an API key is found by its id and ends once": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		k := action.APIKey{ID: newID(), Organization: h.org.ID, Name: "ci", User: u.ID, Role: action.RoleAdmin, CreatedAt: h.now}
		sum := hash("key")
		h.ok(h.db.CreateAPIKey(h.ctx, k, sum))
		got, gotHash, err := h.db.APIKey(h.ctx, k.ID)
		h.ok(err)
		h.equal(got, k, "the key")
		h.equal(gotHash, sum, "its hash")
		h.equal(must(h.db.ListAPIKeys(h.ctx, h.org.ID))(h), []action.APIKey{k}, "the list")
		narrow := action.APIKey{ID: newID(), Organization: h.org.ID, Name: "worker", User: u.ID, Role: action.RoleAdmin, Scope: action.ScopeRuns, CreatedAt: h.now}
		h.ok(h.db.CreateAPIKey(h.ctx, narrow, sum))
		got, _, err = h.db.APIKey(h.ctx, narrow.ID)
		h.ok(err)
		h.equal(got, narrow, "a key with a scope")
		e := h.refused(h.db.CreateAPIKey(h.ctx, action.APIKey{ID: newID(), Organization: h.org.ID, User: u.ID, Role: action.RoleAdmin, Scope: "all"}, sum), action.ErrInvalid, "invalid")
		h.equal(e.Field, "/scope", "field")
		h.ok(h.db.RevokeAPIKey(h.ctx, h.org.ID, k.ID, h.now))
		h.ok(h.db.RevokeAPIKey(h.ctx, h.org.ID, k.ID, h.now.Add(time.Hour)))
		got, _, err = h.db.APIKey(h.ctx, k.ID)
		h.ok(err)
		h.equal(*got.RevokedAt, h.now, "revoked_at")
		h.refused(h.db.RevokeAPIKey(h.ctx, newHouse(h.T, h.db).org.ID, k.ID, h.now), action.ErrNotFound, "api_key_not_found")
		_, _, err = h.db.APIKey(h.ctx, newID())
		h.refused(err, action.ErrNotFound, "api_key_not_found")
	},
	"an expired API key counts as revoked": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		key := func(name string, ends time.Time) action.APIKey {
			k := action.APIKey{ID: newID(), Organization: h.org.ID, Name: name, User: u.ID, Role: action.RoleAdmin, CreatedAt: h.now, ExpiresAt: &ends}
			h.ok(h.db.CreateAPIKey(h.ctx, k, hash(name)))
			h.later(time.Second)
			return k
		}
		start := h.now
		good, over := key("good", start.Add(time.Hour)), key("over", start.Add(-time.Hour))
		shown := func(k action.APIKey) action.APIKey {
			got, _, err := h.db.APIKey(h.ctx, k.ID)
			h.ok(err)
			return got
		}
		h.equal(shown(good), good, "a key that lasts")
		h.equal(shown(over).RevokedAt, over.ExpiresAt, "when a key whose time is over was revoked")
		h.equal(must(h.db.ListAPIKeys(h.ctx, h.org.ID))(h), []action.APIKey{over, good}, "the list")

		later := start.Add(2 * time.Hour)
		h.ok(h.db.RenewAPIKey(h.ctx, h.org.ID, good.ID, later))
		h.equal(*shown(good).ExpiresAt, later, "the end of a renewed key")
		h.refused(h.db.RenewAPIKey(h.ctx, h.org.ID, over.ID, later), action.ErrNotFound, "api_key_not_found")
		h.refused(h.db.RenewAPIKey(h.ctx, newHouse(h.T, h.db).org.ID, good.ID, later), action.ErrNotFound, "api_key_not_found")
		if h.db.RenewAPIKey(h.ctx, h.org.ID, good.ID, time.Time{}) == nil {
			h.Error("a key was renewed until no time")
		}
		h.ok(h.db.RevokeAPIKey(h.ctx, h.org.ID, good.ID, start))
		h.refused(h.db.RenewAPIKey(h.ctx, h.org.ID, good.ID, later), action.ErrNotFound, "api_key_not_found")
		h.equal(*shown(good).RevokedAt, start, "when it was revoked")
	},
	"API keys are swept some time after their end": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		ends := h.now.Add(-time.Hour)
		for i, end := range []*time.Time{&ends, &ends, &ends, nil} {
			k := action.APIKey{ID: newID(), Organization: h.org.ID, Name: fmt.Sprint(i), User: u.ID, Role: action.RoleAdmin, CreatedAt: h.now, ExpiresAt: end}
			h.ok(h.db.CreateAPIKey(h.ctx, k, hash("key")))
		}
		h.equal(must(h.db.SweepAPIKeys(h.ctx, ends, 10))(h), 0, "swept too early")
		h.equal(must(h.db.SweepAPIKeys(h.ctx, time.Time{}, 10))(h), 0, "swept before no time")
		h.equal(must(h.db.SweepAPIKeys(h.ctx, ends.Add(time.Second), 2))(h), 2, "swept first")
		h.equal(must(h.db.SweepAPIKeys(h.ctx, ends.Add(time.Second), 0))(h), 1, "swept then")
		left := must(h.db.ListAPIKeys(h.ctx, h.org.ID))(h)
		if len(left) != 1 || left[0].ExpiresAt != nil {
			h.Errorf("left: %+v, want the key without an end", left)
		}
	},
	"an API key has at most its user's role, and is deleted with the user": func(h *house) {
		h.user("Ada", action.RoleOwner)
		u := h.user("Bob", action.RoleAdmin)
		k := action.APIKey{ID: newID(), Organization: h.org.ID, Name: "ci", User: u.ID, Role: action.RoleAdmin, CreatedAt: h.now}
		h.ok(h.db.CreateAPIKey(h.ctx, k, hash("key")))
		h.ok(h.db.SetUserRole(h.ctx, h.org.ID, u.ID, action.RoleMember, "me"))
		got, _, err := h.db.APIKey(h.ctx, k.ID)
		h.ok(err)
		h.equal(got.Role, action.RoleMember, "role")
		h.ok(h.db.DeleteUser(h.ctx, h.org.ID, u.ID, "me"))
		_, _, err = h.db.APIKey(h.ctx, k.ID)
		h.refused(err, action.ErrNotFound, "api_key_not_found")
	},
	"a link signs in once": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		l := h.link(u)
		login, cookie, err := h.redeem(l)
		h.ok(err)
		h.equal([]string{login.Organization, login.User}, []string{h.org.ID, u.ID}, "who")
		got, keyHash, err := h.db.Login(h.ctx, cookie)
		h.ok(err)
		h.equal(got, login, "the login")
		h.equal(keyHash, l.KeyHash, "the page's key")
		_, _, err = h.redeem(l)
		h.refused(err, action.ErrUnauthenticated, "login_link_over")
		h.ok(h.db.DeleteLogin(h.ctx, login.ID))
		_, _, err = h.db.Login(h.ctx, cookie)
		h.refused(err, action.ErrNotFound, "login_not_found")
	},
	"64 redeem one link, one signs in": func(h *house) {
		l := h.link(h.user("Ada", action.RoleOwner))
		var in atomic.Int64
		together(64, func(int) {
			if _, _, err := h.redeem(l); err == nil {
				in.Add(1)
			}
		})
		h.equal(in.Load(), int64(1), "signed in")
	},
	"a link lasts at most ten minutes": func(h *house) {
		u := h.user("Ada", action.RoleOwner)
		l := h.link(u)
		l.CodeHash, l.ExpiresAt = hash("code"), h.now.Add(time.Hour)
		h.ok(h.db.CreateLoginLink(h.ctx, l))
		h.later(10*time.Minute + time.Minute)
		_, _, err := h.redeem(l)
		h.refused(err, action.ErrUnauthenticated, "login_link_over")
	},
	"a login ends by its time, by idleness and with its user": func(h *house) {
		h.user("Ada", action.RoleOwner)
		u := h.user("Bob", action.RoleMember)
		for name, change := range map[string]func(*action.Login){
			"over": func(l *action.Login) { l.ExpiresAt = h.now.Add(-30 * time.Minute) },
			"idle": func(l *action.Login) { l.SeenAt = h.now.Add(-13 * time.Hour) },
			"user": func(*action.Login) {},
			"all":  func(*action.Login) {},
		} {
			l, cookie := h.link(u), hash("cookie")
			login := action.Login{ID: newID(), CreatedAt: h.now, SeenAt: h.now, ExpiresAt: h.now.Add(24 * time.Hour)}
			change(&login)
			must(h.db.RedeemLoginLink(h.ctx, l.CodeHash, cookie, login, h.now.Add(-time.Hour)))(h)
			switch name {
			case "user":
				h.ok(h.db.DeleteUser(h.ctx, h.org.ID, u.ID, "me"))
				u = h.user("Bob", action.RoleMember)
			case "all":
				must(h.db.EndLogins(h.ctx, h.org.ID, u.ID, action.EndAdmin))(h)
			}
			_, _, err := h.db.Login(h.ctx, cookie)
			h.refused(err, action.ErrNotFound, "login_not_found")
		}
	},
	"use of a login is recorded once a minute": func(h *house) {
		login, cookie, err := h.redeem(h.link(h.user("Ada", action.RoleOwner)))
		h.ok(err)
		seen := func() time.Time {
			h.ok(h.db.Flush(h.ctx))
			l, _, err := h.db.Login(h.ctx, cookie)
			h.ok(err)
			return l.SeenAt
		}
		h.ok(h.db.TouchLogin(h.ctx, login.ID, h.now.Add(59*time.Second)))
		h.equal(seen(), h.now, "seen")
		h.ok(h.db.TouchLogin(h.ctx, login.ID, h.now.Add(60*time.Second)))
		h.ok(h.db.TouchLogin(h.ctx, login.ID, h.now.Add(61*time.Second)))
		h.equal(seen(), h.now.Add(time.Minute), "seen")
	},
}
