package pagerduty_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/ingest/event"
	"sallyport/sources/pagerduty"
)

const eventID = "01BVBDN1NK3H2HHWJ4DHLHPHZ2"

// Bodies of deliveries, in the form that PagerDuty gives them.
const (
	agentJSON = `{"html_url":"https://acme.pagerduty.com/users/PLH1HKV","id":"PLH1HKV","self":"https://api.pagerduty.com/users/PLH1HKV","summary":"Tenex Engineer","type":"user_reference"}`
	incident  = `{"id":"PGR0VU2","type":"incident","self":"https://api.pagerduty.com/incidents/PGR0VU2","html_url":"https://acme.pagerduty.com/incidents/PGR0VU2","number":2,
		"status":"triggered","incident_key":"d3640fbd41094207a1c11e58e46b1662","created_at":"2026-04-09T15:16:27Z","title":"A little bump in the road",
		"service":{"html_url":"https://acme.pagerduty.com/services/PF9KMXH","id":"PF9KMXH","self":"https://api.pagerduty.com/services/PF9KMXH","summary":"API Service","type":"service_reference"},
		"assignees":[` + agentJSON + `],"escalation_policy":null,"teams":[],"priority":{"id":"PSO75BM","summary":"P1","type":"priority_reference"},"urgency":"high",
		"conference_bridge":{"conference_number":"+1 1234123412,,987654321#"},"resolve_reason":null}`
	note = `{"incident":{"html_url":"https://acme.pagerduty.com/incidents/PGR0VU2","id":"PGR0VU2","self":"https://api.pagerduty.com/incidents/PGR0VU2","summary":"A little bump in the road","type":"incident_reference"},
		"id":"P1","content":"It was the cache.","trimmed":false,"type":"incident_note"}`
	responder = `{"incident":{"id":"PGR0VU2","summary":"A little bump in the road","type":"incident_reference"},"user":` + agentJSON + `,"message":"Please help.","state":"pending","type":"incident_responder"}`
	values    = `{"incident":{"html_url":"https://acme.pagerduty.com/incidents/PGR0VU2","id":"PGR0VU2","summary":"A little bump in the road","type":"incident_reference"},"custom_fields":[{"name":"region","value":"eu"}],"type":"incident_field_values"}`
)

func body(kind, data string) string {
	return `{"event":{"id":"` + eventID + `","event_type":"` + kind + `","resource_type":"incident","occurred_at":"2026-07-23T20:12:30.471Z","agent":` + agentJSON + `,"client":{"name":"PagerDuty"},"data":` + data + `}}`
}

func hear(t *testing.T, text string) event.Parsed {
	t.Helper()
	p, err := pagerduty.Triggers().Webhook.Parse(&event.Delivery{Body: []byte(text)})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return p
}

func heard(t *testing.T, kind, data string) *event.Event {
	t.Helper()
	p := hear(t, body(kind, data))
	if len(p.Events) != 1 {
		t.Fatalf("%s: %d events", kind, len(p.Events))
	}
	return &p.Events[0]
}

