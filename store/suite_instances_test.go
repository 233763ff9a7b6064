package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"sallyport/action"
	"sallyport/store/database"
	"sallyport/store/history"
)

func (h *house) post(session, data string) database.Signal {
	h.Helper()
	return must(h.db.PostSignal(h.ctx, database.Signal{Organization: h.org.ID, Session: session, Kind: "cancel", Data: json.RawMessage(data)}))(h)
}

// versions of the house's organization.
func (h *house) versions() history.Versions {
	h.Helper()
	for _, v := range must(h.db.Versions(h.ctx))(h) {
		if v.Organization == h.org.ID {
			return v
		}
	}
	h.Fatal("the organization has no versions")
	return history.Versions{}
}

// fails checks an error's kind alone, and may be called from any goroutine.
func fails(h *house, err, kind error) {
	h.Helper()
	if !errors.Is(err, kind) {
		h.Errorf("error %v, want %v", err, kind)
	}
}

var instanceStories = map[string]func(*house){
	"signals of all organizations are read, oldest first": func(h *house) {
		start := h.db.Now()
		other := newHouse(h.T, h.db)
		want := []database.Signal{h.post("s1", `{"n": 12345678901234567890}`), other.post("s2", ""), h.post("s1", `[]`)}
		got := must(h.db.Signals(h.ctx, start.Add(-time.Second), 10))(h)
		h.equal(got, want, "signals")
		h.equal([]string{string(got[0].Data), string(got[1].Data), got[1].Organization}, []string{`{"n": 12345678901234567890}`, `{}`, other.org.ID}, "what they carry")
		h.equal(must(h.db.Signals(h.ctx, time.Time{}, 2))(h), want[:2], "a page")
		h.equal(must(h.db.Signals(h.ctx, want[1].CreatedAt, 0))(h), want[1:], "those since the second")
		h.equal(len(must(h.db.Signals(h.ctx, want[2].CreatedAt.Add(time.Microsecond), 10))(h)), 0, "those after the last")
	},
	"a signal gets the store's ID and time": func(h *house) {
		mine := database.Signal{ID: "mine", Organization: h.org.ID, Session: "s", Kind: "end", CreatedAt: h.now.Add(-time.Hour)}
		s := must(h.db.PostSignal(h.ctx, mine))(h)
		if s.ID == "mine" || s.ID == "" || s.CreatedAt.Before(h.now) {
			h.Errorf("posted %+v, at %s", s, h.now)
		}
	},
	"an invalid signal is refused": func(h *house) {
		full := `"` + strings.Repeat("é", database.MaxSignal/2-1) + `"`
		h.post("s", full)
		for field, s := range map[string]database.Signal{
			"/session": {Kind: "k"},
			"/kind":    {Session: "s"},
			"/data":    {Session: "s", Kind: "k", Data: json.RawMessage(`{"a":`)},
		} {
			s.Organization = h.org.ID
			_, err := h.db.PostSignal(h.ctx, s)
			h.equal(h.refused(err, action.ErrInvalid, "invalid").Field, field, "field")
		}
		_, err := h.db.PostSignal(h.ctx, database.Signal{Organization: h.org.ID, Session: "s", Kind: "k", Data: json.RawMessage("\"\xff\"")})
		h.refused(err, action.ErrInvalid, "invalid")
		_, err = h.db.PostSignal(h.ctx, database.Signal{Organization: h.org.ID, Session: "s", Kind: "k", Data: json.RawMessage(full + " ")})
		h.refused(err, action.ErrTooLarge, "signal_too_large")
		if _, err = h.db.PostSignal(h.ctx, database.Signal{Organization: newID(), Session: "s", Kind: "k"}); err == nil {
			h.Error("posted for an organization that does not exist")
		}
		h.equal(len(must(h.db.Signals(h.ctx, time.Time{}, 10))(h)), 1, "signals")
	},
	"old signals are swept, the oldest first": func(h *house) {
		var all []database.Signal
		for i := range 5 {
			all = append(all, h.post("s", fmt.Sprint(i)))
		}
		before := all[3].CreatedAt
		h.equal(must(h.db.SweepSignals(h.ctx, before, 2))(h), 2, "swept first")
		h.equal(must(h.db.Signals(h.ctx, time.Time{}, 10))(h), all[2:], "left")
		h.equal(must(h.db.SweepSignals(h.ctx, before, 0))(h), 1, "swept then")
		h.equal(must(h.db.SweepSignals(h.ctx, before, 2))(h), 0, "swept at last")
		h.equal(must(h.db.Signals(h.ctx, time.Time{}, 10))(h), all[3:], "left at last")
	},
	"without a limit it is a hundred": func(h *house) {
		for range 101 {
			h.post("s", "1")
		}
		h.equal(len(must(h.db.Signals(h.ctx, time.Time{}, 0))(h)), 100, "signals")
		h.equal(must(h.db.SweepSignals(h.ctx, h.db.Now().Add(time.Hour), 0))(h), 100, "swept")
	},
	"an MCP session ends once, for its organization": func(h *house) {
		ended := func(h *house, session string) bool {
			h.Helper()
			return must(h.db.MCPSessionEnded(h.ctx, h.org.ID, session))(h)
		}
		h.equal(ended(h, "s"), false, "ended at first")
		h.ok(h.db.EndMCPSession(h.ctx, h.org.ID, "s", h.now.Add(time.Hour)))
		h.ok(h.db.EndMCPSession(h.ctx, h.org.ID, "s", h.now.Add(2*time.Hour)))
		h.ok(h.db.EndMCPSession(h.ctx, h.org.ID, "s", h.now)) // takes nothing back
		h.equal([]bool{ended(h, "s"), ended(h, "t"), ended(newHouse(h.T, h.db), "s")}, []bool{true, false, false}, "ended")
		h.equal(must(h.db.SweepMCPSessions(h.ctx, h.now.Add(2*time.Hour), 10))(h), 0, "swept early")
		h.equal(ended(h, "s"), true, "ended before the id expires")
		h.equal(must(h.db.SweepMCPSessions(h.ctx, h.now.Add(2*time.Hour+time.Microsecond), 10))(h), 1, "swept")
		h.equal(ended(h, "s"), false, "ended after the sweep")
		if err := h.db.EndMCPSession(h.ctx, h.org.ID, "s", time.Time{}); err == nil {
			h.Error("ended until no time")
		}
		if err := h.db.EndMCPSession(h.ctx, h.org.ID, "", h.now); err == nil {
			h.Error("ended no session")
		}
	},
	"ended sessions are swept by organization and session, few at a time": func(h *house) {
		other := newHouse(h.T, h.db)
		for i := range 3 {
			h.ok(h.db.EndMCPSession(h.ctx, h.org.ID, fmt.Sprint(i), h.now))
			h.ok(h.db.EndMCPSession(h.ctx, other.org.ID, fmt.Sprint(i), h.now.Add(time.Hour)))
		}
		h.later(time.Minute)
		h.equal(must(h.db.SweepMCPSessions(h.ctx, h.now, 2))(h), 2, "swept first")
		h.equal(must(h.db.SweepMCPSessions(h.ctx, h.now, 0))(h), 1, "swept then")
		for i := range 3 {
			h.equal(must(h.db.MCPSessionEnded(h.ctx, other.org.ID, fmt.Sprint(i)))(h), true, "ended in the other organization")
		}
	},
	"all have the keys of the first": func(h *house) {
		first := map[string]string{"master": "f1", "token": "f2"}
		h.ok(h.db.CheckKeys(h.ctx, nil))
		h.ok(h.db.CheckKeys(h.ctx, first))
		h.ok(h.db.CheckKeys(h.ctx, first))
		for name, variable := range map[string]string{"master": "SALLYPORT_MASTER_KEY", "token": "SALLYPORT_TOKEN_KEY"} {
			other := maps.Clone(first)
			other[name], other["new"] = "f3", "f4"
			e := h.refused(h.db.CheckKeys(h.ctx, other), action.ErrConflict, "key_differs")
			if !strings.Contains(e.Message, "another "+name+" key") || !strings.Contains(e.Message, variable) || strings.Contains(e.Message, "f1") {
				h.Errorf("the message is %q", e.Message)
			}
		}
		first["new"] = "f5"
		h.ok(h.db.CheckKeys(h.ctx, first)) // the refused ones wrote nothing
		h.refused(h.db.CheckKeys(h.ctx, map[string]string{"new": "f4"}), action.ErrConflict, "key_differs")
	},
	"a key is replaced only by its previous fingerprint": func(h *house) {
		h.equal(must(h.db.CheckedKey(h.ctx, "turned"))(h), "", "before anybody came")
		h.refused(h.db.ReplaceKey(h.ctx, "turned", "f2", "f1"), action.ErrConflict, "key_differs")
		h.ok(h.db.CheckKeys(h.ctx, map[string]string{"turned": "f1", "other": "f1"}))
		h.refused(h.db.ReplaceKey(h.ctx, "turned", "f2", "f3"), action.ErrConflict, "key_differs")
		h.refused(h.db.ReplaceKey(h.ctx, "turned", "f2"), action.ErrConflict, "key_differs")
		for range 2 { // the second time it is there
			h.ok(h.any(1).ReplaceKey(h.ctx, "turned", "f2", "f3", "f1"))
		}
		h.equal(must(h.db.CheckedKey(h.ctx, "turned"))(h), "f2", "then")
		h.equal(must(h.db.CheckedKey(h.ctx, "other"))(h), "f1", "the other one")
		h.refused(h.db.CheckKeys(h.ctx, map[string]string{"turned": "f1"}), action.ErrConflict, "key_differs")
		h.ok(h.db.CheckKeys(h.ctx, map[string]string{"turned": "f2"}))
	},
	"of first callers with different keys one wins, with all of its keys": func(h *house) {
		var won atomic.Int64
		together(8, func(i int) {
			err := h.any(i).CheckKeys(h.ctx, map[string]string{"master": fmt.Sprint("m", i), "token": fmt.Sprint("t", i)})
			if err == nil {
				won.Add(1)
			} else {
				fails(h, err, action.ErrConflict)
			}
		})
		h.equal(won.Load(), int64(1), "callers whose keys they are")
	},
	"only changes of connectors increment the catalog version": func(h *house) {
		h.secret("k", "mcp.example.com")
		h.equal(h.versions(), history.Versions{Organization: h.org.ID, Policy: 1, Catalog: 1}, "versions at first")
		other := newHouse(h.T, h.db)
		var c action.Connector
		refused := action.Connector{ID: newID(), Organization: h.org.ID, Name: "Bad", Slug: "gateway", URL: "https://mcp.example.com/mcp"}
		for _, step := range []struct {
			name            string
			do              func()
			policy, catalog int64
		}{
			{"a connector comes", func() { c = h.connector("code", "https://mcp.example.com/mcp") }, 0, 1},
			{"a secret that none uses", func() { h.secret("k", "mcp.example.com") }, 0, 0},
			{"it is renamed", func() { c.Name = "Renamed"; h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice")) }, 0, 1},
			{"it uses the secret", func() { c.Secret = "k"; h.ok(h.db.UpdateConnector(h.ctx, c, nil, "alice")) }, 1, 1},
			{"the secret it uses", func() { h.secret("k", "mcp.example.com") }, 0, 1},
			{"another secret", func() { h.secret("k2", "mcp.example.com"); h.ok(h.db.DeleteSecret(h.ctx, h.org.ID, "k2")) }, 0, 0},
			{"a refused one", func() { fails(h, h.db.CreateConnector(h.ctx, refused, nil, "alice"), action.ErrInvalid) }, 0, 0},
			{"policy", func() {
				h.ok(h.db.SetOverride(h.ctx, action.Override{Organization: h.org.ID, Key: action.Key{Source: "linear", Action: "*"}, Mode: action.ModeDeny, UpdatedBy: "alice"}))
			}, 1, 0},
			{"the connector goes", func() { h.ok(h.removed(c, "alice")) }, 1, 1},
		} {
			want := h.versions()
			step.do()
			want.Policy, want.Catalog = want.Policy+step.policy, want.Catalog+step.catalog
			h.equal(h.versions(), want, "versions after "+step.name)
		}
		h.equal(other.versions(), history.Versions{Organization: other.org.ID, Policy: 1, Catalog: 1}, "versions of the other organization")
	},
}
