package linear_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/ingest/event"
	"sallyport/sources/linear"
)

const (
	hookSecret = "lin_wh_canary"
	deliveryID = "234d1a4e-b617-4388-90fe-adc3633d6b72"
	sentAt     = 1793700000000 // in milliseconds
)

func sent() time.Time { return time.UnixMilli(sentAt) }

// signed is a delivery of that body, as Linear posts it.
func signed(body string) *event.Delivery {
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	return &event.Delivery{Body: []byte(body), Header: http.Header{
		"Linear-Signature": {hex.EncodeToString(mac.Sum(nil))},
		"Linear-Delivery":  {deliveryID},
		"Linear-Event":     {"Issue"},
	}}
}

func TestVerify(t *testing.T) {
	body := fmt.Sprintf(`{"action":"create","webhookTimestamp":%d}`, sentAt)
	hook := linear.Triggers().Webhook
	verify := func(d *event.Delivery, secrets [][]byte, now time.Time) error {
		return hook.Verify(d, secrets, now, hook.Tolerance)
	}
	for _, tt := range []struct {
		name   string
		body   string
		change func(h http.Header)
		now    time.Time
		want   error
	}{
		{"as sent", body, nil, sent(), nil},
		{"a minute later", body, nil, sent().Add(time.Minute), nil},
		{"from a clock that is ahead", body, nil, sent().Add(-time.Minute), nil},
		{"too late", body, nil, sent().Add(time.Minute + time.Millisecond), event.ErrStale},
		{"from the future", body, nil, sent().Add(-time.Minute - time.Millisecond), event.ErrStale},
		{"late, with a fresh time in the header", body, func(h http.Header) {
			h.Set("Linear-Timestamp", fmt.Sprint(sentAt+3600_000))
		}, sent().Add(time.Hour), event.ErrStale},
		{"no time in the body", `{"action":"create"}`, func(h http.Header) {
			h.Set("Linear-Timestamp", fmt.Sprint(sentAt))
		}, sent(), event.ErrStale},
		{"a time that is none", `{"webhookTimestamp":1e300}`, nil, sent(), event.ErrStale},
		{"no JSON", `webhookTimestamp=1`, nil, sent(), event.ErrStale},
		{"no signature", body, func(h http.Header) { h.Del("Linear-Signature") }, sent(), event.ErrSignature},
		{"two signatures", body, func(h http.Header) {
			h.Add("Linear-Signature", h.Get("Linear-Signature"))
		}, sent(), event.ErrSignature},
		{"a prefix", body, func(h http.Header) {
			h.Set("Linear-Signature", "sha256="+h.Get("Linear-Signature"))
		}, sent(), event.ErrSignature},
		{"another's signature", body, func(h http.Header) {
			h.Set("Linear-Signature", strings.Repeat("0", 64))
		}, sent(), event.ErrSignature},
	} {
		d := signed(tt.body)
		if tt.change != nil {
			tt.change(d.Header)
		}
		if err := verify(d, [][]byte{[]byte("old"), []byte(hookSecret)}, tt.now); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := verify(signed(body), nil, sent()); !errors.Is(err, event.ErrSignature) {
		t.Errorf("without a secret: %v", err)
	}
	d := signed(body)
	d.Body = append(d.Body, '\n')
	if err := verify(d, [][]byte{[]byte(hookSecret)}, sent()); !errors.Is(err, event.ErrSignature) {
		t.Errorf("another body: %v", err)
	}
	if err := hook.Verify(signed(body), [][]byte{[]byte(hookSecret)}, sent().Add(time.Hour), time.Hour); err != nil {
		t.Errorf("as late as was chosen: %v", err)
	}
}

const hookIssue = `{"id":"0b1c","identifier":"ENG-7","title":"Login\u202e <fails>","description":"It **fails**.","url":"https://linear.app/acme/issue/ENG-7","priority":2,"priorityLabel":"High","createdAt":"2026-11-01T10:00:00.000Z","updatedAt":"2026-11-02T10:00:00.000Z","teamId":"t1","team":{"id":"t1","key":"ENG","name":"Engineering"},"state":{"id":"s1","name":"In Progress","type":"started"},"assignee":{"id":"u1","name":"Ada Byron","email":"ada@example.com"},"labels":[{"id":"l1","name":"Bug"},{"id":"l2","name":"Urgent"}],"project":{"id":"p1","name":"Launch"},"subscriberIds":["u1"],"botActor":"{}"}`

const hookComment = `{"id":"c9","body":"Done\nnow","createdAt":"2026-11-03T10:00:00.000Z","updatedAt":"2026-11-03T11:00:00.000Z","user":{"id":"u2","name":"Bob","email":"bob@example.com"},"issue":{"id":"0b1c","identifier":"ENG-7","title":"Login","url":"https://linear.app/acme/issue/ENG-7","team":{"id":"t1","key":"ENG","name":"Engineering"}}}`

func posted(kind, action, data, more string) string {
	return fmt.Sprintf(`{"type":%q,"action":%q,"organizationId":"o1","url":"https://linear.app/acme/x","actor":{"id":"u1","type":"user","name":"Ada Byron"},"webhookTimestamp":%d,"data":%s%s}`, kind, action, sentAt, data, more)
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestParse(t *testing.T) {
	const issueContext = `"issue":{"id":"0b1c","identifier":"ENG-7","title":"Login` + "\u202e" + ` <fails>","url":"https://linear.app/acme/issue/ENG-7","state":{"id":"s1","name":"In Progress","type":"started"},"priority":2,"priorityLabel":"High","assignee":{"id":"u1","name":"Ada Byron","email":"ada@example.com"},"team":{"id":"t1","key":"ENG","name":"Engineering"},"project":{"id":"p1","name":"Launch"},"labels":[{"id":"l1","name":"Bug"},{"id":"l2","name":"Urgent"}],"createdAt":"2026-11-01T10:00:00.000Z","updatedAt":"2026-11-02T10:00:00.000Z","description":"It **fails**.","teamId":"t1"},"actor":{"id":"u1","name":"Ada Byron","type":"user"}`
	issue := event.Event{
		Provider: "linear", Type: "issue", Native: "Issue:create", Key: "0b1c:2026-11-02T10:00:00Z:create", OccurredAt: at("2026-11-01T10:00:00Z"),
		Title: "ENG-7: Login  <fails>", URL: "https://linear.app/acme/issue/ENG-7",
		Context: json.RawMessage(`{"action":"created",` + issueContext + `}`),
	}
	changed := issue
	changed.Native, changed.Key, changed.OccurredAt = "Issue:update", "0b1c:2026-11-02T10:00:00Z:update", at("2026-11-02T10:00:00Z")
	changed.Context = json.RawMessage(`{"action":"updated",` + issueContext + `,"changed":["stateId","title"]}`)
	comment := event.Event{
		Provider: "linear", Type: "comment", Native: "Comment:create", Key: "c9:2026-11-03T11:00:00Z:create", OccurredAt: at("2026-11-03T10:00:00Z"),
		Title: "Comment on ENG-7: Done now", URL: "https://linear.app/acme/x",
		Context: json.RawMessage(`{"action":"created","comment":{"id":"c9","body":"Done\nnow","url":"https://linear.app/acme/x","createdAt":"2026-11-03T10:00:00.000Z","updatedAt":"2026-11-03T11:00:00.000Z","user":{"id":"u2","name":"Bob","email":"bob@example.com"},"issue":{"id":"0b1c","identifier":"ENG-7","title":"Login","url":"https://linear.app/acme/issue/ENG-7","team":{"id":"t1","key":"ENG","name":"Engineering"}}},"actor":{"id":"u1","name":"Ada Byron","type":"user"}}`),
	}
	for _, tt := range []struct {
		name, body string
		want       []event.Event
	}{
		{"an issue", posted("Issue", "create", hookIssue, ""), []event.Event{issue}},
		{"a change", posted("Issue", "update", hookIssue, `,"updatedFrom":{"title":"x","updatedAt":"y","stateId":"z"}`), []event.Event{changed}},
		{"a comment", posted("Comment", "create", hookComment, ""), []event.Event{comment}},
		{"what was removed", posted("Issue", "remove", hookIssue, ""), nil},
		{"another type", posted("Reaction", "create", `{"id":7}`, ""), nil},
		{"an action without a subject", posted("Cycle", "update", `null`, ""), nil},
	} {
		got, err := linear.Triggers().Webhook.Parse(signed(tt.body))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(event.Parsed{ID: deliveryID, Signed: true, Account: "o1", Events: tt.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestKeys: what the body says tells changes apart, and no header, which anybody
// can change.
func TestKeys(t *testing.T) {
	late := strings.Replace(hookIssue, "2026-11-02T10:00:00.000Z", "2026-11-02T10:00:00.001Z", 1)
	timeless := strings.Replace(hookIssue, `"updatedAt":"2026-11-02T10:00:00.000Z",`, "", 1)
	sent := "0b1c:" + time.UnixMilli(sentAt).UTC().Format(time.RFC3339Nano) + ":update"
	for _, header := range []http.Header{{}, {"Linear-Delivery": {deliveryID}}, {"Linear-Delivery": {deliveryID, deliveryID}}, {"Linear-Delivery": {strings.Repeat("x", 9999)}}} {
		for body, want := range map[string]string{
			posted("Issue", "update", hookIssue, ""): "0b1c:2026-11-02T10:00:00Z:update",
			posted("Issue", "create", hookIssue, ""): "0b1c:2026-11-02T10:00:00Z:create",
			posted("Issue", "update", late, ""):      "0b1c:2026-11-02T10:00:00.001Z:update",
			posted("Issue", "update", timeless, ""):  sent,
		} {
			got, err := linear.Triggers().Webhook.Parse(&event.Delivery{Header: header, Body: []byte(body)})
			if err != nil || !got.Signed || len(got.Events) != 1 || got.Events[0].Key != want {
				t.Errorf("%v: got %+v, %v; want the key %s", header, got, err, want)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `{"type":7}`, posted("Issue", "create", `null`, ""), posted("Issue", "create", `{}`, ""),
		posted("Issue", "update", `{"id":"a","updatedAt":"now"}`, ""), posted("Issue", "create", `[1]`, ""),
		posted("Comment", "create", `{"updatedAt":"2026-11-03T10:00:00Z"}`, ""),
		posted("Issue", "create", strings.Repeat("[", 5000)+strings.Repeat("]", 5000), ""),
	} {
		if got, err := linear.Triggers().Webhook.Parse(signed(body)); err == nil || len(got.Events) > 0 {
			t.Errorf("%.80s: %+v", body, got)
		}
	}
}

func TestRevokedApp(t *testing.T) {
	got, err := linear.Triggers().Webhook.Parse(signed(`{"type":"OAuthApp","action":"revoked","organizationId":"o1","oauthClientId":"x","webhookTimestamp":1}`))
	if err != nil || got.Lifecycle != event.Uninstalled || got.Account != "o1" || len(got.Events) != 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// TestLargeEvents keep what filters read, and links lead to Linear alone.
func TestLargeEvents(t *testing.T) {
	data := strings.Replace(hookIssue, "It **fails**.", strings.Repeat("é", 100_000), 1)
	data = strings.Replace(data, "Login", strings.Repeat("L", 500), 1)
	data = strings.Replace(data, "https://linear.app/acme/issue/ENG-7", "javascript:alert(1)", 1)
	got, err := linear.Triggers().Webhook.Parse(signed(posted("Issue", "create", data, "")))
	if err != nil {
		t.Fatal(err)
	}
	e := got.Events[0]
	if len(e.Context) > 64<<10 || !strings.Contains(string(e.Context), `"_truncated":true`) {
		t.Errorf("%d bytes of context", len(e.Context))
	}
	if n := len([]rune(e.Title)); n != 201 || e.URL != "" {
		t.Errorf("a title of %d, URL %q", n, e.URL)
	}
	if !matching(t, "issue")(&e, json.RawMessage(`{"teams":["eng"],"states":["started"],"labels":["bug"]}`)) {
		t.Error("it does not pass its filters any more")
	}
}
