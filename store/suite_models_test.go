package store_test

import (
	"fmt"
	"sync"
	"time"

	"sallyport/action"
)

func modelStories() map[string]func(*house) {
	return map[string]func(*house){
		"settings change one at a time": modelSettingsRace,
		"use is counted once":           modelUseOnce,
		"budgets":                       modelBudgets,
		"lost requests":                 lostModelRequests,
	}
}

func (h *house) modelRequest(id string) action.ModelRequest {
	return action.ModelRequest{ID: id, Organization: h.org.ID, Session: h.s.ID, Group: "dev", Automation: "nightly", Provider: "p", Model: "m", CreatedAt: h.now}
}

func (h *house) endedRequest(r action.ModelRequest, t action.ModelTokens) action.ModelRequest {
	h.Helper()
	r.EndedAt, r.Status, r.ModelTokens, r.Cost, r.Priced = &h.now, 200, t, t.Sum(), true
	h.ok(h.db.EndModelRequest(h.ctx, &r))
	return r
}

// modelSettingsRace: changes of several instances at once are all kept.
func modelSettingsRace(h *house) {
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			_, err := h.any(i).ChangeModelSettings(h.ctx, h.org.ID, "alice", func(m *action.ModelSettings) error {
				m.Prices = append(m.Prices, action.ModelPrice{Model: fmt.Sprintf("p/m%d", i), Input: 1})
				return nil
			})
			if err != nil {
				h.Error(err)
			}
		})
	}
	all.Wait()
	if got := must(h.db.ModelSettings(h.ctx, h.org.ID))(h); len(got.Prices) != 10 {
		h.Errorf("the settings are %+v", got)
	}
	_, err := h.db.ChangeModelSettings(h.ctx, h.org.ID, "alice", func(m *action.ModelSettings) error {
		m.Providers = append(m.Providers, action.ModelProvider{Name: "p", Dialect: action.DialectOpenAI, URL: "https://x.example", Secret: "none"})
		return nil
	})
	h.refused(err, action.ErrNotFound, "secret_not_found")
	for n, host := range []string{"y.example", "example", "x.example:8443", "x.example", "X.example:443"} {
		h.ok(h.db.PutSecret(h.ctx, action.Secret{Organization: h.org.ID, Key: "key", Host: host, UpdatedBy: "alice", CreatedAt: h.now, UpdatedAt: h.now}, []byte("sealed")))
		_, err := h.db.ChangeModelSettings(h.ctx, h.org.ID, "alice", func(m *action.ModelSettings) error {
			m.Providers = []action.ModelProvider{{Name: fmt.Sprint("p", n), Dialect: action.DialectOpenAI, URL: "https://x.example", Secret: "key"}}
			return nil
		})
		if n < 3 {
			h.refused(err, action.ErrInvalid, "provider_secret_host")
		} else {
			h.ok(err)
		}
	}
	if e := h.history(action.PolicyEventFilter{})[0]; e.Kind != action.EventSettings || e.Subject != "models" || e.By != "alice" {
		h.Errorf("the change is recorded as %+v", e)
	}
}

