package credential_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

// movesAt has the integration connected again, by another instance, while the
// service is asked at a path.
func (b *bank) movesAt(id, path string) {
	b.on = func(r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, path) {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		row := b.rows[id]
		row.Version++
		b.rows[id] = row
	}
}

func TestLateFindingOfAnInstallationBuriesNothing(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	in := installed(t, tokens)
	h.with(func() { h.gone = true })
	b.movesAt(in.ID, "/api/v3/app")
	_, err := tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultCredential, "has just changed. Retry")
	if row := b.row(in.ID); row.Status != action.IntegrationActive {
		t.Errorf("what was connected meanwhile is %s", row.Status)
	}
	b.on = nil
	h.with(func() { h.gone = false })
	if got, err := tokens.Token(t.Context(), in); got != "ghs_canary1" || err != nil {
		t.Errorf("at once: got %q, %v", got, err)
	}
}

func TestLateFindingOfARenewalBuriesNothing(t *testing.T) {
	b := newBank(t)
	a, tokens := b.signing()
	in := connected(t, tokens)
	a.answers(http.StatusBadRequest, `{"error":"invalid_grant"}`)
	b.movesAt(in.ID, "/oauth/token")
	b.pass(3 * time.Hour)
	_, err := tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultCredential, "has just changed. Retry")
	if row := b.row(in.ID); row.Status != action.IntegrationActive {
		t.Errorf("what was connected meanwhile is %s", row.Status)
	}
	b.on = nil
	a.answers(0, "")
	if got, err := tokens.Token(t.Context(), in); got != "access-canary-2" || err != nil {
		t.Errorf("at once: got %q, %v", got, err)
	}
}

// A credential of another registration than today's is dead, and seen to be.
func TestChangedRegistrationIsTold(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	in := connected(t, tokens)
	secrets := map[string]string{action.AppClientSecret: "secret-canary"}
	b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "another", BaseURL: b.url}, secrets)
	b.pass(3 * time.Hour)
	_, err := tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "The gateway's registration at Acme has changed. Connect it again. A person must do so")
	if row := b.row(in.ID); row.Status != action.IntegrationExpired || row.Reason != "The gateway's registration at Acme has changed. Connect it again." {
		t.Errorf("it is %s: %s", row.Status, row.Reason)
	}
	b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client", BaseURL: b.url}, secrets)
	b.pass(time.Minute)
	if got, err := tokens.Check(t.Context(), in); err != nil || got.Status != action.IntegrationActive {
		t.Errorf("as it was before it is %s: %v", got.Status, err)
	}
}

func TestChangedHostOfAnAppIsTold(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	in := installed(t, tokens)
	b.register(tokens, action.ProviderApp{Provider: "acme", AppID: "7", Slug: "sallyport", BaseURL: "https://git.example/api/v3"}, map[string]string{action.AppPrivateKey: h.pem()})
	_, err := tokens.Token(t.Context(), in)
	fails(t, err, action.ErrUnavailable, sources.FaultReconnect, "Install the app again")
	if row := b.row(in.ID); row.Status != action.IntegrationExpired {
		t.Errorf("it is %s", row.Status)
	}
}

// sealing counts.
type sealing struct {
	action.Vault
	n *atomic.Int64
}

func (s sealing) Seal(ref action.Ref, plain []byte) ([]byte, error) {
	s.n.Add(1)
	return s.Vault.Seal(ref, plain)
}

// The vault's key may be replaced between two tries to write: what was sealed
// before could not be opened after it.
func TestEachTryIsSealedAnew(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	in := connected(t, tokens)
	var n atomic.Int64
	other := b.instance(b.module(), func(c *credential.TokensConfig) { c.Vault = sealing{c.Vault, &n} })
	b.pass(3 * time.Hour)
	b.broken = 2
	if got, err := other.Token(t.Context(), in); got != "access-canary-2" || err != nil || n.Load() != 3 {
		t.Errorf("got %q, %v, sealed %d times for three tries", got, err, n.Load())
	}
}

// Those who waited for a renewal need no lock to see that it was done.
func TestWaitersTakeNoLock(t *testing.T) {
	b := newBank(t)
	_, tokens := b.signing()
	in := connected(t, tokens)
	var n atomic.Int64
	counted := b.instance(b.module(), func(c *credential.TokensConfig) {
		lock := c.Lock
		c.Lock = func(ctx context.Context, name string) (func(), error) { n.Add(1); return lock(ctx, name) }
	})
	b.pass(3 * time.Hour)
	if got := fifty(t, in, counted); got["access-canary-2"] != 50 || n.Load() != 1 {
		t.Errorf("got %v with %d locks", got, n.Load())
	}
}
