package policy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/policy"
)

// dice returns a number from 0 up to, but not including, n.
type dice func(n int) int

// rolled are dice of a seed.
func rolled(seed uint64) dice { return rand.New(rand.NewPCG(seed, 4)).IntN }

// written are dice that the bytes have thrown; after their end all is zero.
func written(data []byte) dice {
	return func(n int) int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b) % n
	}
}

func pick[T any](roll dice, from ...T) T { return from[roll(len(from))] }

func some[T any](roll dice, most int, one func(dice) T) []T {
	list := make([]T, roll(most+1))
	for i := range list {
		list[i] = one(roll)
	}
	return list
}

// world is everything that a decision looks at, of so few names that they
// often meet.
type world struct {
	rules    action.Rules
	sessions []action.Session
	actions  []action.Action
	grants   []action.Grant
	params   []byte
}

func newWorld(roll dice) *world {
	w := &world{params: []byte(pick(roll, `{}`, `{"x":1}`, `{"x":2,"y":{"z":"a"}}`, `{"y":{"z":"b"}}`))}
	w.rules = action.Rules{
		Version:      int64(roll(100)),
		Settings:     action.Settings{SelfApproval: roll(2) == 0, DenialLimit: roll(4)},
		Overrides:    some(roll, 6, someOverride),
		Capabilities: some(roll, 5, someCapability),
		Gates:        some(roll, 6, someApproval),
		Quotas:       some(roll, 4, someQuota),
		Reviewed:     map[action.Key]action.ToolHashes{},
	}
	for range roll(8) {
		w.rules.Reviewed[someKey(roll)] = someHashes(roll)
	}
	for i := range roll(4) {
		w.rules.Integrations = append(w.rules.Integrations, someIntegration(roll, fmt.Sprint("i", i)))
	}
	for range 1 + roll(3) {
		w.sessions = append(w.sessions, someSession(roll))
	}
	for range 1 + roll(4) {
		w.actions = append(w.actions, someAction(roll))
	}
	w.grants = some(roll, 8, someGrant)
	for i := range w.grants {
		w.grants[i].ID = fmt.Sprint("grant ", i)
	}
	return w
}

func someName(roll dice) string  { return pick(roll, "a", "b", "*") }
func someGroup(roll dice) string { return pick(roll, "", "g", "h") }
func someTask(roll dice) string  { return pick(roll, "T-1", "T-2", "") }
func someUser(roll dice) string  { return pick(roll, "u1", "u2") }

func someTime(roll dice) *time.Time {
	if roll(2) == 0 {
		return nil
	}
	return new(noon.Add(time.Duration(roll(5)-2) * time.Minute))
}

func someKey(roll dice) action.Key {
	return pick(roll, action.Key{Source: "*", Action: "*"}, action.Key{Source: "s", Action: someName(roll)}, action.Key{Source: "c", Action: someName(roll)})
}

func someOverride(roll dice) action.Override {
	return action.Override{Automation: pick(roll, "", "", "a1"), Key: someKey(roll), Mode: pick(roll, allow, deny, approve)}
}

func someCapability(roll dice) action.Capability {
	return action.Capability{
		Group: someGroup(roll), Provider: pick(roll, "s", "c"), Level: action.Level(roll(4)),
		AllowedActions: pick(roll, nil, nil, []string{}, []string{someName(roll)}), DeniedActions: pick(roll, nil, nil, []string{someName(roll)}),
		Gate: pick(roll, "G", "H", ""), Rate: pick(roll, nil, &action.Rate{Calls: 1 + roll(9), Seconds: 60}), ExpiresAt: someTime(roll),
	}
}

func someApproval(roll dice) action.GateApproval {
	return action.GateApproval{
		Group: someGroup(roll), Task: someTask(roll), Gate: pick(roll, "G", "H"), Actions: pick(roll, nil, nil, []string{}, []string{someKey(roll).String()}),
		ApprovedBy: someUser(roll), ExpiresAt: someTime(roll), RevokedAt: pick(roll, nil, nil, &past),
	}
}

func someQuota(roll dice) action.Quota {
	return action.Quota{Key: someKey(roll), Per: pick(roll, action.PerSession, action.PerGroup, action.PerCreator, action.PerOrganization), Rate: action.Rate{Calls: 1, Seconds: 1 + roll(9)}}
}

