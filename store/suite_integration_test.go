package store_test

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/store"
)

// slack is a workspace that the organization connects.
func (h *house) slack(account string) action.Integration {
	return action.Integration{
		ID: newID(), Organization: h.org.ID, Provider: "slack", Kind: action.KindOAuth2, Account: account, AccountName: "Acme of " + account,
		Name: "Chat", Visibility: action.VisibleOrganization, BaseURL: "https://slack.example.com/api", Settings: json.RawMessage(`{"channel":"C1"}`),
		Scopes: []string{"chat:write", "channels:read"}, TimeoutSeconds: 60, ExpiresAt: new(h.now.Add(time.Hour)), CreatedBy: "alice", CreatedAt: h.now,
		Sealed: []byte("sealed " + account),
	}
}

// private is one that only its maker sees; own is a user's own connection.
func (h *house) private(account, by string) action.Integration {
	in := h.slack(account)
	in.Visibility, in.CreatedBy = action.VisiblePrivate, by
	return in
}

func (h *house) own(account, user string) action.Integration {
	in := h.private(account, user)
	in.User = user
	return in
}

// connected is an integration that is there, as a list shows it.
func (h *house) connected(in action.Integration) action.Integration {
	h.Helper()
	got := must(h.db.PutIntegration(h.ctx, in, in.CreatedBy))(h)
	if got.Sealed != nil {
		h.Error("a credential is returned")
	}
	return got
}

func (h *house) credential(id string) action.Integration {
	h.Helper()
	return must(h.db.IntegrationCredential(h.ctx, h.org.ID, id))(h)
}

func (h *house) setIntegration(id string, status action.IntegrationStatus, reason string) bool {
	h.Helper()
	return must(h.db.SetIntegrationStatus(h.ctx, h.org.ID, id, 0, status, reason, "bob"))(h)
}

// again reads the integration of the account of in, as one that connects it
// does, and returns what that writes.
func (h *house) again(db *store.DB, in action.Integration) (action.Integration, error) {
	old, err := db.IntegrationOf(h.ctx, in.Organization, in.Provider, in.Owner(), in.Account, in.User != "")
	if errors.Is(err, action.ErrNotFound) {
		return in, nil
	}
	in.ID, in.Version = old.ID, old.Version
	return in, err
}

// shifts checks by how much an act moves policy and the catalog.
func (h *house) shifts(what string, by int64, act func()) {
	h.Helper()
	was := h.versions()
	act()
	is := h.versions()
	h.equal([]int64{is.Policy - was.Policy, is.Catalog - was.Catalog}, []int64{by, by}, what+": steps of policy and of the catalog")
}

func (h *house) connections(ids ...string) (action.Session, error) {
	return h.db.CreateSession(h.ctx, action.Session{Organization: h.org.ID, CreatedBy: "alice", Connections: ids})
}