func sign(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

func TestVerify(t *testing.T) {
	const text = `{"event":{}}`
	good, other := sign("key", text), sign("other", text)
	for name, test := range map[string]struct {
		signatures []string
		good       bool
	}{
		"signed":                    {[]string{good}, true},
		"by two":                    {[]string{other + "," + good}, true},
		"by two, apart":             {[]string{good + ", " + other}, true},
		"beside another version":    {[]string{"v2=x," + good}, true},
		"by ten":                    {[]string{strings.Repeat(other+",", 9) + good}, true},
		"by more than anybody has":  {[]string{strings.Repeat(other+",", 10) + good}, false},
		"by another":                {[]string{other}, false},
		"of another body":           {[]string{sign("key", text+" ")}, false},
		"with an empty secret":      {[]string{sign("", text)}, false},
		"of another version":        {[]string{"v2" + good[2:]}, false},
		"no prefix":                 {[]string{good[3:]}, false},
		"cut":                       {[]string{good[:20]}, false},
		"none":                      {nil, false},
		"empty":                     {[]string{""}, false},
		"doubled":                   {[]string{good, good}, false},
		"doubled, another the last": {[]string{good, other}, false},
	} {
		d := &event.Delivery{Header: http.Header{"X-Pagerduty-Signature": test.signatures}, Body: []byte(text)}
		verify := pagerduty.Triggers().Webhook.Verify
		if err := verify(d, [][]byte{nil, []byte("new"), []byte("key")}, time.Time{}, 0); (err == nil) != test.good || err != nil && !errors.Is(err, event.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
		for _, secrets := range [][][]byte{nil, {nil}, {[]byte("third")}} {
			if err := verify(d, secrets, time.Time{}, 0); !errors.Is(err, event.ErrSignature) {
				t.Errorf("%s, with %q: %v", name, secrets, err)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	for _, test := range []struct {
		kind, data, title, url string
		context                string // which it has
	}{
		{"incident.triggered", incident, "API Service: Incident #2 triggered: A little bump in the road", "https://acme.pagerduty.com/incidents/PGR0VU2", `"urgency":"high"`},
		{"incident.annotated", note, "Incident annotated: A little bump in the road", "https://acme.pagerduty.com/incidents/PGR0VU2", `"text":"It was the cache."`},
		{"incident.responder.added", responder, "Incident responder.added: A little bump in the road", "", `"responder":{"id":"PLH1HKV"`},
		{"incident.custom_field_values.updated", values, "Incident custom_field_values.updated: A little bump in the road", "https://acme.pagerduty.com/incidents/PGR0VU2", `"custom_fields":[{"name":"region","value":"eu"}]`},
	} {
		p := hear(t, body(test.kind, test.data))
		if p.ID != eventID || !p.Signed || p.Account != "" || p.Lifecycle != "" || len(p.Events) != 1 {
			t.Fatalf("%s: %+v", test.kind, p)
		}
		got := p.Events[0]
		if !strings.Contains(string(got.Context), test.context) || !strings.Contains(string(got.Context), `"agent":{"id":"PLH1HKV"`) {
			t.Errorf("%s: the context is %s", test.kind, got.Context)
		}
		want := event.Event{
			Provider: "pagerduty", Type: "incident", Native: test.kind, Key: eventID, Title: test.title, URL: test.url,
			OccurredAt: time.Date(2026, 7, 23, 20, 12, 30, 471e6, time.UTC), Context: got.Context,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.kind, d)
		}
	}
}

// TestWhatIsNoTrigger is no error, and no event.
func TestWhatIsNoTrigger(t *testing.T) {
	for kind, data := range map[string]string{
		"pagey.ping":                       `{"message":"Hello from your friend Pagey!","type":"ping"}`,
		"service.created":                  `{"id":"PF9KMXH","type":"service"}`,
		"incident.conference_bridge.added": `7`,
		"triggered":                        incident,
		"":                                 `null`,
	} {
		if p := hear(t, body(kind, data)); len(p.Events) != 0 || p.ID != eventID || p.Lifecycle != "" {
			t.Errorf("%s: %+v", kind, p)
		}
	}
}

func TestBrokenDeliveries(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":                 "",
		"no JSON":                 "event=1",
		"a list":                  "[]",
		"no event":                "{}",
		"no id":                   strings.Replace(body("incident.triggered", incident), eventID, "", 1),
		"an id that is none":      strings.Replace(body("incident.triggered", incident), eventID, "a b", 1),
		"no data":                 body("incident.triggered", "null"),
		"no incident in a note":   body("incident.annotated", `{"content":"x"}`),
		"an incident without id":  body("incident.triggered", `{"title":"x"}`),
		"a title that is no text": body("incident.triggered", `{"id":"a","title":1}`),
		"a note that is a list":   body("incident.annotated", `[]`),
		"a thousand levels":       body("incident.triggered", `{"id":"a","x":`+strings.Repeat("[", 1000)+strings.Repeat("]", 1000)+`}`),
	} {
		if p, err := pagerduty.Triggers().Webhook.Parse(&event.Delivery{Body: []byte(text)}); err == nil || len(p.Events) > 0 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func FuzzDelivery(f *testing.F) {
	f.Add("v1=", []byte(body("incident.triggered", incident)), `{"services":["PF9KMXH"]}`)
	f.Add(sign("key", "{}")+",", []byte(body("incident.annotated", note)), `{"urgencies":["high"]}`)
	f.Add(",,", []byte(body("incident.responder.added", responder)), `{"priorities":["P1"]}`)
	f.Add("", []byte(body("pagey.ping", "{}")), "7")
	f.Fuzz(func(t *testing.T, signature string, text []byte, config string) {
		d := &event.Delivery{Header: http.Header{"X-Pagerduty-Signature": {signature}}, Body: text}
		hook := pagerduty.Triggers().Webhook
		if hook.Verify(d, [][]byte{[]byte("key")}, time.Time{}, 0) == nil && !strings.Contains(strings.ToLower(signature), sign("key", string(text))[3:]) {
			t.Errorf("%q signs %q", signature, text)
		}
		p, err := hook.Parse(d)
		if err != nil && len(p.Events) > 0 {
			t.Errorf("events beside %v", err)
		}
		for _, e := range p.Events {
			if e.Key == "" || len(e.Key) > 100 || len(e.Context) > 64<<10 || !json.Valid(e.Context) || len([]rune(e.Title)) > 201 || strings.ContainsAny(e.Title, "\n\u202e") {
				t.Errorf("got %+v", e)
			}
			if _, err := e.OccurredAt.MarshalJSON(); err != nil {
				t.Error(err)
			}
			pagerduty.Triggers().Types[0].Matches(&e, json.RawMessage(config))
		}
	})
}
