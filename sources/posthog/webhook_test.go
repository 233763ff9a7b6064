package posthog_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/ingest/event"
	"sallyport/sources/posthog"
)

const (
	webhookID = "018f6a52-7e0b-7000-8000-2f7d0a4f2a10"
	eventUUID = "018f6a52-1c11-0000-7a55-0242ac120002"
	sentAt    = 1793700000 // in seconds
	key       = "whsec_c2FsbHlwb3J0IGNhbmFyeSBzZWNyZXQ="
)

// Bodies of deliveries, by the template that PostHog proposes.
const (
	happened = `{"uuid":"` + eventUUID + `","event":"signed_up","distinct_id":"ada@example.com","properties":{"plan":"pro","seats":7,"paid":true,"$ip":"192.0.2.1","tags":["a"]},
		"elements_chain":"","timestamp":"2026-10-25T20:00:00.5+02:00","url":"https://eu.posthog.com/project/1/events/x"}`
	someone = `{"id":"018f","name":"Ada","url":"https://eu.posthog.com/project/1/person/x","properties":{"email":"ada@example.com"}}`
	body    = `{"event":` + happened + `,"person":` + someone + `}`

	byHeader = `{"verification":{"scheme":"header"}}`
)

func now() time.Time { return time.Unix(sentAt, 0) }

// signed is a delivery as PostHog posts it.
func signed(text, config string) *event.Delivery {
	d := &event.Delivery{Body: []byte(text), Header: http.Header{
		"Webhook-Id": {webhookID}, "Webhook-Timestamp": {strconv.Itoa(sentAt)},
		"Webhook-Signature": {event.SignStandard(webhookID, now(), []byte(text), []byte(key))},
	}}
	if config != "" {
		d.Config = json.RawMessage(config)
	}
	return d
}

func hear(t *testing.T, d *event.Delivery) event.Parsed {
	t.Helper()
	p, err := posthog.Triggers().Webhook.Parse(d)
	if err != nil || len(p.Events) != 1 {
		t.Fatalf("%s: %+v, %v", d.Body, p, err)
	}
	return p
}

func TestVerify(t *testing.T) {
	token := func(values ...string) func(http.Header) {
		return func(h http.Header) { h["X-Posthog-Token"] = values }
	}
	bearer := func(value string) func(http.Header) {
		return func(h http.Header) { h.Set("Authorization", value) }
	}
	const authorization = `{"verification":{"scheme":"header","header":"authorization"}}`
	for _, test := range []struct {
		name, config string
		change       func(http.Header)
		after        time.Duration
		want         error
	}{
		{name: "signed"},
		{name: "to a trigger that says nothing of it", config: `{"events":["x"]}`},
		{name: "to a trigger for signatures", config: `{"verification":{"scheme":"standard"}}`},
		{name: "five minutes later", after: 5 * time.Minute},
		{name: "too late", after: 5*time.Minute + 1, want: event.ErrStale},
		{name: "signed twice", change: func(h http.Header) { h.Add("Webhook-Signature", h.Get("Webhook-Signature")) }, want: event.ErrSignature},
		{name: "not signed", change: func(h http.Header) { h.Del("Webhook-Signature") }, want: event.ErrSignature},
		{name: "with a token instead", change: func(h http.Header) { h.Del("Webhook-Signature"); token(key)(h) }, want: event.ErrSignature},
		{name: "another header for signatures", config: `{"verification":{"header":"X-PostHog-Token"}}`, change: func(h http.Header) { h.Del("Webhook-Signature"); token(key)(h) }, want: event.ErrSignature},

		{name: "a token", config: byHeader, change: token(key)},
		{name: "a token, a year later", config: byHeader, change: token(key), after: 365 * 24 * time.Hour},
		{name: "a signature for a token", config: byHeader, want: event.ErrSignature},
		{name: "another token", config: byHeader, change: token(key + "x"), want: event.ErrSignature},
		{name: "a part of the token", config: byHeader, change: token(key[:9]), want: event.ErrSignature},
		{name: "two tokens", config: byHeader, change: token(key, key), want: event.ErrSignature},
		{name: "an empty token", config: byHeader, change: token(""), want: event.ErrSignature},
		{name: "the token where it does not belong", config: byHeader, change: bearer("Bearer " + key), want: event.ErrSignature},
		{name: "a bearer", config: authorization, change: bearer("Bearer " + key)},
		{name: "no bearer", config: authorization, change: bearer(key), want: event.ErrSignature},
		{name: "an empty bearer", config: authorization, change: bearer("Bearer "), want: event.ErrSignature},

		{name: "an unknown scheme", config: `{"verification":{"scheme":"none"}}`, change: token(key), want: event.ErrSignature},
		{name: "a config that cannot be read", config: `{"verification":[]}`, change: token(key), want: event.ErrSignature},
	} {
		d := signed(body, test.config)
		if test.change != nil {
			test.change(d.Header)
		}
		hook := posthog.Triggers().Webhook
		at := now().Add(test.after)
		if err := hook.Verify(d, [][]byte{nil, []byte("new"), []byte(key)}, at, hook.Tolerance); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", test.name, err)
		}
		for _, secrets := range [][][]byte{nil, {nil}, {[]byte("other")}} {
			if hook.Verify(d, secrets, at, hook.Tolerance) == nil {
				t.Errorf("%s: with %q", test.name, secrets)
			}
		}
	}
}

