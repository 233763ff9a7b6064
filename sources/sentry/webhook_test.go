package sentry_test

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
	"sallyport/sources/sentry"
)

const (
	requestID  = "5f1d8e2a4b6c4d0f9a7e3c1b2d4f6a8c"
	installUID = "a8e5d37a-696c-4c54-adb5-b3f28d64c7de"
)

// Bodies of deliveries, in the form that Sentry gives them.
const (
	fromSentry = `"actor":{"id":"sentry","name":"Sentry","type":"application"},"installation":{"uuid":"` + installUID + `"}`
	threw      = `{"_ref":1293919,"contexts":{"browser":{"name":"Chrome"}},"culprit":"?(runner)","datetime":"2026-08-19T20:58:37.391000Z","dist":null,
		"event_id":"bb78c1407cea4519aa397afc059c793d","exception":{"values":[
			{"type":"TypeError","value":"inner","stacktrace":null,"mechanism":{"handled":false,"type":"onerror","data":{}}},
			{"type":"ReferenceError","value":"heck is not defined","stacktrace":{"frames":[
				{"abs_path":"https://x/lib.js","filename":"/lib.js","function":null,"lineno":3,"colno":5,"in_app":false,"context_line":"lib()","vars":{"password":"canary"}},
				{"abs_path":"https://x/app.js","filename":"/app.js","function":"render","lineno":7,"in_app":true,"context_line":"heck()","pre_context":["a"],"vars":{"password":"canary"}}]}}]},
		"environment":"production","issue_id":"1170820242","issue_url":"https://sentry.io/api/0/issues/1170820242/","key_id":"667532","level":"error","location":"/runner","logger":"","message":"",
		"metadata":{"type":"ReferenceError"},"platform":"javascript","project":1,"received":1566248317.391,"release":null,
		"request":{"cookies":[["session","canary"]],"headers":[["Authorization","canary"]],"url":"https://x/"},
		"tags":[["browser.name","Chrome"],["environment","production"],["level","error"]],"timestamp":1566248317.391,"title":"ReferenceError: heck is not defined","type":"error",
		"url":"https://sentry.io/api/0/projects/test-org/front-end/events/bb78c1407cea4519aa397afc059c793d/","user":{"ip_address":"192.0.2.1"},"version":"7",
		"web_url":"https://sentry.io/organizations/test-org/issues/1170820242/events/bb78c1407cea4519aa397afc059c793d/"}`
	alertHook = `{"action":"triggered","data":{"event":` + threw + `,"triggered_rule":"Very Important Alert Rule!"},` + fromSentry + `}`
	errorHook = `{"action":"created","data":{"error":` + threw + `},` + fromSentry + `}`
	issueHook = `{"action":"created","data":{"issue":{"annotations":[],"assignedTo":null,"count":"1","culprit":"?(runner)","firstSeen":"2026-08-19T20:58:37.391000Z","id":"1170820242",
		"lastSeen":"2026-08-20T20:58:37.391000Z","level":"warning","logger":null,"metadata":{"filename":"/runner","type":"ReferenceError","value":"blooopy is not defined"},"permalink":null,
		"platform":"javascript","project":{"id":"1","name":"Front End","platform":"","slug":"front-end"},"project_url":"https://sentry.io/api/0/projects/test-org/front-end/",
		"shortId":"FRONT-END-9","status":"unresolved","statusDetails":{},"title":"ReferenceError: blooopy is not defined","type":"error","userCount":1,
		"web_url":"https://test-org.sentry.io/issues/1170820242/"}},` + fromSentry + `}`
	installHook = `{"action":"created","actor":{"id":1,"name":"Meredith","type":"user"},"data":{"installation":{"status":"pending","organization":{"slug":"test-org"},"app":{"uuid":"2ebf","slug":"gate"},
		"code":"f3c71b49","uuid":"` + installUID + `"}},"installation":{"uuid":"` + installUID + `"}}`
)

func hook(resource, body string) *event.Delivery {
	return &event.Delivery{
		Header: http.Header{"Sentry-Hook-Resource": {resource}, "Sentry-Hook-Timestamp": {"1"}, "Request-Id": {requestID}},
		Body:   []byte(body),
	}
}