// modelUseOnce: a request counts at its end, once, also one that was refused before it began.
func modelUseOnce(h *house) {
	r := h.modelRequest("a")
	for range 2 {
		h.ok(h.db.BeginModelRequest(h.ctx, &r))
	}
	tokens := action.ModelTokens{Input: 1, Cached: 2, CacheWrite: 3, Output: 4}
	for range 2 {
		h.endedRequest(r, tokens)
	}
	refused := h.modelRequest("b")
	refused.EndedAt, refused.Status, refused.Code = &h.now, 403, "model_budget"
	h.ok(h.db.EndModelRequest(h.ctx, &refused))
	other := h.modelRequest("c")
	other.Model, other.CreatedAt = "n", h.now.Add(-48*time.Hour)
	h.endedRequest(other, action.ModelTokens{Input: 100})

	for by, want := range map[string]string{
		"model":      "[{p/n 1 0 {100 0 0 0} 100 0} {p/m 1 1 {1 2 3 4} 10 0}]",
		"session":    "[{" + h.s.ID + " 2 1 {101 2 3 4} 110 0}]",
		"automation": "[{nightly 2 1 {101 2 3 4} 110 0}]",
		"day": fmt.Sprintf("[{%s 1 1 {1 2 3 4} 10 0} {%s 1 0 {100 0 0 0} 100 0}]",
			h.now.Format(time.DateOnly), other.CreatedAt.Format(time.DateOnly)),
	} {
		if got := fmt.Sprint(must(h.db.ModelUsage(h.ctx, action.ModelUsageFilter{Organization: h.org.ID, By: by}))(h)); got != want {
			h.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
	if got := must(h.db.ModelUsage(h.ctx, action.ModelUsageFilter{Organization: h.org.ID, By: "model", Since: h.now}))(h); len(got) != 1 {
		h.Errorf("since today: %+v", got)
	}
	page := must(h.db.ListModelRequests(h.ctx, action.ModelRequestFilter{Organization: h.org.ID, Limit: 2}))(h)
	if len(page.Items) != 2 || page.Total != 3 || page.Next == "" || page.Items[1].ModelTokens != tokens || !page.Items[1].Priced {
		h.Errorf("the list is %+v", page)
	}
}

// modelBudgets count what belongs to their scope and period.
func modelBudgets(h *house) {
	h.s.Group, h.s.Automation = "dev", "nightly"
	h.endedRequest(h.modelRequest("now"), action.ModelTokens{Output: 1})
	other := h.modelRequest("another session")
	other.Session, other.Automation = "s2", ""
	h.endedRequest(other, action.ModelTokens{Output: 10})
	foreign := h.modelRequest("another group")
	foreign.Session, foreign.Group, foreign.Automation = "s3", "", ""
	h.endedRequest(foreign, action.ModelTokens{Output: 100})
	old := h.modelRequest("long ago")
	old.CreatedAt = h.now.Add(-40 * 24 * time.Hour)
	h.endedRequest(old, action.ModelTokens{Output: 1000})
	for _, c := range []struct {
		scope string
		per   action.ModelPeriod
		want  int64
	}{
		{"organization", action.EachSession, 1001},
		{"organization", action.EachDay, 111},
		{"organization", action.EachMonth, 111},
		{"group:dev", action.EachDay, 11},
		{"automation:nightly", action.EachMonth, 1},
		{"automation:nightly", action.EachSession, 1001},
	} {
		tokens, cost, err := h.db.ModelSpent(h.ctx, &h.s, &action.ModelLimit{Scope: c.scope, Per: c.per}, h.now)
		if err != nil || tokens != c.want || cost != c.want {
			h.Errorf("%s per %s: %d tokens, %d, %v; want %d", c.scope, c.per, tokens, cost, err, c.want)
		}
	}
}

// lostModelRequests end without tokens; old ones are deleted, and their sums stay.
func lostModelRequests(h *house) {
	lost := h.modelRequest("lost")
	lost.CreatedAt = h.now.Add(-7 * time.Hour)
	h.ok(h.db.BeginModelRequest(h.ctx, &lost))
	running := h.modelRequest("running")
	h.ok(h.db.BeginModelRequest(h.ctx, &running))
	must(h.db.EndLostModelRequests(h.ctx, h.now.Add(-6*time.Hour), 100))(h)
	for _, r := range must(h.db.ListModelRequests(h.ctx, action.ModelRequestFilter{Organization: h.org.ID}))(h).Items {
		if ended := r.EndedAt != nil; ended != (r.ID == "lost") || ended && r.Code != "model_interrupted" {
			h.Errorf("%+v", r)
		}
	}
	h.endedRequest(running, action.ModelTokens{Output: 5})
	for n := 1; n > 0; {
		n = must(h.db.SweepModelRequests(h.ctx, h.now.Add(-time.Hour), 100))(h)
	}
	if page := must(h.db.ListModelRequests(h.ctx, action.ModelRequestFilter{Organization: h.org.ID}))(h); page.Total != 1 || page.Items[0].ID != "running" {
		h.Errorf("left are %+v", page.Items)
	}
}