func TestEvent(t *testing.T) {
	p := hear(t, signed(body, ""))
	if p.ID != webhookID || !p.Signed || p.Account != "" || p.Lifecycle != "" {
		t.Errorf("got %+v", p)
	}
	want := event.Event{
		Provider: "posthog", Type: "event", Native: "signed_up", Key: webhookID, OccurredAt: time.Date(2026, 10, 25, 18, 0, 0, 5e8, time.UTC),
		Title: "signed_up by Ada", URL: "https://eu.posthog.com/project/1/events/x", Context: p.Events[0].Context,
	}
	if diff := cmp.Diff(want, p.Events[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const context = `{"event":"signed_up","uuid":"` + eventUUID + `","distinct_id":"ada@example.com","timestamp":"2026-10-25T20:00:00.5+02:00","url":"https://eu.posthog.com/project/1/events/x",` +
		`"person":{"id":"018f","name":"Ada","url":"https://eu.posthog.com/project/1/person/x","properties":{"email":"ada@example.com"}},` +
		`"properties":{"$ip":"192.0.2.1","paid":true,"plan":"pro","seats":7,"tags":["a"]}}`
	if diff := cmp.Diff(context, string(p.Events[0].Context)); diff != "" {
		t.Error(diff)
	}
}

// TestShapes: people write the body themselves.
func TestShapes(t *testing.T) {
	for name, test := range map[string]struct{ body, title, has string }{
		"a name":                  {`{"event":"signed_up"}`, "signed_up", `{"event":"signed_up"}`},
		"a name and the rest":     {`{"event":"$pageview","uuid":"u1","properties":{"a":1},"distinct_id":7}`, "$pageview", `"distinct_id":"7","properties":{"a":1}`},
		"an older event":          {`{"event":{"name":"signed_up"},"person":{"uuid":"p1","properties":{}}}`, "signed_up", `"person":{"id":"p1"}`},
		"both ids of a person":    {`{"event":"a","person":{"uuid":"p1","id":"p2"}}`, "a", `"person":{"id":"p2"}`},
		"a person in words":       {`{"event":"a","person":"Ada"}`, "a", `{"event":"a"}`},
		"nobody":                  {`{"event":"a","person":null}`, "a", `{"event":"a"}`},
		"properties in words":     {`{"event":{"event":"a","properties":"{}","timestamp":[],"url":{}}}`, "a", `{"event":"a"}`},
		"a time as a number":      {`{"event":"a","timestamp":1793700000}`, "a", `"timestamp":"1793700000"`},
		"a link that is no page":  {`{"event":"a","url":"javascript:alert(1)"}`, "a", `"url":"javascript`},
		"what hides in the title": {`{"event":"a\u202eb\n"}`, "a b", `"event":"a`},
	} {
		p := hear(t, signed(test.body, ""))
		e := p.Events[0]
		if strings.TrimSpace(e.Title) != test.title || !strings.Contains(string(e.Context), test.has) || e.URL != "" || !e.OccurredAt.IsZero() {
			t.Errorf("%s: %+v, %s", name, e, e.Context)
		}
	}
}

// TestKeys: whoever sends the secret could also choose the ids of headers.
func TestKeys(t *testing.T) {
	without := strings.Replace(body, eventUUID, "", 1)
	odd := signed(body, "")
	odd.Header.Set("Webhook-Id", "a b")
	for name, test := range map[string]struct {
		d      *event.Delivery
		id     string
		signed bool
	}{
		"signed":                 {signed(without, ""), webhookID, true},
		"an id nobody can keep":  {odd, eventUUID, false},
		"unsigned":               {signed(body, byHeader), eventUUID, false},
		"unsigned, without uuid": {signed(without, byHeader), "", false},
	} {
		p := hear(t, test.d)
		if e := p.Events[0]; p.ID != test.id || p.Signed != test.signed || e.Key != test.id {
			t.Errorf("%s: %+v, key %q", name, p, e.Key)
		}
	}
}

func TestBrokenDeliveries(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "event=a", "a list": "[]", "null": "null", "no event": "{}", "a list for an event": `{"event":["a"],"name":"b"}`,
		"an event without a name": `{"event":{"uuid":"a"},"name":"b"}`,
		"a name beside no event":  `{"name":"b"}`,
		"a thousand levels":       `{"event":"a","x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`,
	} {
		if p, err := posthog.Triggers().Webhook.Parse(signed(text, "")); err == nil || len(p.Events) > 0 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func FuzzDelivery(f *testing.F) {
	f.Add(webhookID, []byte(body), `{"events":["x"],"properties":{"plan":["pro"],"seats":7}}`)
	f.Add("", []byte(`{"event":"a","person":{"uuid":1},"properties":{"a":null}}`), byHeader)
	f.Add("", []byte(`{"event":{"name":"a"},"person":[]}`), `{"properties":{"a":[[]]},"verification":{"header":"Authorization","scheme":"header"}}`)
	f.Fuzz(func(t *testing.T, id string, text []byte, config string) {
		d := signed(string(text), config)
		d.Header["Webhook-Id"] = []string{id}
		hook := posthog.Triggers().Webhook
		if hook.Verify(d, [][]byte{[]byte(key)}, now(), time.Minute) == nil && id != webhookID {
			t.Errorf("%q is signed", id)
		}
		p, err := hook.Parse(d)
		if err != nil && len(p.Events) > 0 {
			t.Errorf("events beside %v", err)
		}
		for _, e := range p.Events {
			if len(e.Key) > 100 || len(e.Context) > 64<<10 || !json.Valid(e.Context) || len([]rune(e.Title)) > 201 || strings.ContainsAny(e.Title+e.Native, "\n\u202e") {
				t.Errorf("got %+v", e)
			}
			if _, err := e.OccurredAt.MarshalJSON(); err != nil {
				t.Error(err)
			}
			posthog.Triggers().Types[0].Matches(&e, json.RawMessage(config))
		}
	})
}