func hear(t *testing.T, resource, body string) event.Parsed {
	t.Helper()
	p, err := sentry.Triggers().Webhook.Parse(hook(resource, body))
	if err != nil {
		t.Fatalf("%s: %v", resource, err)
	}
	return p
}

func heard(t *testing.T, resource, body string) event.Event {
	t.Helper()
	p := hear(t, resource, body)
	if len(p.Events) != 1 {
		t.Fatalf("%s: %d events", resource, len(p.Events))
	}
	return p.Events[0]
}

func TestVerify(t *testing.T) {
	// By openssl dgst -sha256 -hmac.
	const body = `{"action":"created"}`
	const signed = "58c6fecdd4deac7bdfd21a8cdc0cccc569e32724fc8ad6171cc03b4f68da9a0f"
	const empty = "45db7359976e5a0584db473d3f6ed9252f981e5f41a43bcaf32b67189f7b8940"
	hooked, app := "Sentry-Hook-Signature", "Sentry-App-Signature"
	for name, test := range map[string]struct {
		header http.Header
		body   string
		good   bool
	}{
		"a hook":           {http.Header{hooked: {signed}}, body, true},
		"an app":           {http.Header{app: {signed}}, body, true},
		"an empty body":    {http.Header{hooked: {empty}}, "", true},
		"none":             {nil, body, false},
		"empty":            {http.Header{hooked: {""}}, body, false},
		"doubled":          {http.Header{hooked: {signed, signed}}, body, false},
		"both":             {http.Header{hooked: {signed}, app: {signed}}, body, false},
		"one of two":       {http.Header{hooked: {empty}, app: {signed}}, body, false},
		"a prefix":         {http.Header{hooked: {"sha256=" + signed}}, body, false},
		"cut":              {http.Header{hooked: {signed[:62]}}, body, false},
		"another body":     {http.Header{hooked: {signed}}, body + "\n", false},
		"of an empty body": {http.Header{hooked: {empty}}, body, false},
	} {
		d := &event.Delivery{Header: test.header, Body: []byte(test.body)}
		err := sentry.Triggers().Webhook.Verify(d, [][]byte{[]byte("new"), []byte("a client secret")}, time.Time{}, 0)
		if (err == nil) != test.good || err != nil && !errors.Is(err, event.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
		for _, secrets := range [][][]byte{nil, {nil}, {[]byte("other")}} {
			if err := sentry.Triggers().Webhook.Verify(d, secrets, time.Time{}, 0); !errors.Is(err, event.ErrSignature) {
				t.Errorf("%s, with %q: %v", name, secrets, err)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	at := time.Date(2026, 8, 19, 20, 58, 37, 391e6, time.UTC)
	for _, test := range []struct {
		body string
		want event.Event // but for its context and key
	}{
		{alertHook, event.Event{Type: "event_alert", Native: "event_alert:triggered", OccurredAt: at, Title: "front-end: ReferenceError: heck is not defined", URL: "https://sentry.io/organizations/test-org/issues/1170820242/events/bb78c1407cea4519aa397afc059c793d/"}},
		{errorHook, event.Event{Type: "error", Native: "error:created", OccurredAt: at, Title: "front-end: ReferenceError: heck is not defined", URL: "https://sentry.io/organizations/test-org/issues/1170820242/events/bb78c1407cea4519aa397afc059c793d/"}},
		{issueHook, event.Event{Type: "issue", Native: "issue:created", OccurredAt: at, Title: "front-end: ReferenceError: blooopy is not defined", URL: "https://test-org.sentry.io/issues/1170820242/"}},
		{strings.Replace(issueHook, "created", "resolved", 1), event.Event{Type: "issue", Native: "issue:resolved", Title: "front-end: ReferenceError: blooopy is not defined", URL: "https://test-org.sentry.io/issues/1170820242/"}},
	} {
		p := hear(t, test.want.Type, test.body)
		if p.ID != requestID || p.Account != installUID || len(p.Events) != 1 || p.Lifecycle != "" {
			t.Fatalf("%s: %+v", test.want.Native, p)
		}
		got := p.Events[0]
		test.want.Provider, test.want.Key, test.want.Context = "sentry", got.Key, got.Context
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.want.Native, d)
		}
	}
}

func TestContext(t *testing.T) {
	e := heard(t, "event_alert", alertHook)
	var got any
	if err := json.Unmarshal(e.Context, &got); err != nil {
		t.Fatal(err)
	}
	want := any(map[string]any{
		"action": "triggered", "installation": installUID, "rule": "Very Important Alert Rule!", "organization": "test-org", "environment": "production", "level": "error",
		"project": map[string]any{"id": "1", "slug": "front-end"},
		"actor":   map[string]any{"type": "application", "id": "sentry", "name": "Sentry"},
		"issue":   map[string]any{"id": "1170820242"},
		"event": map[string]any{
			"event_id": "bb78c1407cea4519aa397afc059c793d", "title": "ReferenceError: heck is not defined", "type": "error", "culprit": "?(runner)",
			"location": "/runner", "platform": "javascript", "datetime": "2026-08-19T20:58:37.391000Z",
			"tags": map[string]any{"browser.name": "Chrome", "environment": "production", "level": "error"},
		},
		"exceptions": []any{
			map[string]any{"type": "ReferenceError", "value": "heck is not defined"},
			map[string]any{"type": "TypeError", "value": "inner", "mechanism": map[string]any{"type": "onerror", "handled": false}},
		},
		"frames": []any{
			map[string]any{"filename": "/app.js", "function": "render", "lineno": 7.0, "in_app": true, "context_line": "heck()"},
			map[string]any{"filename": "/lib.js", "lineno": 3.0, "colno": 5.0, "in_app": false},
		},
		"files": []any{"/app.js"},
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if strings.Contains(string(e.Context), "canary") {
		t.Error("what a request or a variable held is told")
	}
}

// TestFramesElsewhere: not every event has an exception.
func TestFramesElsewhere(t *testing.T) {
	const frames = `{"stacktrace":{"frames":[{"filename":"main.c","in_app":true}]}}`
	for name, in := range map[string]string{
		"the event's":          `"exception":null,` + frames[1:len(frames)-1],
		"the thread's":         `"threads":{"values":[{"crashed":false,"stacktrace":{"frames":[{"filename":"idle.c"}]}},{"crashed":true,` + frames[1:] + `]}`,
		"the last exception's": `"exception":{"values":[{"stacktrace":{"frames":[{"filename":"idle.c","in_app":true}]}},` + frames + `]}`,
		"the exception":        `"exception":{"values":[` + frames + `,{"type":"Later","stacktrace":{"frames":[]}}]}`,
	} {
		e := heard(t, "error", `{"action":"created","data":{"error":{`+in+`}},`+fromSentry+`}`)
		if !strings.Contains(string(e.Context), `"files":["main.c"]`) || strings.Contains(string(e.Context), "idle.c") {
			t.Errorf("%s: %s", name, e.Context)
		}
	}
}

// TestKeys: Sentry gives every try another Request-ID, so what is signed tells
// events from each other, where it can.
func TestKeys(t *testing.T) {
	key := func(resource, body, id string) string {
		d := hook(resource, body)
		d.Header["Request-Id"] = []string{id}
		p, err := sentry.Triggers().Webhook.Parse(d)
		if err != nil || len(p.Events) != 1 {
			t.Fatalf("%s: %+v, %v", body, p, err)
		}
		if p.ID != id || p.Signed == (p.Events[0].Key == id) {
			t.Errorf("%s: %+v", id, p)
		}
		return p.Events[0].Key
	}
	resolved := strings.Replace(issueHook, "created", "resolved", 1)
	for _, test := range []struct {
		name, resource, body, other string
		same                        bool
	}{
		{"an alert, tried again", "event_alert", alertHook, alertHook, true},
		{"an alert by another rule", "event_alert", alertHook, strings.Replace(alertHook, "Very Important", "Other", 1), false},
		{"an alert of another event", "event_alert", alertHook, strings.Replace(alertHook, "bb78c1407cea4519aa397afc059c793d", "cc78c1407cea4519aa397afc059c793d", 1), false},
		{"an alert of another project", "event_alert", alertHook, strings.Replace(alertHook, `"project":1`, `"project":2`, 1), false},
		{"an error, tried again", "error", errorHook, strings.Replace(errorHook, `"received":1`, `"received":2`, 1), true},
		{"a new issue, tried again", "issue", issueHook, strings.Replace(issueHook, `"count":"1"`, `"count":"2"`, 1), true},
		{"another new issue", "issue", issueHook, strings.Replace(issueHook, `"id":"1170820242"`, `"id":"1170820243"`, 1), false},
		{"an issue that is resolved again later", "issue", resolved, resolved, false},
	} {
		one, two := key(test.resource, test.body, "one"), key(test.resource, test.other, "two")
		if (one == two) != test.same || one == "" || len(one) > 100 {
			t.Errorf("%s: %s and %s", test.name, one, two)
		}
	}
	if got := key("issue", resolved, ""); got != "" {
		t.Errorf("a change without an id has the key %s", got)
	}
}

func TestLifecycle(t *testing.T) {
	for action, want := range map[string]event.Lifecycle{"created": event.Installed, "deleted": event.Uninstalled, "other": ""} {
		p := hear(t, "installation", strings.Replace(installHook, "created", action, 1))
		if p.Lifecycle != want || len(p.Events) != 0 || p.Account != installUID {
			t.Errorf("%s: %+v", action, p)
		}
	}
}

// TestWhatIsNoTrigger is no error, and no event.
func TestWhatIsNoTrigger(t *testing.T) {
	for resource, body := range map[string]string{
		"metric_alert":   `{"action":"critical","data":{"metric_alert":{}},` + fromSentry + `}`,
		"activity_alert": strings.Replace(issueHook, "created", "triggered", 1),
		"issue":          strings.Replace(issueHook, "created", "triggered", 1), // an activity alert again, under another name
		"error":          strings.Replace(errorHook, "created", "deleted", 1),
		"event_alert":    "",
	} {
		if p := hear(t, resource, body); len(p.Events) != 0 || p.Lifecycle != "" {
			t.Errorf("%s: %+v", resource, p)
		}
	}
}

func TestRefusedDeliveries(t *testing.T) {
	for name, test := range map[string]struct{ resource, body string }{
		"a comment's deletion for an installation's": {"installation", `{"action":"deleted","data":{"comment_id":1},` + fromSentry + `}`},
		"another installation":                       {"installation", strings.Replace(installHook, `"installation":{"uuid":"a8`, `"installation":{"uuid":"b8`, 1)},
		"an installation that is nobody's":           {"installation", strings.ReplaceAll(installHook, installUID, "")},
		"an alert for an error":                      {"error", strings.Replace(alertHook, "triggered", "created", 1)},
		"an error for an alert":                      {"event_alert", strings.Replace(errorHook, "created", "triggered", 1)},
		"an issue that is none":                      {"issue", `{"action":"created","data":{"issue":[]},` + fromSentry + `}`},
		"no data":                                    {"issue", `{"action":"created","data":7}`},
		"no resource":                                {"", issueHook},
		"no JSON":                                    {"issue", issueHook[1:]},
		"more than JSON":                             {"issue", issueHook + "1"},
		"a list":                                     {"issue", "[]"},
		"null":                                       {"issue", "null"},
		"what is nested too deeply":                  {"issue", strings.Replace(issueHook, "{", `{"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+",", 1)},
		"a number without end":                       {"error", strings.Replace(errorHook, `"lineno":7`, `"lineno":`+strings.Repeat("7", 70<<10), 1)},
	} {
		if p, err := sentry.Triggers().Webhook.Parse(hook(test.resource, test.body)); err == nil || len(p.Events) != 0 || p.Lifecycle != "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	d := hook("issue", issueHook)
	d.Header.Add("Sentry-Hook-Resource", "issue")
	if p, err := sentry.Triggers().Webhook.Parse(d); err == nil {
		t.Errorf("two headers: %+v", p)
	}
}

func TestForeignTexts(t *testing.T) {
	for _, link := range []string{"javascript:alert(1)", "https://user:pass@sentry.io/x", "/relative", "https://h/" + strings.Repeat("x", 2000), "%zz"} {
		body := strings.NewReplacer(`"https://test-org.sentry.io/issues/1170820242/"`, strconv.Quote(link), "ReferenceError: b", `\u202e\u0000\nb`).Replace(issueHook)
		e := heard(t, "issue", body)
		if e.URL != "" || e.Title != "front-end:    blooopy is not defined" {
			t.Errorf("%q links to %q", e.Title, e.URL)
		}
	}
}