func someHashes(roll dice) action.ToolHashes {
	return action.ToolHashes{Behaviour: pick(roll, "b1", "b2"), Text: pick(roll, "t1", "t2")}
}

func someIntegration(roll dice, id string) action.Integration {
	return action.Integration{
		ID: id, Name: "name of " + id, Organization: "o", Provider: pick(roll, "s", "s", "t"), User: pick(roll, "", "", "", "u1"), CreatedBy: someUser(roll),
		Visibility: pick(roll, action.VisibleOrganization, action.VisibleOrganization, action.VisiblePrivate),
		Status:     pick(roll, action.IntegrationActive, action.IntegrationActive, action.IntegrationRevoked, action.IntegrationDeleted),
		Reason:     pick(roll, "", "It was taken back."),
	}
}

func someSession(roll dice) action.Session {
	return action.Session{
		ID: pick(roll, "s1", "s2", ""), Connections: pick(roll, nil, []string{action.AllConnections}, []string{"i0"}, []string{"i2", "i1", "i0"}), Organization: "o", Automation: pick(roll, "", "a1"), Group: someGroup(roll), Task: someTask(roll),
		Event: pick(roll, "", "e1"), CreatedBy: someUser(roll),
	}
}

func someAction(roll dice) action.Action {
	a := action.Action{Source: "s", Name: someName(roll), Risk: pick(roll, action.RiskRead, "write", "danger", "odd"), Hash: "b1"}
	if roll(2) == 0 {
		a.Source, a.Review, a.Hashes = "c", pick(roll, action.ReviewTrust, action.ReviewStrict, action.ReviewRequired), someHashes(roll)
		a.Hash = hashOf(&a)
	} else if roll(2) == 0 {
		a.Provider, a.OneConnection = a.Source, roll(2) == 0
	}
	return a
}

// hashOf is what sources make of a tool's hashes.
func hashOf(a *action.Action) string {
	if a.Review.CountsText() {
		return a.Hashes.Behaviour + "+" + a.Hashes.Text
	}
	return a.Hashes.Behaviour
}

func someGrant(roll dice) action.Grant {
	g := action.Grant{
		Organization: pick(roll, "o", "o", "o", "o", "p"), CreatedBy: someUser(roll), ToolHash: pick(roll, "", "b1", "b2", "b1+t1", "b2+t1"),
		Terms: action.Terms{
			Scope: pick(roll, action.ScopeSession, action.ScopeOrganization), Source: pick(roll, "s", "c"), Action: someName(roll),
			MaxCalls: pick(roll, nil, nil, new(int64(2))), ExpiresAt: someTime(roll),
		},
		UsedCalls: int64(roll(3)), RevokedAt: pick(roll, nil, nil, nil, &past),
	}
	if g.Scope == action.ScopeSession {
		g.Session = pick(roll, "s1", "s2")
	}
	if roll(3) == 0 {
		g.Any, g.Action, g.Source = true, "", pick(roll, "", "s", "c")
	}
	if roll(3) == 0 {
		g.Pins = pins(pick(roll, "/x", "/y", "/y/z"), pick(roll, "1", "2", `"a"`, `{"z":"a"}`), "/x", pick(roll, "1", "2"))
	}
	return g
}

// calls are all pairs of a session and an action.
func (w *world) calls(f func(s *action.Session, a *action.Action)) {
	for i := range w.sessions {
		for j := range w.actions {
			f(&w.sessions[i], &w.actions[j])
		}
	}
}

// decide decides as the Gate has it done.
func (w *world) decide(p *policy.Policy, now time.Time, s *action.Session, a *action.Action) action.Decision {
	return p.WithGrants(now, p.Decide(now, s, a), s, a, w.params, w.grants)
}

// strictness orders modes: what is denied has the most.
func strictness(m action.Mode) int {
	return map[action.Mode]int{allow: 1, approve: 2, deny: 3}[m]
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// worlds is how many a property is tried in.
const worlds = 800

// everywhere tries a property in many worlds.
func everywhere(t *testing.T, holds func(t *testing.T, roll dice)) {
	t.Helper()
	for seed := range uint64(worlds) {
		if holds(t, rolled(seed)); t.Failed() {
			t.Fatalf("in the world of seed %d", seed)
		}
	}
}
