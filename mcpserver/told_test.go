package mcpserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/mcpserver"
)

// scripted is a Gate that answers what it is told to.
type scripted struct {
	*gate
	answer func() (*action.Outcome, error)
}

func (g *scripted) Call(context.Context, *action.Call) (*action.Outcome, error) { return g.answer() }

func (g *scripted) Wait(context.Context, *action.Session, string, action.Waiting) (*action.Outcome, error) {
	return g.answer()
}

func (g *scripted) Status(context.Context, *action.Session, string) (action.Invocation, error) {
	o, err := g.answer()
	return o.Invocation, err
}

// asking is every way to hear of a call.
var asking = []string{"read", "invocation_wait", "invocation_status"}

func ask(id any, tool string) string {
	return callBody(id, tool, `,"arguments":{"invocation_id":"inv-1"}`)
}

// Nobody is told that nothing was executed unless it is proven; who asks for a
// call that was made before never is.
func TestNothingWasExecuted(t *testing.T) {
	const nothing = "nothing was executed"
	kind := func(kind error, code, invocation, message string) *action.Error {
		return &action.Error{Kind: kind, Code: code, Invocation: invocation, Message: message, RetryAfter: 5 * time.Second}
	}
	const away = "What became of this call cannot be read just now. Ask for it again in a few seconds."
	for _, test := range []struct {
		name   string
		err    error
		row    string // of the outcome beside the error
		proven bool
	}{
		{name: "shutting down", err: kind(action.ErrNotReady, "shutting_down", "", "The gateway is shutting down; nothing was executed."), proven: true},
		{name: "rate", err: kind(action.ErrTooMany, "rate_limited", "", "Too many calls."), proven: true},
		{name: "held calls", err: kind(action.ErrTooMany, "too_many_pending", "", "Too many wait."), proven: true},
		{name: "policy moved", err: action.ErrPolicyMoved, proven: true},
		{name: "too large", err: kind(action.ErrTooLarge, "params_too_large", "", "Send less."), proven: true},
		{name: "source not heard", err: kind(action.ErrUnavailable, "source_not_ready", "", "Demo has not answered yet."), proven: true},
		{name: "rows away", err: kind(action.ErrNotReady, "database_unavailable", "", away)},
		{name: "rows away, of the store", err: kind(action.ErrUnavailable, "database_unavailable", "", away)},
		{name: "row away", err: kind(action.ErrNotReady, "database_unavailable", "inv-1", away)},
		{name: "a row that is known", err: kind(action.ErrUnavailable, "later", "inv-1", "Not now.")},
		{name: "a row beside the error", err: kind(action.ErrUnavailable, "later", "", "Not now."), row: "inv-1"},
		{name: "key of another call", err: kind(action.ErrConflict, "idempotency_key_reused", "inv-1", "This key was used.")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			g := &scripted{gate: newGate(read())}
			g.answer = func() (*action.Outcome, error) {
				return &action.Outcome{Invocation: action.Invocation{ID: test.row}}, test.err
			}
			s := newServer(t, g.gate, &hints{}, func(c *mcpserver.Config) { c.Gate = g })
			end(t, s)
			id := begin(t, s, "token-a")
			for i, tool := range asking {
				text := serve(s, rpc("token-a", id, ask(i, tool))).Body.String()
				if got, want := strings.Contains(strings.ToLower(text), nothing), test.proven && tool == "read"; got != want {
					t.Errorf("%s: told that %s: %v, want %v: %s", tool, nothing, got, want, text)
				}
				if strings.Count(text, "gain in") > 1 {
					t.Errorf("%s: told twice when to try again: %s", tool, text)
				}
				var e *action.Error
				if errors.As(test.err, &e); !strings.Contains(text, `"isError":true`) || !strings.Contains(text, "(invocation "+e.Invocation+")") && e.Invocation != "" {
					t.Errorf("%s: %s", tool, text)
				}
			}
		})
	}
}

// A call that began and whose row cannot be found is not a tool that is not
// known.
func TestLostRow(t *testing.T) {
	g := &scripted{gate: newGate(read())}
	g.answer = func() (*action.Outcome, error) {
		return &action.Outcome{Invocation: action.Invocation{ID: "inv-1"}}, action.Errorf(action.ErrNotFound, "invocation_not_found", "There is no such invocation.")
	}
	s := newServer(t, g.gate, &hints{}, func(c *mcpserver.Config) { c.Gate = g })
	end(t, s)
	id := begin(t, s, "token-a")
	for i, tool := range asking {
		want := "Invocation not found"
		if tool == "read" {
			want = "may or may not have happened"
		}
		if text := serve(s, rpc("token-a", id, ask(i, tool))).Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s: %s", tool, text)
		}
	}
}

