package delivery_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/ingest/delivery"
	"sallyport/ingest/event"
)

func TestUnwrap(t *testing.T) {
	forwarded := http.Header{"X-Github-Event": {"push"}}
	inner := func(body string) *event.Delivery {
		return &event.Delivery{Header: forwarded, Body: []byte(body)}
	}
	bare := func(body string) delivery.Nango {
		return delivery.Nango{Kind: "forward", Provider: "github", Delivery: inner(body), Bare: true}
	}
	const forward = `{"from":"linear","providerConfigKey":"linear-eu","type":"forward","connectionId":"c1","payload":{"a": 1.0,"b":"x"}}`
	for name, test := range map[string]struct {
		body string
		want delivery.Nango
	}{
		"forward": {forward, delivery.Nango{Kind: "forward", Connection: "c1", ProviderKey: "linear-eu", Provider: "linear", Delivery: inner(`{"a": 1.0,"b":"x"}`)}},
		"auth": {
			`{"from":"nango","type":"auth","connectionId":"c1","providerConfigKey":"gh","authMode":"OAUTH2","provider":"github","environment":"dev","success":true,"operation":"creation"}`,
			delivery.Nango{Kind: "auth", Connection: "c1", ProviderKey: "gh", Provider: "github", Operation: "creation", Success: true},
		},
		"auth that failed": {
			`{"from":"nango","type":"auth","connectionId":"c1","providerConfigKey":"gh","provider":"github","success":false,"operation":"refresh","error":{"type":"refresh_token_external_error","description":"revoked\nby\u202e them"}}`,
			delivery.Nango{Kind: "auth", Connection: "c1", ProviderKey: "gh", Provider: "github", Operation: "refresh", Error: "refresh_token_external_error: revoked by  them"},
		},
		"success that is none": {
			`{"from":"nango","type":"auth","connectionId":"c1","providerConfigKey":"gh","success":"true","operation":"refresh"}`,
			delivery.Nango{Kind: "auth", Connection: "c1", ProviderKey: "gh", Operation: "refresh"},
		},
		"sync":                  {`{"from":"nango","type":"sync","connectionId":"c1","providerConfigKey":"gh","syncName":"x","success":true}`, delivery.Nango{Kind: "sync", Connection: "c1", ProviderKey: "gh", Success: true}},
		"a kind of theirs":      {`{"from":"nango","type":"async_action","connectionId":"c1","providerConfigKey":"gh"}`, delivery.Nango{Kind: "async_action", Connection: "c1", ProviderKey: "gh"}},
		"bare":                  {`{"action":"opened"}`, bare(`{"action":"opened"}`)},
		"bare with a type":      {`{"type":"auth","connectionId":"c1","providerConfigKey":"gh","from":"someone"}`, bare(`{"type":"auth","connectionId":"c1","providerConfigKey":"gh","from":"someone"}`)},
		"names in another case": {`{"From":"nango","Type":"auth","ConnectionID":"c1","ProviderConfigKey":"gh"}`, bare(`{"From":"nango","Type":"auth","ConnectionID":"c1","ProviderConfigKey":"gh"}`)},
		"no connection":         {strings.Replace(forward, `"c1"`, `""`, 1), bare(strings.Replace(forward, `"c1"`, `""`, 1))},
		"a connection too long": {strings.Replace(forward, `c1`, strings.Repeat("c", 300), 1), bare(strings.Replace(forward, `c1`, strings.Repeat("c", 300), 1))},
		"a list":                {`[1]`, bare(`[1]`)},
		"null":                  {`null`, bare(`null`)},
	} {
		got, err := delivery.Unwrap(&event.Delivery{Header: forwarded, Body: []byte(test.body)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, body := range map[string]string{
		"nothing": "", "a form": "payload=%7B%7D", "cut": forward[:50], "two": "{}{}",
		"deep":         strings.Repeat("[", 1001) + strings.Repeat("]", 1001),
		"no payload":   strings.Replace(forward, `"payload"`, `"other"`, 1),
		"null payload": `{"from":"linear","providerConfigKey":"k","type":"forward","connectionId":"c1","payload":null}`,
	} {
		if n, err := delivery.Unwrap(&event.Delivery{Body: []byte(body)}); err == nil {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

func TestBareProviders(t *testing.T) {
	for name, want := range map[string]string{
		"X-GitHub-Event": "github", "Linear-Event": "linear", "Linear-Delivery": "linear", "Sentry-Hook-Resource": "sentry",
		"X-Slack-Signature": "slack", "X-PagerDuty-Signature": "pagerduty", "X-Other": "",
	} {
		d := &event.Delivery{Header: http.Header{}, Body: []byte(`{}`)}
		d.Header.Set(name, "x")
		if n, err := delivery.Unwrap(d); err != nil || n.Provider != want || !n.Bare {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
}

// FuzzUnwrap: only an envelope that says all it has to is one, and what was
// forwarded is part of it.
func FuzzUnwrap(f *testing.F) {
	f.Add(`{"from":"linear","providerConfigKey":"k","type":"forward","connectionId":"c","payload":{"a":1}}`)
	f.Add(`{"from":"nango","type":"auth","connectionId":"c","providerConfigKey":"k","success":false,"error":{"type":"a","description":"b"}}`)
	f.Add(`{"type":"auth","type":"forward"}`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, body string) {
		n, err := delivery.Unwrap(&event.Delivery{Header: http.Header{}, Body: []byte(body)})
		switch {
		case err != nil:
		case (n.Kind == "forward") != (n.Delivery != nil):
			t.Errorf("%+v", n)
		case n.Delivery != nil && (!json.Valid(n.Delivery.Body) || !strings.Contains(body, string(n.Delivery.Body))):
			t.Errorf("forwarded %q", n.Delivery.Body)
		case !n.Bare && (n.Connection == "" || n.ProviderKey == "" || n.Kind == ""):
			t.Errorf("%+v", n)
		}
	})
}
