package gmail_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/gmail"
)

const token = "canary-0123456789"

// account returns the mailbox of a credential. The address is the account ID.
func account(t *testing.T, status int, header http.Header, body string) (sources.Account, string, error) {
	t.Helper()
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, r.Header.Get("Authorization"))
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{})
	defer pool.Close()
	got, err := gmail.Module().Account(t.Context(), &sources.Conn{
		Kind: action.KindOAuth2, Token: token, HTTP: pool.Client("integration", base, token),
	})
	if err != nil && strings.Contains(fmt.Sprintf("%+v", err), token) {
		t.Errorf("the error holds the credential: %v", err)
	}
	return got, asked, err
}

func TestAccount(t *testing.T) {
	got, asked, err := account(t, 200, nil, `{"emailAddress":"ada@example.com","messagesTotal":12,"threadsTotal":7,"historyId":"9007199254740993"}`)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(sources.Account{ID: "ada@example.com", Name: "ada@example.com"}, got); d != "" {
		t.Error(d)
	}
	if want := "GET /gmail/v1/users/me/profile Bearer " + token; asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
}

// fault is an error as Google's APIs write it.
func fault(code int, status, reason string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":"What Google says.","status":%q,"errors":[{"message":"What Google says.","domain":"global","reason":%q}]}}`, code, status, reason)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status        int
		body          string
		code, message string
		credential    bool
	}{
		{401, fault(401, "UNAUTHENTICATED", "authError"), "authError", "Ask an admin to connect it again", true},
		{403, fault(403, "PERMISSION_DENIED", "insufficientPermissions"), "insufficientPermissions", "scope gmail.readonly", false},
		{403, fault(403, "PERMISSION_DENIED", "accessNotConfigured"), "accessNotConfigured", "switch it on", false},
		{403, `{"error":{"status":"PERMISSION_DENIED"}}`, "PERMISSION_DENIED", "administrator of the Google account", false},
		{404, `<html>`, "", "Gmail answered 404", false},
	} {
		_, _, err := account(t, c.status, nil, c.body)
		var no *sources.Refusal
		if !errors.As(err, &no) || no.Status != c.status || no.Code != c.code || no.Credential != c.credential || !strings.Contains(no.Message, c.message) {
			t.Errorf("%d %s: got %+v (%v)", c.status, c.body, no, err)
		}
	}
}

// TestLimits are told in two ways, and waited for.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		status int
		reason string
	}{{429, "rateLimitExceeded"}, {403, "rateLimitExceeded"}, {403, "userRateLimitExceeded"}} {
		_, _, err := account(t, c.status, http.Header{"Retry-After": {"60"}}, fault(c.status, "RESOURCE_EXHAUSTED", c.reason))
		var e *action.Error
		if !errors.As(err, &e) || e.Code != "upstream_rate_limited" || e.RetryAfter != time.Minute {
			t.Errorf("%d %s: got %v", c.status, c.reason, err)
		}
	}
}

func TestWhatIsNotGmail(t *testing.T) {
	for _, body := range []string{`<html>`, `{}`, `null`} {
		_, _, err := account(t, 200, nil, body)
		if !errors.Is(err, action.ErrUnavailable) {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

// TestModule has no actions, so that there is nothing to be listed or called.
func TestModule(t *testing.T) {
	m := gmail.Module()
	if len(m.Actions) != 0 || len(m.Needs) != 1 || m.Needs[0].Preset != "google" || !m.Needs[0].Users {
		t.Errorf("got %+v", m)
	}
}