// A shutdown says the same to everyone, whether the Gate lets him go or Drain,
// and to who comes too late only what is true of his call.
func TestShutdownMessages(t *testing.T) {
	g := &scripted{gate: newGate(read())}
	stopped, entered := make(chan struct{}), make(chan struct{}, 2)
	g.answer = func() (*action.Outcome, error) {
		entered <- struct{}{}
		<-stopped
		return &action.Outcome{Invocation: action.Invocation{ID: "inv-1", Status: action.StatusPending, SourceName: "Demo", Action: "read"}}, nil
	}
	s := newServer(t, g.gate, &hints{}, func(c *mcpserver.Config) { c.Gate = g })
	id := begin(t, s, "token-a")
	waiting := asking[:2]
	answers := make(chan string, len(waiting))
	for i, tool := range waiting {
		go func() { answers <- serve(s, rpc("token-a", id, ask(i, tool))).Body.String() }()
		<-entered
	}
	drained := make(chan error, 1)
	go func() { drained <- s.Drain(t.Context()) }()
	eventually(t, "no new call is taken", s.Draining)
	for i, tool := range asking {
		text := serve(s, rpc("token-a", id, ask(10+i, tool))).Body.String()
		if own := tool != "read"; strings.Contains(text, "nothing was executed") == own || strings.Contains(text, "restarting") != own {
			t.Errorf("%s, too late: %s", tool, text)
		}
	}
	close(stopped)
	for range waiting {
		if text := <-answers; !strings.Contains(text, `"The gateway is restarting. PENDING: Demo read needs`) {
			t.Error("let go by the Gate:", text)
		}
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// How a call ended is told once, with what can be done about it: what a ceiling
// lacks, its own sentence says.
func TestSessionEndIsSignaledOnce(t *testing.T) {
	denied := func(layer action.Layer, note string) action.Invocation {
		return action.Invocation{Status: action.StatusDenied, DeniedReason: action.DeniedPolicy, Mode: action.ModeDeny, ModeSource: layer, DeniedNote: note}
	}
	failed := func(message string) action.Invocation {
		return action.Invocation{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedReach, Message: message}}
	}
	for name, c := range map[string]struct {
		inv  action.Invocation
		want string
	}{
		"not connected": {
			denied(action.LayerCeiling, "The session is not connected to Linear. Create a session connected to 'Acme' or to all integrations."),
			"Linear read is denied by policy (layer: ceiling); nothing was executed. The session is not connected to Linear. Create a session connected to 'Acme' or to all integrations. Do not repeat it. Tell the user that only a person can give this session what it needs. (invocation inv-1)",
		},
		"a mode": {denied(action.LayerOrganization, "No."), "Linear read is denied by policy (layer: organization); nothing was executed. No. Do not repeat it. Tell the user that an admin can change the policy. (invocation inv-1)"},
		"a limit": {
			action.Invocation{Status: action.StatusDenied, DeniedReason: action.DeniedQuota, Mode: action.ModeAllow, ModeSource: action.LayerInferred, DeniedNote: "5 requests wait."},
			"Linear read was not executed, because this session reached a limit of the gateway; nothing was executed. Reason given: 5 requests wait. You can repeat the same call then. (invocation inv-1)",
		},
		"a name of one's": {failed("Linear wants fewer requests. Nothing was executed. It may be tried again in 1m0s."), "Linear wants fewer requests. Nothing was executed. It may be tried again in 1m0s. (invocation inv-1)"},
		"out of reach":    {failed("Nobody answers at x."), "Linear gave no answer: Nobody answers at x. (invocation inv-1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &scripted{gate: newGate(read())}
			g.answer = func() (*action.Outcome, error) {
				inv := c.inv
				inv.ID, inv.SourceName, inv.Action = "inv-1", "Linear", "read"
				return &action.Outcome{Invocation: inv}, nil
			}
			s := newServer(t, g.gate, &hints{}, func(c *mcpserver.Config) { c.Gate = g })
			end(t, s)
			if text := serve(s, rpc("token-a", begin(t, s, "token-a"), ask(1, "read"))).Body.String(); !strings.Contains(text, `"`+c.want+`"`) {
				t.Errorf("told %s\nwant %s", text, c.want)
			}
		})
	}
}
