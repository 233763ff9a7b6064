package credential_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/credential"
)

// What is remembered of an installation may be over: a check asks GitHub.
func TestACheckAsksGitHubOfTheInstallation(t *testing.T) {
	b := newBank(t)
	h, tokens := b.startHub()
	b.mux.HandleFunc("GET /api/v3/me", b.me)
	in := installed(t, tokens)
	if _, err := tokens.Token(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		change func()
		want   action.IntegrationStatus
	}{
		{func() {}, action.IntegrationActive},
		{func() { h.suspended = true }, action.IntegrationSuspended},
		{func() { h.suspended = false }, action.IntegrationActive}, // at once, though a token was just refused
		{func() { h.gone = true }, action.IntegrationRevoked},
	} {
		h.with(step.change)
		if got, err := tokens.Check(t.Context(), in); err != nil || got.Status != step.want || (got.Reason == "") != (step.want == action.IntegrationActive) {
			t.Errorf("got %s (%s), %v; not %s", got.Status, got.Reason, err, step.want)
		}
		if step.want == action.IntegrationSuspended {
			_, _ = tokens.Token(t.Context(), in)
		}
	}
}

func TestACheckAsksNangoAnew(t *testing.T) {
	b := newBank(t)
	n, tokens := b.startBroker()
	in := throughNango(t, tokens)
	if _, err := tokens.Token(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	n.with(func() { n.status = http.StatusFailedDependency })
	if got, err := tokens.Check(t.Context(), in); err != nil || got.Status != action.IntegrationExpired {
		t.Errorf("got %s, %v", got.Status, err)
	}
	n.with(func() { n.status = 0 })
	if got, err := tokens.Check(t.Context(), in); err != nil || got.Status != action.IntegrationActive {
		t.Errorf("got %s, %v", got.Status, err)
	}
}

// lost is what becomes of a question by POST that has no answer.
func lost() error {
	return action.Errorf(action.ErrOutcomeUnknown, sources.FaultFailed, "Whether it was done is not known. Look before calling again.")
}

// hanging is a service that answers nobody.
func hanging(t *testing.T) func(context.Context, *sources.Conn) (sources.Account, error) {
	return func(ctx context.Context, _ *sources.Conn) (sources.Account, error) {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
			t.Error("nobody ends the question")
		}
		return sources.Account{}, action.Errorf(action.ErrOutcomeUnknown, sources.FaultTimeout, "Before doing it again, see whether it was done.")
	}
}

// Whose a credential is is a question: whatever becomes of it, nothing was done.
func TestAQuestionLeavesNothingInDoubt(t *testing.T) {
	b := newBank(t)
	m := b.module()
	ask := m.Account
	m.Account = func(ctx context.Context, c *sources.Conn) (sources.Account, error) { return ask(ctx, c) }
	tokens := b.instance(m, func(c *credential.TokensConfig) { c.Timeout = 50 * time.Millisecond })
	in, err := tokens.Connect(t.Context(), key())
	if err != nil {
		t.Fatal(err)
	}
	failed := func(context.Context, *sources.Conn) (sources.Account, error) { return sources.Account{}, lost() }
	for code, c := range map[string]struct {
		ask  func(context.Context, *sources.Conn) (sources.Account, error)
		says string
	}{
		sources.FaultFailed:  {failed, "Acme gave no valid answer. Retry later."},
		sources.FaultTimeout: {hanging(t), "Acme did not answer in time. Retry later."},
	} {
		ask = c.ask
		_, err = tokens.Check(t.Context(), in)
		fails(t, err, action.ErrUnavailable, code, c.says)
		_, err = tokens.Connect(t.Context(), key())
		fails(t, err, action.ErrUnavailable, code, c.says)
		_, err = tokens.Refused(t.Context(), in, "key-canary-1", "")
		fails(t, err, action.ErrUnavailable, code, c.says)
		if errors.Is(err, action.ErrOutcomeUnknown) {
			t.Error("the caller would believe that something was done")
		}
	}
	if row := b.row(in.ID); row.Status != action.IntegrationActive {
		t.Errorf("it is %s", row.Status)
	}
}

// A connection that could not be ended is over: another one is to be begun.
func TestAFinishThatFailsSaysToBeginAgain(t *testing.T) {
	b := newBank(t)
	m := b.module()
	ask := m.Account
	m.Account = func(ctx context.Context, c *sources.Conn) (sources.Account, error) { return ask(ctx, c) }
	a, tokens := b.startAuthority(), b.instance(m)
	b.register(tokens, action.ProviderApp{Provider: "acme", ClientID: "client", BaseURL: b.url}, map[string]string{action.AppClientSecret: "secret-canary"})
	finish := func() error {
		_, err := tokens.Finish(t.Context(), "org", "ann", "l1", true, visit(t, begin(t, tokens, oauth()).URL))
		if err == nil || strings.Contains(err.Error(), "Look before") {
			t.Errorf("got %v", err)
		}
		return err
	}
	const again = "This attempt to connect has ended. Start again on the integrations page."
	ask = func(context.Context, *sources.Conn) (sources.Account, error) { return sources.Account{}, lost() }
	fails(t, finish(), action.ErrUnavailable, sources.FaultFailed, again)
	a.answers(http.StatusInternalServerError, "oops")
	fails(t, finish(), action.ErrUnavailable, sources.FaultFailed, again)
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	a.trouble.Store(&h)
	err := finish()
	fails(t, err, action.ErrUnavailable, sources.FaultFailed, "127.0.0.1 gave no valid answer. Retry later. "+again)
}

func TestOwnConnectionsAreTold(t *testing.T) {
	b := newBank(t)
	tokens := b.instance(b.module())
	for _, own := range []bool{true, false} {
		w := key()
		w.Own = own
		in, err := tokens.Connect(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		b.good = func(string) bool { return false }
		_, err = tokens.Refused(t.Context(), in, "key-canary-1", "")
		says := "A person must do so on the integrations page."
		if own {
			says = "It is a user's own connection: that user must do so on the integrations page."
		}
		fails(t, err, action.ErrUnavailable, sources.FaultReconnect, says)
		b.good = func(string) bool { return true }
	}
}
