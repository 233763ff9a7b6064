package store_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
)

func (h *house) bindings(automation string) []string {
	h.Helper()
	return must(h.db.Bindings(h.ctx, h.org.ID, automation))(h)
}

func (h *house) bind(automation string, ids ...string) error {
	return h.db.SetBindings(h.ctx, h.org.ID, automation, ids, "alice")
}

// registered is the gateway's registration at GitHub.
func (h *house) registered() action.ProviderApp {
	return action.ProviderApp{
		Organization: h.org.ID, Provider: "github", ClientID: "Iv1.x", Slug: "sallyport", AppID: "17", BaseURL: "https://github.example.com",
		Keys: map[string]string{"slack": "slack-prod"}, Secrets: []string{action.AppClientSecret, action.AppPrivateKey}, UpdatedBy: "alice",
		Sealed: []byte("sealed secrets"),
	}
}

// unbindable are lists of integrations that alice cannot bind a session to, and
// what is wrong in them.
func (h *house) unbindable() map[string][]string {
	good := h.connected(h.slack("T1")).ID
	gone := h.connected(h.slack("T2")).ID
	h.setIntegration(gone, action.IntegrationDeleted, "")
	many := make([]string, 51)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	return map[string][]string{
		"/connections/0 ": {newID()},
		"/connections/1":  {good, gone},
		"/connections/1 ": {good, good},
		"/connections/2":  {good, h.connected(h.slack("T4")).ID, action.AllConnections},
		"/connections/0":  {action.AllConnections, good},
		"/connections/50": many,
		"/connections/1\t": {
			h.connected(h.slack("T3")).ID, h.connected(h.private("T1", "bob")).ID,
		},
		"/connections/0\t": {h.connected(h.own("T1", "alice")).ID},
	}
}

