package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/store"
	"sallyport/store/connect"
)

func ids(list []action.Integration) []string {
	names := []string{}
	for _, in := range list {
		names = append(names, in.ID)
	}
	slices.Sort(names)
	return names
}

// told are the events of an integration, newest first.
func (h *house) told(id string) []action.PolicyEvent {
	h.Helper()
	return h.history(action.PolicyEventFilter{Kind: action.EventIntegration, Subject: id})
}

var integrationUseStories = map[string]func(*house){
	"private integrations are visible only to their owner": func(h *house) {
		shared, alices, bobs := h.connected(h.slack("T1")), h.connected(h.private("T1", "alice")), h.connected(h.own("T1", "bob"))
		for viewer, want := range map[string][]string{
			"alice": {shared.ID, alices.ID}, "bob": {shared.ID, bobs.ID}, "carol": {shared.ID}, "": {shared.ID},
		} {
			slices.Sort(want)
			h.equal(ids(must(h.db.ListIntegrations(h.ctx, h.org.ID, viewer))(h)), want, "what "+viewer+" sees")
			for _, in := range []action.Integration{shared, alices, bobs} {
				_, read := h.db.Integration(h.ctx, h.org.ID, in.ID, viewer)
				_, changed := h.db.ChangeIntegration(h.ctx, in, "x"+viewer)
				if sees := slices.Contains(want, in.ID); (read == nil) != sees || (changed == nil) != (in.ID == shared.ID) {
					h.Errorf("%s, %s %s: read %v, changed by another: %v", viewer, in.Visibility, in.CreatedBy, read, changed)
				}
			}
		}
		h.equal(len(must(h.db.Integrations(h.ctx, h.org.ID))(h)), 3, "those of the catalog")
	},
	"lists are sorted by provider and name": func(h *house) {
		var want []string
		for _, n := range []string{"github/Zoo", "linear/apple", "linear/Banana", "slack/Chat"} {
			in := h.slack(n)
			in.Provider, in.Name, _ = strings.Cut(n, "/")
			in.Name, in.CreatedAt = n[len(in.Provider)+1:], h.now.Add(-time.Duration(len(want))*time.Minute)
			want = append(want, h.connected(in).ID)
		}
		var got []string
		for _, in := range must(h.db.ListIntegrations(h.ctx, h.org.ID, "bob"))(h) {
			got = append(got, in.ID)
		}
		h.equal(got, want, "the list")
		got = nil
		for _, in := range must(h.db.Integrations(h.ctx, h.org.ID))(h) {
			got = append(got, in.ID)
		}
		slices.Reverse(want)
		h.equal(got, want, "those of the catalog, oldest first")
	},
	"a user has one own connection per provider": func(h *house) {
		first, others := h.connected(h.own("U1", "bob")), h.connected(h.own("U1", "alice"))
		kept := h.connected(h.private("U1", "bob"))
		elsewhere := h.own("U1", "bob")
		elsewhere.Provider = "linear"
		elsewhere = h.connected(elsewhere)
		second := h.connected(h.own("U2", "bob"))
		want := []string{others.ID, kept.ID, elsewhere.ID, second.ID}
		slices.Sort(want)
		h.equal(ids(must(h.db.Integrations(h.ctx, h.org.ID))(h)), want, "integrations")
		old := must(h.db.IntegrationOf(h.ctx, h.org.ID, "slack", "bob", "U1", true))(h)
		if old.ID != first.ID || old.Status != action.IntegrationDeleted || old.Sealed != nil {
			h.Errorf("his first one: %+v", old)
		}
		h.connected(must(h.again(h.db, h.own("U1", "bob")))(h))
		_, err := h.db.IntegrationCredential(h.ctx, h.org.ID, second.ID)
		h.refused(err, action.ErrNotFound, "integration_not_found")
	},
	"private integrations are disconnected with their user": func(h *house) {
		u := h.user("bob", action.RoleMember)
		h.connected(h.own("T1", u.ID))
		h.connected(h.private("T1", u.ID))
		shared := h.slack("T1")
		shared.CreatedBy = u.ID
		shared = h.connected(shared)
		h.user("ada", action.RoleOwner)
		h.ok(h.db.DeleteUser(h.ctx, h.org.ID, u.ID, "me"))
		h.equal(ids(must(h.db.Integrations(h.ctx, h.org.ID))(h)), []string{shared.ID}, "integrations")
		if old := must(h.db.IntegrationOf(h.ctx, h.org.ID, "slack", u.ID, "T1", true))(h); old.Sealed != nil {
			h.Error("his credential is kept")
		}
	},
	"the revision counts what a call would do": func(h *house) {
		in := h.connected(h.slack("T1"))
		for i, row := range []struct {
			change       func()
			counts, move int64
		}{
			{func() { in.Name = "Renamed" }, 0, 0},
			{func() { in.Settings = json.RawMessage(`{"channel":"C2"}`) }, 1, 1},
			{func() { in.Settings = nil }, 1, 1},
			{func() { in.TimeoutSeconds = 0 }, 1, 1},
			{func() { in.Visibility, in.TimeoutSeconds = action.VisiblePrivate, 120 }, 1, 1},
			{func() { in.Visibility = action.VisibleOrganization }, 0, 1},
		} {
			row.change()
			was := h.versions()
			got := must(h.db.ChangeIntegration(h.ctx, in, "alice"))(h)
			is := h.versions()
			in.Revision, in.UpdatedAt = in.Revision+row.counts, got.UpdatedAt
			h.equal(got, in, fmt.Sprint("change ", i))
			h.equal([]int64{is.Policy - was.Policy, is.Catalog - was.Catalog}, []int64{row.move, 1}, fmt.Sprint("steps of change ", i))
		}
		h.equal(string(h.credential(in.ID).Sealed), "sealed T1", "the credential")
		for i, change := range []func(*action.Integration){
			func(in *action.Integration) { in.Scopes, in.Name, in.AccountName = nil, "Another", "New\nname" },
			func(in *action.Integration) { in.Kind, in.Broker = action.KindOAuth2, action.BrokerNango },
			func(in *action.Integration) { in.Kind, in.Broker = action.KindBotToken, "" },
			func(in *action.Integration) { in.BaseURL = "" },
			func(in *action.Integration) { in.Account = "T2" },
			func(in *action.Integration) { in.Settings = json.RawMessage(`{}`) },
			func(in *action.Integration) { in.TimeoutSeconds = 1 },
		} {
			next := h.credential(in.ID)
			change(&next)
			h.equal(must(h.db.PutIntegration(h.ctx, next, "alice"))(h).Revision, in.Revision+int64(i), fmt.Sprint("revision after ", i))
		}
		h.equal(h.credential(in.ID).AccountName, "New name", "what the service calls the account")
	},
	"visibility cannot give an account to another owner": func(h *house) {
		h.connected(h.slack("T1"))
		in := h.connected(h.private("T1", "alice"))
		in.Visibility = action.VisibleOrganization
		_, err := h.db.ChangeIntegration(h.ctx, in, "alice")
		h.equal(h.refused(err, action.ErrConflict, "integration_exists").Field, "/visibility", "the field")
	},
	"an invalid integration is refused by field": func(h *house) {
		for field, change := range map[string]func(*action.Integration){
			"/kind":            func(in *action.Integration) { in.Kind = "password" },
			"/broker":          func(in *action.Integration) { in.Kind, in.Broker = action.KindAPIKey, action.BrokerNango },
			"/provider":        func(in *action.Integration) { in.Provider = "*" },
			"/account":         func(in *action.Integration) { in.Account = "a\x00" },
			"/name":            func(in *action.Integration) { in.Name = " " },
			"/visibility":      func(in *action.Integration) { in.User = "alice" },
			"/timeout_seconds": func(in *action.Integration) { in.TimeoutSeconds = 121 },
			"/settings":        func(in *action.Integration) { in.Settings = json.RawMessage(`null`) },
			"/base_url":        func(in *action.Integration) { in.BaseURL = "https://user:password@example.com" },
		} {
			in := h.slack("T1")
			change(&in)
			_, err := h.db.PutIntegration(h.ctx, in, "alice")
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, field, "the field")
		}
		in := h.connected(h.slack("T1"))
		for field, change := range map[string]func(*action.Integration){
			"/name":            func(in *action.Integration) { in.Name = long(200) },
			"/visibility":      func(in *action.Integration) { in.Visibility = "" },
			"/timeout_seconds": func(in *action.Integration) { in.TimeoutSeconds = -1 },
			"/settings":        func(in *action.Integration) { in.Settings = json.RawMessage(`[]`) },
		} {
			changed := in
			change(&changed)
			_, err := h.db.ChangeIntegration(h.ctx, changed, "alice")
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, field, "the field")
		}
	},
	"history hides details of private integrations": func(h *house) {
		in := h.connected(h.private("T-hidden", "alice"))
		in.Name, in.Settings = "Hidden name", json.RawMessage(`{"hidden":true}`)
		must(h.db.ChangeIntegration(h.ctx, in, "alice"))(h)
		h.setIntegration(in.ID, action.IntegrationRevoked, "hidden reason")
		h.setIntegration(in.ID, action.IntegrationDeleted, "")
		events := h.told(in.ID)
		h.equal(len(events), 4, "events")
		h.equal(string(events[3].Before)+string(events[3].After), `null{"provider":"slack","kind":"oauth2","status":"active","visibility":"private"}`, "the first event")
		for _, e := range events {
			for _, text := range []string{"idden", "T-", "slack.example.com", "sealed"} {
				if strings.Contains(string(e.Before)+string(e.After), text) {
					h.Errorf("an event tells %s: %s, %s", text, e.Before, e.After)
				}
			}
		}
	},
	"history has details of shared integrations": func(h *house) {
		in := h.connected(h.slack("T1"))
		h.setIntegration(in.ID, action.IntegrationRevoked, "token_revoked")
		in = must(h.db.Integration(h.ctx, h.org.ID, in.ID, "bob"))(h)
		e := h.told(in.ID)[0]
		var after action.Integration
		h.ok(json.Unmarshal(e.After, &after))
		after.Version = in.Version
		h.equal(after, in, "what the event says")
		h.equal(e.By, "bob", "who did it")
		in.Visibility = action.VisiblePrivate
		must(h.db.ChangeIntegration(h.ctx, in, "alice"))(h)
		in.Visibility = action.VisibleOrganization
		must(h.db.ChangeIntegration(h.ctx, in, "alice"))(h)
		if e := h.told(in.ID)[0]; strings.Contains(string(e.Before), "Acme") || !strings.Contains(string(e.After), "Acme") {
			h.Errorf("shown again: from %s to %s", e.Before, e.After)
		}
	},
	"at most two hundred integrations are live": func(h *house) {
		var last action.Integration
		for i := range connect.MaxIntegrations {
			last = h.connected(h.slack(fmt.Sprint(i)))
		}
		_, err := h.db.PutIntegration(h.ctx, h.slack("more"), "alice")
		h.refused(err, action.ErrTooMany, "too_many_integrations")
		h.connected(must(h.again(h.db, h.slack("0")))(h))
		h.setIntegration(last.ID, action.IntegrationDeleted, "")
		h.connected(h.slack("more"))
		_, err = h.db.PutIntegration(h.ctx, must(h.again(h.db, h.slack(last.Account)))(h), "alice")
		h.refused(err, action.ErrTooMany, "too_many_integrations")
	},
	"a connection flow is used once, before it expires": func(h *house) {
		f := h.beginning("s")
		h.ok(h.db.PutIntegrationFlow(h.ctx, f))
		h.equal(must(h.take(h.db, "s", h.now))(h), f, "the connection")
		h.ok(h.db.PutIntegrationFlow(h.ctx, f))
		_, err := h.take(h.db, "s", f.ExpiresAt)
		h.refused(err, action.ErrGone, "connection_over")
		_, err = h.take(h.db, "s", h.now)
		h.refused(err, action.ErrNotFound, "connection_not_found")
	},
	"only the login that began a connection can end it": func(h *house) {
		f := h.beginning("s")
		h.ok(h.db.PutIntegrationFlow(h.ctx, f))
		for _, other := range [][3]string{{h.org.ID, "bob", f.Login}, {h.org.ID, f.By, "another"}, {newHouse(h.T, h.db).org.ID, f.By, f.Login}} {
			_, err := h.db.TakeIntegrationFlow(h.ctx, other[0], "s", other[1], other[2], h.now)
			h.refused(err, action.ErrNotFound, "connection_not_found")
		}
		h.equal(must(h.take(h.db, "s", h.now))(h), f, "what others left")
	},
	"20 come back from a connection, one is let in": func(h *house) {
		h.ok(h.db.PutIntegrationFlow(h.ctx, h.beginning("s")))
		var taken atomic.Int64
		together(20, func(i int) {
			switch _, err := h.take(h.any(i), "s", h.now); {
			case err == nil:
				taken.Add(1)
			case !errors.Is(err, action.ErrNotFound):
				h.Error(err)
			}
		})
		h.equal(taken.Load(), int64(1), "connections")
	},
	"at most ten connections of a person are begun": func(h *house) {
		of := func(state, user string) action.IntegrationFlow {
			f := h.beginning(state)
			f.By = user
			return f
		}
		over := of("over", "bob")
		over.ExpiresAt = h.now.Add(-time.Second)
		h.ok(h.db.PutIntegrationFlow(h.ctx, over))
		for i := range 10 {
			h.ok(h.db.PutIntegrationFlow(h.ctx, of(fmt.Sprint(i), "bob")))
		}
		h.refused(h.db.PutIntegrationFlow(h.ctx, of("more", "bob")), action.ErrTooMany, "too_many_connections")
		h.ok(h.db.PutIntegrationFlow(h.ctx, of("another", "carol")))
		theirs := of("theirs", "bob")
		theirs.Organization = newHouse(h.T, h.db).org.ID
		h.ok(h.db.PutIntegrationFlow(h.ctx, theirs))
		must(h.db.TakeIntegrationFlow(h.ctx, h.org.ID, "0", "bob", "login", h.now))(h)
		h.ok(h.db.PutIntegrationFlow(h.ctx, of("more", "bob")))
	},
	"at most a hundred connections are begun": func(h *house) {
		over := h.beginning("over")
		over.ExpiresAt = h.now.Add(-time.Second)
		h.ok(h.db.PutIntegrationFlow(h.ctx, over))
		for i := range 100 {
			f := h.beginning(fmt.Sprint(i))
			f.By += fmt.Sprint(i % 10)
			h.ok(h.db.PutIntegrationFlow(h.ctx, f))
		}
		h.refused(h.db.PutIntegrationFlow(h.ctx, h.beginning("more")), action.ErrTooMany, "too_many_connections")
		_, err := h.take(h.db, "over", h.now)
		h.refused(err, action.ErrNotFound, "connection_not_found")
		h.ok(h.db.PutIntegrationFlow(h.ctx, newHouse(h.T, h.db).beginning("theirs")))
	},
	"a key is kept until it is replaced": func(h *house) {
		name := newID()
		_, err := h.db.VaultKey(h.ctx, name)
		h.refused(err, action.ErrNotFound, "vault_key_not_found")
		for _, sealed := range []string{"one", "two"} {
			h.ok(h.db.PutVaultKey(h.ctx, name, []byte(sealed)))
			h.equal(string(must(h.db.VaultKey(h.ctx, name))(h)), sealed, "the key")
		}
	},
}

// take ends a connection of h.beginning.
func (h *house) take(db *store.DB, state string, now time.Time) (action.IntegrationFlow, error) {
	return db.TakeIntegrationFlow(h.ctx, h.org.ID, state, "alice", "login", now)
}

func (h *house) beginning(state string) action.IntegrationFlow {
	return action.IntegrationFlow{
		StateHash: state, Organization: h.org.ID, Provider: "slack", By: "alice", Login: "login", ExpiresAt: h.now.Add(5 * time.Minute), Sealed: []byte("sealed verifier"),
	}
}
