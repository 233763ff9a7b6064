package credential_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

func TestWhoseNangosConnectionIs(t *testing.T) {
	b := newBank(t)
	_, tokens := b.startBroker()
	whose := func(id, key string) int {
		t.Helper()
		b.pass(6 * time.Second)
		list, err := tokens.Brokered(t.Context(), "org", id, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range list {
			if len(in.Sealed) > 0 {
				t.Error("it comes with its credential")
			}
		}
		return len(list)
	}
	if n := whose("c-1", "acme-prod"); n != 0 {
		t.Errorf("before there was one: %d", n)
	}
	in := throughNango(t, tokens)
	if n := whose("c-1", "acme-prod"); n != 1 {
		t.Errorf("there are %d", n)
	}
	for _, other := range [][2]string{{"c-2", "acme-prod"}, {"c-1", "acme"}, {"", ""}} {
		if n := whose(other[0], other[1]); n != 0 {
			t.Errorf("%v: there are %d", other, n)
		}
	}
	if err := tokens.ApplyStatus(t.Context(), in, action.IntegrationExpired, "Nango cannot renew it."); err != nil {
		t.Fatal(err)
	}
	if got := b.rows[in.ID]; got.Status != action.IntegrationExpired {
		t.Errorf("it is %s", got.Status)
	}
}

// TestConnectionsAreThoseOfTheOperatorsNango: who has a Nango of his own names
// connections as he likes.
func TestConnectionsAreThoseOfTheOperatorsNango(t *testing.T) {
	b := newBank(t)
	_, tokens := b.startBroker()
	in := throughNango(t, tokens)
	mine := in.ID
	in.ID, in.Organization = "stolen", "other"
	in.Sealed, _ = b.vault.Seal(action.Ref{Organization: "other", Table: "integrations", Row: "stolen", Column: "sealed"}, []byte(`{"connection":"c-1","key":"acme-prod"}`))
	b.rows["stolen"] = in
	whose := func(operator string) ([]action.Integration, error) {
		b.pass(6 * time.Second)
		return tokens.Brokered(t.Context(), operator, "c-1", "acme-prod")
	}
	for name, other := range map[string]struct{ base, key string }{
		"none": {}, "another server": {"https://evil.example", "env-canary"}, "another key": {b.url, "evil-canary"}, "no key": {b.url, ""},
	} {
		if other.base != "" {
			secrets := map[string]string{action.AppAPIKey: other.key}
			if other.key == "" {
				secrets = nil
			}
			b.register(tokens, action.ProviderApp{Organization: "other", Provider: "nango", BaseURL: other.base}, secrets)
		}
		if list, err := whose("org"); err != nil || len(list) != 1 || list[0].ID != mine {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
	}
	b.register(tokens, action.ProviderApp{Organization: "other", Provider: "nango", BaseURL: b.url + "/"}, map[string]string{action.AppAPIKey: "env-canary"})
	_, err := whose("org")
	fails(t, err, action.ErrConflict, "connection_claimed", "Several organizations")
	if list, err := whose("without"); err != nil || len(list) != 0 {
		t.Errorf("an operator without Nango: %+v, %v", list, err)
	}
}

// slowRows are rows that take as long as somebody keeps them.
type slowRows struct {
	*bank
	reads   chan struct{} // gets one for each reading
	release chan struct{}
}

func (s slowRows) BrokeredIntegrations(ctx context.Context, broker action.Broker) ([]action.Integration, error) {
	s.reads <- struct{}{}
	<-s.release
	return s.bank.BrokeredIntegrations(ctx, broker)
}

// TestConnectionsAreReadForAllAtOnce, and who leaves waits for no rows.
func TestConnectionsAreReadForAllAtOnce(t *testing.T) {
	b := newBank(t)
	_, first := b.startBroker()
	in := throughNango(t, first)
	rows := slowRows{b, make(chan struct{}, 10), make(chan struct{})}
	tokens := b.instance(b.module(), func(c *credential.TokensConfig) { c.Store = rows })
	answers := make(chan error, 5)
	for range cap(answers) {
		go func() {
			list, err := tokens.Brokered(t.Context(), "org", "c-1", "acme-prod")
			if err == nil && (len(list) != 1 || list[0].ID != in.ID) {
				err = fmt.Errorf("got %+v", list)
			}
			answers <- err
		}()
	}
	<-rows.reads
	leaves, leave := context.WithCancel(t.Context())
	leave()
	if _, err := tokens.Brokered(leaves, "org", "c-1", "acme-prod"); !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	close(rows.release)
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if len(rows.reads) != 0 {
		t.Errorf("rows were read %d times more", len(rows.reads))
	}
}

// TestWhatIsToldOfAnIntegration is written over whatever credential there is by
// now, and over no other word.
func TestWhatIsToldOfAnIntegration(t *testing.T) {
	b := newBank(t)
	_, tokens := b.startBroker()
	in := throughNango(t, tokens)
	change := func(f func(*action.Integration)) {
		b.mu.Lock()
		defer b.mu.Unlock()
		row := b.rows[in.ID]
		f(&row)
		b.rows[in.ID] = row
	}
	tell := func(status action.IntegrationStatus) error {
		return tokens.ApplyStatus(t.Context(), in, status, "They say so.")
	}
	change(func(row *action.Integration) { row.Version++ }) // its token was renewed
	if err := tell(action.IntegrationSuspended); err != nil || b.row(in.ID).Status != action.IntegrationSuspended {
		t.Errorf("it is %s, %v", b.row(in.ID).Status, err)
	}
	fails(t, tell(action.IntegrationExpired), action.ErrConflict, "integration_moved", "Retry")
	if err := tell(action.IntegrationSuspended); err != nil {
		t.Errorf("told again: %v", err)
	}
	change(func(row *action.Integration) { row.Status, row.Account = action.IntegrationActive, "another" })
	fails(t, tell(action.IntegrationRevoked), action.ErrConflict, "integration_moved", "Retry")
	change(func(row *action.Integration) { row.Status = action.IntegrationDeleted })
	if err := tell(action.IntegrationRevoked); err != nil || b.row(in.ID).Status != action.IntegrationDeleted {
		t.Errorf("what is gone is %s, %v", b.row(in.ID).Status, err)
	}
}

// TestHintsOfNangosAreAskedAfter: what is said of a connection moves nothing that
// Nango itself does not confirm.
func TestHintsOfNangosAreAskedAfter(t *testing.T) {
	b := newBank(t)
	n, tokens := b.startBroker()
	in := throughNango(t, tokens)
	for _, test := range []struct {
		status int
		want   action.IntegrationStatus
	}{
		{0, action.IntegrationActive},
		{http.StatusFailedDependency, action.IntegrationExpired},
		{http.StatusFailedDependency, action.IntegrationExpired},
		{0, action.IntegrationActive},
		{http.StatusNotFound, action.IntegrationRevoked},
	} {
		n.with(func() { n.status = test.status })
		b.pass(time.Minute)
		if err := tokens.Recheck(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if row := b.row(in.ID); row.Status != test.want {
			t.Errorf("after %d it is %s", test.status, row.Status)
		}
	}
	b.register(tokens, action.ProviderApp{Provider: "nango", BaseURL: b.url}, map[string]string{action.AppAPIKey: "old-canary"})
	b.pass(time.Minute)
	fails(t, tokens.Recheck(t.Context(), in), action.ErrUnavailable, sources.FaultAuth, "API key")
	in.ID = "gone"
	if err := tokens.Recheck(t.Context(), in); err != nil {
		t.Error(err)
	}
}