var bindingStories = map[string]func(*house){
	"a session keeps what it was bound to": func(h *house) {
		a, b := h.connected(h.slack("T1")), h.connected(h.private("T1", "alice"))
		h.setIntegration(a.ID, action.IntegrationRevoked, "token_revoked")
		for _, want := range [][]string{nil, {action.AllConnections}, {b.ID, a.ID}} {
			s := must(h.connections(want...))(h)
			h.equal(s.Connections, want, "the new session's")
			h.equal(must(h.db.Session(h.ctx, s.ID))(h).Connections, want, "the session's")
		}
		page := must(h.db.ListSessions(h.ctx, action.SessionFilter{Organization: h.org.ID}))(h)
		h.equal(page.Items[0].Connections, []string{b.ID, a.ID}, "the newest one's in the list")
	},
	"a session is bound to integrations of its creator": func(h *house) {
		for field, list := range h.unbindable() {
			_, err := h.connections(list...)
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, strings.TrimSpace(field), "the field")
		}
	},
	"an automation is bound only to shared integrations": func(h *house) {
		h.equal(h.bindings("nightly"), []string{}, "what it starts with")
		a, b := h.connected(h.slack("T1")).ID, h.connected(h.slack("T2")).ID
		was := h.version()
		h.ok(h.bind("nightly", b, a))
		h.equal(h.bindings("nightly"), []string{a, b}, "what it is bound to")
		h.equal(h.bindings("daily"), []string{}, "what another is bound to")
		h.ok(h.bind("nightly", a, b))
		h.ok(h.bind("nightly", action.AllConnections))
		h.equal(h.bindings("nightly"), []string{action.AllConnections}, "what it is bound to")
		h.ok(h.bind("nightly"))
		h.ok(h.bind("nightly"))
		h.equal(h.bindings("nightly"), []string{}, "what it is bound to at last")
		var told []string
		for _, e := range h.history(action.PolicyEventFilter{Kind: action.EventBinding, Subject: "nightly"}) {
			told = append(told, string(e.Before)+" "+string(e.After))
		}
		both := fmt.Sprintf("[%q,%q]", a, b)
		h.equal(told, []string{`["all"] null`, both + ` ["all"]`, "null " + both}, "history, newest first")
		h.equal(h.version(), was, "the version of policy")
		h.equal(h.refused(h.bind("", a), action.ErrInvalid, "invalid").Field, "/automation_id", "the field")
	},
	"an automation is not bound to private integrations": func(h *house) {
		good := h.connected(h.slack("T8")).ID
		h.ok(h.bind("nightly", good))
		lists := h.unbindable()
		lists["/connections/0\n"] = []string{h.connected(h.private("T5", "alice")).ID}
		for field, list := range lists {
			h.equal(h.refused(h.bind("nightly", list...), action.ErrInvalid, "invalid").Field, strings.TrimSpace(field), "the field")
		}
		h.equal(h.bindings("nightly"), []string{good}, "what it stays bound to")
	},
	"bindings to a deleted integration are ignored": func(h *house) {
		in, other := h.connected(h.slack("T1")), h.connected(h.slack("T2"))
		h.ok(h.bind("nightly", in.ID, other.ID))
		h.setIntegration(in.ID, action.IntegrationDeleted, "")
		other.Visibility = action.VisiblePrivate
		must(h.db.ChangeIntegration(h.ctx, other, "alice"))(h)
		h.equal(h.bindings("nightly"), []string{}, "what it is bound to")
		h.connected(must(h.again(h.db, h.slack("T1")))(h))
		h.equal(h.bindings("nightly"), []string{in.ID}, "what it is bound to again")
	},
	"an app registration is created, replaced and deleted": func(h *house) {
		_, err := h.db.ProviderApp(h.ctx, h.org.ID, "github")
		h.refused(err, action.ErrNotFound, "provider_app_not_found")
		a := h.registered()
		h.ok(h.db.PutProviderApp(h.ctx, a, "alice"))
		got := must(h.db.ProviderApp(h.ctx, h.org.ID, "github"))(h)
		a.UpdatedAt = got.UpdatedAt
		h.equal(got, a, "the registration")
		h.tells("alice", "null", "")
		shown := a
		shown.Sealed = nil
		h.equal(must(h.db.ListProviderApps(h.ctx, h.org.ID))(h), []action.ProviderApp{shown}, "the list")
		bare := action.ProviderApp{Organization: h.org.ID, Provider: "github", ClientID: "Iv1.y", Secrets: []string{}, UpdatedBy: "bob"}
		h.ok(h.db.PutProviderApp(h.ctx, bare, "bob"))
		got = must(h.db.ProviderApp(h.ctx, h.org.ID, "github"))(h)
		bare.UpdatedAt = got.UpdatedAt
		h.equal(got, bare, "what took its place")
		other := newHouse(h.T, h.db)
		h.equal(must(h.db.ListProviderApps(h.ctx, other.org.ID))(h), []action.ProviderApp{}, "another organization's list")
		h.refused(h.db.DeleteProviderApp(h.ctx, other.org.ID, "github", "eve"), action.ErrNotFound, "provider_app_not_found")
		h.ok(h.db.DeleteProviderApp(h.ctx, h.org.ID, "github", "carol"))
		h.refused(h.db.DeleteProviderApp(h.ctx, h.org.ID, "github", "carol"), action.ErrNotFound, "provider_app_not_found")
		h.tells("carol", "", "null")
		events := h.history(action.PolicyEventFilter{Kind: action.EventApp, Subject: "github"})
		h.equal(len(events), 3, "events")
		for _, e := range events {
			var told action.ProviderApp
			h.ok(json.Unmarshal(e.Before, &told))
			if text := string(e.Before) + string(e.After); strings.Contains(text, "ealed") {
				h.Errorf("the event tells %s", text)
			}
		}
		if e := events[2]; !strings.Contains(string(e.After), `"secrets":["client_secret","private_key"]`) {
			h.Errorf("the event does not name the secrets: %s", e.After)
		}
	},
	"an app registration in use cannot be deleted": func(h *house) {
		app, broker := h.registered(), h.registered()
		app.Provider, broker.Provider = "slack", "nango"
		own, brokered, token := h.private("T1", "bob"), h.slack("T2"), h.slack("T3")
		brokered.Broker, token.Kind = action.BrokerNango, action.KindBotToken
		own, brokered, _ = h.connected(own), h.connected(brokered), h.connected(token)
		for _, row := range []struct {
			app  action.ProviderApp
			user action.Integration
		}{{app, own}, {broker, brokered}} {
			h.ok(h.db.PutProviderApp(h.ctx, row.app, "alice"))
			e := h.refused(h.db.DeleteProviderApp(h.ctx, h.org.ID, row.app.Provider, "alice"), action.ErrConflict, "provider_app_in_use")
			if !strings.HasPrefix(e.Message, "1 ") || strings.Contains(e.Message, row.user.Name) {
				h.Errorf("the message: %s", e.Message)
			}
			h.setIntegration(row.user.ID, action.IntegrationDeleted, "")
			h.ok(h.db.DeleteProviderApp(h.ctx, h.org.ID, row.app.Provider, "alice"))
		}
	},
	"an invalid app registration is refused by field": func(h *house) {
		for field, change := range map[string]func(*action.ProviderApp){
			"/provider":  func(a *action.ProviderApp) { a.Provider = "" },
			"/client_id": func(a *action.ProviderApp) { a.ClientID = "a\n" },
			"/slug":      func(a *action.ProviderApp) { a.Slug = "ä" },
			"/app_id":    func(a *action.ProviderApp) { a.AppID = long(200) },
			"/base_url":  func(a *action.ProviderApp) { a.BaseURL = "github.example.com" },
			"/keys":      func(a *action.ProviderApp) { a.Keys = map[string]string{"slack": ""} },
		} {
			a := h.registered()
			change(&a)
			h.invalid(h.db.PutProviderApp(h.ctx, a, "alice"), field, "a registration")
		}
	},
}
