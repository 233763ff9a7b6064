package credential_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
)

// Uninstalling an app ends all that the account's other integrations have.
func TestWhatOthersNeedIsNotGivenBack(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	shared := installed(t, tokens)
	w := app()
	w.Visibility = action.VisiblePrivate
	private, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, action.ConnectCallback{Provider: "acme", State: begin(t, tokens, w).State, Installation: "42"})
	if err != nil || private.ID == shared.ID {
		t.Fatalf("got %+v, %v", private, err)
	}
	if revoked, err := tokens.Disconnect(t.Context(), private, "ann"); err != nil || revoked || h.gone {
		t.Errorf("of two: got %v, %v; uninstalled: %v", revoked, err, h.gone)
	}
	if row := b.row(private.ID); row.Status != action.IntegrationDeleted || row.Sealed != nil {
		t.Errorf("it is %s", row.Status)
	}
	if got, err := tokens.Token(t.Context(), shared); got != "ghs_canary1" || err != nil {
		t.Errorf("the other one has %q, %v", got, err)
	}
	if revoked, err := tokens.Disconnect(t.Context(), shared, "ann"); err != nil || !revoked || !h.gone {
		t.Errorf("of one: got %v, %v; uninstalled: %v", revoked, err, h.gone)
	}
}

// revoking is a service whose keys are accounts of their own, and that remembers
// those that were given back.
func (b *bank) revoking(gone *[]string) *sources.Module {
	return b.module(func(m *sources.Module) {
		m.Settings = nil
		m.Account = func(_ context.Context, c *sources.Conn) (sources.Account, error) {
			return sources.Account{ID: "of " + c.Token[len(c.Token)-1:]}, nil
		}
		m.Revoke = func(_ context.Context, c *sources.Conn) error { *gone = append(*gone, c.Token); return nil }
	})
}

func TestReplacedOwnConnectionIsGivenBack(t *testing.T) {
	b := newBank(t)
	var gone []string
	tokens := b.instance(b.revoking(&gone))
	w := key()
	w.Own = true
	first, err := tokens.Connect(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []func(*action.ConnectRequest){
		func(w *action.ConnectRequest) { w.By = "bob" }, func(w *action.ConnectRequest) { w.Own = false }, // which stay
		func(w *action.ConnectRequest) { w.Secret = "key-canary-2" },
	} {
		if len(gone) > 0 {
			t.Errorf("%q were given back", gone)
		}
		next := w
		next.Secret = "key-canary-3"
		other(&next)
		if _, err := tokens.Connect(t.Context(), next); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(gone, []string{"key-canary-1"}) || b.row(first.ID).Status != action.IntegrationDeleted {
		t.Errorf("%q were given back; the first is %s", gone, b.row(first.ID).Status)
	}
}

// A renewal that is under way brings a credential that is to be given back, too.
func TestDisconnectWaitsForARenewal(t *testing.T) {
	b := newBank(t)
	a, tokens := b.signing()
	in := connected(t, tokens)
	asked, answer := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		<-answer
		a.grant(w, r)
	})
	a.trouble.Store(&h)
	b.pass(3 * time.Hour)
	ended := make(chan error, 2)
	go func() { _, err := tokens.Token(t.Context(), in); ended <- err }()
	<-asked
	go func() { _, err := tokens.Disconnect(t.Context(), in, "ann"); ended <- err }()
	time.Sleep(20 * time.Millisecond) // who does not wait would be done by then
	close(answer)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if b.good("access-canary-1") || b.good("access-canary-2") || b.row(in.ID).Status != action.IntegrationDeleted {
		t.Errorf("the renewed token is good: %v; it is %s", b.good("access-canary-2"), b.row(in.ID).Status)
	}
}

// One refusal ends a key only where the service does not take it at all.
func TestRefusedKeyIsLookedAt(t *testing.T) {
	away := action.Errorf(action.ErrUnavailable, sources.FaultFailed, "It is away.")
	for name, c := range map[string]struct {
		says   error
		code   string
		status action.IntegrationStatus
	}{
		"it is good":   {nil, sources.FaultRefused, action.IntegrationActive},
		"it may less":  {&sources.Refusal{Code: "scope", Status: 403}, sources.FaultRefused, action.IntegrationActive},
		"it is away":   {away, sources.FaultFailed, action.IntegrationActive},
		"it is no key": {&sources.Refusal{Code: "bad", Status: 401, Credential: true}, sources.FaultReconnect, action.IntegrationRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t)
			var says error
			tokens := b.instance(b.module(func(m *sources.Module) {
				m.Settings = nil
				m.Account = func(ctx context.Context, c *sources.Conn) (sources.Account, error) {
					_, _ = c.HTTP.Do(ctx, &outbound.Request{Method: "GET", Path: "/me", Header: http.Header{"Authorization": {"Bearer " + c.Token}}})
					return sources.Account{ID: "a"}, says
				}
			}))
			in, err := tokens.Connect(t.Context(), key())
			if err != nil {
				t.Fatal(err)
			}
			says = c.says
			again, err := tokens.Refused(t.Context(), in, "key-canary-1", "missing_scope key-canary-1")
			fails(t, err, action.ErrUnavailable, c.code, "")
			if row := b.row(in.ID); again || row.Status != c.status {
				t.Errorf("again: %v; it is %s", again, row.Status)
			}
			if b.requests("GET /me Bearer key-canary-1") != 2 {
				t.Error("it was not asked with the key")
			}
		})
	}
}
