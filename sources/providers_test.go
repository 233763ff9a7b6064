package sources_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/sources"
	"sallyport/sources/github"
	"sallyport/sources/gmail"
	"sallyport/sources/linear"
	"sallyport/sources/pagerduty"
	"sallyport/sources/posthog"
	"sallyport/sources/sentry"
	"sallyport/sources/slack"
)

func providers() []event.Provider {
	return []event.Provider{
		github.Triggers(), gmail.Triggers(), linear.Triggers(), pagerduty.Triggers(), posthog.Triggers(), sentry.Triggers(), slack.Triggers(),
	}
}

// TestProviders holds of every provider what forms, guides and the ingestion go
// by.
func TestProviders(t *testing.T) {
	plain, seen := regexp.MustCompile(`^[a-z0-9_-]{1,30}$`), map[string]bool{}
	for _, p := range providers() {
		if seen[p.ID] || !plain.MatchString(p.ID) || p.Title == "" || len(p.Types) == 0 || p.Webhook == nil && !p.SupportsPolling {
			t.Errorf("%s cannot be: %+v", p.ID, p)
		}
		seen[p.ID] = true
		if (p.Webhook != nil) != strings.HasSuffix(p.Secret, ".") {
			t.Errorf("%s: whose the secret is: %q", p.ID, p.Secret)
		}
		for _, one := range p.Types {
			if seen[p.ID+":"+one.ID] || !plain.MatchString(one.ID) || p.Type(one.ID).Title != one.Title || one.Title == "" || one.Description == "" {
				t.Errorf("%s: %+v cannot be", p.ID, one)
			}
			seen[p.ID+":"+one.ID] = true
			filters(t, p.ID, one)
		}
	}
}

// TestWhoseSecretsAndAccounts is what URLs and their secrets are refused by.
func TestWhoseSecretsAndAccounts(t *testing.T) {
	for _, p := range providers() {
		made := strings.Contains(p.Secret, " makes the secret")
		if p.IssuesSecret != made {
			t.Errorf("%s gives its secret: %t, and says %q", p.ID, p.IssuesSecret, p.Secret)
		}
		if says := p.ID == "github" || p.ID == "linear" || p.ID == "slack"; p.IdentifiesAccount != says {
			t.Errorf("%s says whose a delivery is: %t", p.ID, p.IdentifiesAccount)
		}
	}
}

// filters checks the schema of a type by what checks all others.
func filters(t *testing.T, provider string, one event.Type) {
	t.Helper()
	fits := func(config string) error {
		return sources.CheckConfig(one.Config, json.RawMessage(config))
	}
	if err := fits(`{}`); err != nil {
		t.Errorf("%s %s: %v", provider, one.ID, err)
	}
	if fits(`{"no-such":1}`) == nil || fits(`[]`) == nil {
		t.Errorf("%s %s takes anything", provider, one.ID)
	}
	var schema struct {
		Properties map[string]struct{ Description string }
	}
	if err := json.Unmarshal(one.Config, &schema); err != nil || len(schema.Properties) == 0 {
		t.Errorf("%s %s: %v, %+v", provider, one.ID, err, schema)
	}
	for name, p := range schema.Properties {
		if p.Description == "" {
			t.Errorf("%s %s: %s is not described", provider, one.ID, name)
		}
	}
	for _, text := range []string{``, `null`, `7`, `[]`, `{`} {
		if one.Matches(&event.Event{Type: one.ID, Context: json.RawMessage(text)}, nil) && text != `null` {
			t.Errorf("%s %s: the context %q passes", provider, one.ID, text)
		}
		if one.Matches(&event.Event{Type: one.ID, Context: json.RawMessage(`{}`)}, json.RawMessage(text)) && text != `` && text != `null` {
			t.Errorf("%s %s: the config %q lets something pass", provider, one.ID, text)
		}
	}
}

// TestHostileDeliveries are refused by every provider, one way or another, and
// take nobody down.
func TestHostileDeliveries(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for _, p := range providers() {
		if p.Webhook == nil {
			continue
		}
		for _, body := range []string{"", "null", "{}", "\x00", "event=1", deep, `{"event":` + deep + `}`, strings.Repeat(`{"event":`, 1000)} {
			d := &event.Delivery{Body: []byte(body)}
			for _, secrets := range [][][]byte{nil, {nil}, {[]byte("secret")}} {
				if err := p.Webhook.Verify(d, secrets, time.Unix(0, 0), p.Webhook.Tolerance); !errors.Is(err, event.ErrSignature) {
					t.Errorf("%s: %.20q with %q: %v", p.ID, body, secrets, err)
				}
			}
			if got, err := p.Webhook.Parse(d); len(got.Events) > 0 || got.Lifecycle != "" || err == nil && strings.Contains(body, "[") {
				t.Errorf("%s: %.20q is %+v, %v", p.ID, body, got, err)
			}
			if p.Webhook.Challenge != nil && p.Webhook.Challenge(d) != nil {
				t.Errorf("%s: %.20q is a challenge", p.ID, body)
			}
		}
	}
}

// TestConfigIsRefusedInWords names what is wrong where the API has it.
func TestConfigIsRefusedInWords(t *testing.T) {
	err := sources.CheckConfig(github.Triggers().Types[0].Config, json.RawMessage(`{"actions":["fell"]}`))
	var e *action.Error
	if !errors.As(err, &e) || !errors.Is(err, action.ErrInvalid) || e.Field != "/config/actions/0" || !strings.HasPrefix(e.Message, "The config is not valid: ") {
		t.Errorf("refused with %v", err)
	}
}