var integrationStories = map[string]func(*house){
	"every field of an integration is stored": func(h *house) {
		in := h.slack("T1")
		got := h.connected(in)
		in.Status, in.Revision, in.Version, in.UpdatedAt = action.IntegrationActive, 1, 1, got.UpdatedAt
		h.equal(h.credential(in.ID), in, "the integration with its credential")
		h.equal(must(h.db.IntegrationOf(h.ctx, h.org.ID, "slack", "", "T1", false))(h), in, "that of the account")
		in.Sealed = nil
		h.equal(got, in, "what is returned")
		h.equal(must(h.db.Integration(h.ctx, h.org.ID, in.ID, "bob"))(h), in, "the integration")
		h.equal(must(h.db.Integrations(h.ctx, h.org.ID))(h), []action.Integration{in}, "all")
		h.equal(must(h.db.ListIntegrations(h.ctx, h.org.ID, "bob"))(h), []action.Integration{in}, "the list")
		h.equal(h.rulesNow().Integrations, []action.Integration{in}, "those of the rules")
	},
	"other organizations are not affected": func(h *house) {
		in := h.connected(h.slack("T1"))
		other := newHouse(h.T, h.db)
		_, err := h.db.Integration(h.ctx, other.org.ID, in.ID, "alice")
		h.refused(err, action.ErrNotFound, "integration_not_found")
		_, err = h.db.IntegrationCredential(h.ctx, other.org.ID, in.ID)
		h.refused(err, action.ErrNotFound, "integration_not_found")
		_, err = h.db.SetIntegrationStatus(h.ctx, other.org.ID, in.ID, 0, action.IntegrationDeleted, "", "eve")
		h.refused(err, action.ErrNotFound, "integration_not_found")
		_, err = h.db.ChangeIntegration(h.ctx, action.Integration{ID: in.ID, Organization: other.org.ID, Name: "x"}, "alice")
		h.refused(err, action.ErrNotFound, "integration_not_found")
		_, err = other.connections(in.ID)
		h.refused(err, action.ErrInvalid, "invalid")
		h.refused(h.db.SetBindings(h.ctx, other.org.ID, "nightly", []string{in.ID}, "alice"), action.ErrInvalid, "invalid")
		theirs := in
		theirs.Organization, theirs.Sealed = other.org.ID, []byte("x")
		h.refused(h.db.RenewIntegration(h.ctx, theirs), action.ErrConflict, "integration_moved")
		h.equal(len(must(h.db.Integrations(h.ctx, other.org.ID))(h)), 0, "theirs")
		h.equal(len(must(h.db.ListIntegrations(h.ctx, other.org.ID, "alice"))(h)), 0, "their list")
	},
	"reconnecting keeps the integration": func(h *house) {
		in := h.connected(h.slack("T1"))
		h.setIntegration(in.ID, action.IntegrationRevoked, "token_revoked")
		next := must(h.again(h.db, h.slack("T1")))(h)
		next.Sealed, next.CreatedBy, next.CreatedAt = []byte("another"), "bob", h.now.Add(time.Hour)
		h.shifts("connecting again", 1, func() {
			got := must(h.db.PutIntegration(h.ctx, next, "bob"))(h)
			in.Version, in.UpdatedAt = 2, got.UpdatedAt
			h.equal(got, in, "the integration")
		})
		in.Sealed = []byte("another")
		h.equal(h.credential(in.ID), in, "the credential")
		_, err := h.db.PutIntegration(h.ctx, next, "bob")
		h.refused(err, action.ErrConflict, "integration_moved")
		_, err = h.db.PutIntegration(h.ctx, h.slack("T1"), "bob")
		h.refused(err, action.ErrConflict, "integration_moved")
		h.connected(h.slack("T2"))
		h.connected(h.private("T1", "alice"))
		h.connected(h.private("T1", "bob"))
		h.connected(h.own("T1", "bob"))
	},
	"a deleted integration is restored with its ID": func(h *house) {
		in := h.connected(h.slack("T1"))
		s := must(h.connections(in.ID))(h)
		h.shifts("disconnecting", 1, func() {
			h.equal(h.setIntegration(in.ID, action.IntegrationDeleted, "The admin said so."), true, "changed")
		})
		h.equal(h.setIntegration(in.ID, action.IntegrationDeleted, ""), false, "changed again")
		h.equal(len(must(h.db.Integrations(h.ctx, h.org.ID))(h)), 0, "integrations")
		h.equal(len(must(h.db.ListIntegrations(h.ctx, h.org.ID, "alice"))(h)), 0, "the list")
		_, err := h.db.Integration(h.ctx, h.org.ID, in.ID, "alice")
		h.refused(err, action.ErrNotFound, "integration_not_found")
		_, err = h.db.IntegrationCredential(h.ctx, h.org.ID, in.ID)
		h.refused(err, action.ErrNotFound, "integration_not_found")
		_, err = h.db.SetIntegrationStatus(h.ctx, h.org.ID, in.ID, 0, action.IntegrationActive, "", "bob")
		h.refused(err, action.ErrNotFound, "integration_not_found")
		old := must(h.db.IntegrationOf(h.ctx, h.org.ID, "slack", "", "T1", false))(h)
		if old.Sealed != nil || old.ExpiresAt != nil || old.Status != action.IntegrationDeleted {
			h.Errorf("what is left: %+v", old)
		}
		got := h.connected(must(h.again(h.db, h.slack("T1")))(h))
		in.Version, in.UpdatedAt = 3, got.UpdatedAt
		h.equal(got, in, "the integration that came back")
		h.equal(must(h.db.Session(h.ctx, s.ID))(h).Connections, []string{in.ID}, "what a session is bound to")
	},
	"a renewal does not restore a disconnected integration": func(h *house) {
		h.connected(h.slack("T1"))
		in := must(h.db.IntegrationOf(h.ctx, h.org.ID, "slack", "", "T1", false))(h)
		h.setIntegration(in.ID, action.IntegrationDeleted, "")
		h.refused(h.db.RenewIntegration(h.ctx, in), action.ErrConflict, "integration_moved")
		in.Version++ // that of the row that was wiped
		h.refused(h.db.RenewIntegration(h.ctx, in), action.ErrConflict, "integration_moved")
	},
	"a renewal increments no version": func(h *house) {
		h.connected(h.slack("T1"))
		in := must(h.db.IntegrationOf(h.ctx, h.org.ID, "slack", "", "T1", false))(h)
		next := in
		next.Sealed, next.ExpiresAt, next.Scopes, next.Name = []byte("renewed"), new(h.now.Add(2*time.Hour)), []string{"chat:write"}, "not written"
		events := len(h.history(action.PolicyEventFilter{}))
		h.shifts("a renewal", 0, func() { h.ok(h.db.RenewIntegration(h.ctx, next)) })
		h.equal(len(h.history(action.PolicyEventFilter{})), events, "events")
		got := h.credential(in.ID)
		in.Sealed, in.ExpiresAt, in.Scopes, in.Version, in.UpdatedAt = next.Sealed, next.ExpiresAt, next.Scopes, 2, got.UpdatedAt
		h.equal(got, in, "the integration")
		h.refused(h.db.RenewIntegration(h.ctx, next), action.ErrConflict, "integration_moved")
	},
	"of renewals at once, one is kept": func(h *house) {
		in := h.connected(h.slack("T1"))
		in.Sealed = []byte("renewed")
		var kept atomic.Int64
		together(16, func(i int) {
			switch err := h.any(i).RenewIntegration(h.ctx, in); {
			case err == nil:
				kept.Add(1)
			case !errors.Is(err, action.ErrConflict):
				h.Error(err)
			}
		})
		h.equal([]int64{kept.Load(), h.credential(in.ID).Version}, []int64{1, 2}, "renewals, version")
	},
	"of concurrent connections of an account one is kept": func(h *house) {
		var kept atomic.Int64
		together(8, func(i int) {
			switch _, err := h.any(i).PutIntegration(h.ctx, h.slack("T1"), "alice"); {
			case err == nil:
				kept.Add(1)
			case !errors.Is(err, action.ErrConflict):
				h.Error(err)
			}
		})
		h.equal([]int{int(kept.Load()), len(must(h.db.Integrations(h.ctx, h.org.ID))(h))}, []int{1, 1}, "written, rows")
		again := must(h.again(h.db, h.slack("T1")))(h)
		together(8, func(i int) { _, _ = h.any(i).PutIntegration(h.ctx, again, "alice") })
		h.equal(h.credential(again.ID).Version, int64(2), "the version")
	},
	"a status applies to the version of its credential": func(h *house) {
		in := h.connected(h.slack("T1"))
		again := h.connected(must(h.again(h.db, h.slack("T1")))(h))
		h.shifts("a late finding", 0, func() {
			for _, status := range []action.IntegrationStatus{action.IntegrationRevoked, action.IntegrationDeleted, action.IntegrationActive} {
				_, err := h.db.SetIntegrationStatus(h.ctx, h.org.ID, in.ID, in.Version, status, "of before", "bob")
				h.refused(err, action.ErrConflict, "integration_moved")
			}
		})
		again.Sealed = []byte("sealed T1")
		h.equal(h.credential(in.ID), again, "the integration")
		h.equal(must(h.db.SetIntegrationStatus(h.ctx, h.org.ID, in.ID, again.Version, action.IntegrationRevoked, "of now", "bob"))(h), true, "changed")
	},
	"an unchanged status is not recorded again": func(h *house) {
		in := h.connected(h.slack("T1"))
		set := func(status action.IntegrationStatus, reason string, want bool) {
			h.Helper()
			var by int64
			if want {
				by = 1
			}
			h.shifts(string(status), by, func() { h.equal(h.setIntegration(in.ID, status, reason), want, "changed") })
		}
		set(action.IntegrationActive, "of no account", false)
		set(action.IntegrationExpired, "token_expired", true)
		set(action.IntegrationExpired, "token_expired", false)
		set(action.IntegrationExpired, "another", true)
		set(action.IntegrationSuspended, "another", true)
		h.equal(string(h.credential(in.ID).Sealed), "sealed T1", "the credential")
		set(action.IntegrationActive, "of before", true)
		h.equal(h.credential(in.ID).Reason, "", "the reason")
		_, err := h.db.SetIntegrationStatus(h.ctx, h.org.ID, in.ID, 0, "dead", "", "bob")
		h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, "/status", "the field")
	},
}
