package slack_test

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
	"sallyport/sources/slack"
)

// The vector that Slack publishes for its scheme.
const (
	hookSecret = "8f742231b10e8888abcd99yyyzzz85a5"
	hookTime   = 1531420618
	hookBody   = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	hookSign   = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
)

func TestVerify(t *testing.T) {
	now := time.Unix(hookTime, 0)
	for _, tt := range []struct {
		name   string
		change func(d *event.Delivery)
		now    time.Time
		want   error
	}{
		{"as published", func(*event.Delivery) {}, now, nil},
		{"five minutes later", func(*event.Delivery) {}, now.Add(5 * time.Minute), nil},
		{"from a clock that is ahead", func(*event.Delivery) {}, now.Add(-5 * time.Minute), nil},
		{"too late", func(*event.Delivery) {}, now.Add(5*time.Minute + time.Second), event.ErrStale},
		{"from the future", func(*event.Delivery) {}, now.Add(-5*time.Minute - time.Second), event.ErrStale},
		{"another body", func(d *event.Delivery) { d.Body[0] = 'T' }, now, event.ErrSignature},
		{"a fresh time on an old one", func(d *event.Delivery) {
			d.Header.Set("X-Slack-Request-Timestamp", fmt.Sprint(hookTime+3600))
		}, now.Add(time.Hour), event.ErrSignature},
		{"no time", func(d *event.Delivery) { d.Header.Del("X-Slack-Request-Timestamp") }, now, event.ErrSignature},
		{"two times", func(d *event.Delivery) { d.Header.Add("X-Slack-Request-Timestamp", fmt.Sprint(hookTime)) }, now, event.ErrSignature},
		{"a time that is none", func(d *event.Delivery) { sign(d, "soon") }, now, event.ErrSignature},
		{"no signature", func(d *event.Delivery) { d.Header.Del("X-Slack-Signature") }, now, event.ErrSignature},
		{"two signatures", func(d *event.Delivery) { d.Header.Add("X-Slack-Signature", hookSign) }, now, event.ErrSignature},
		{"no version", func(d *event.Delivery) { d.Header.Set("X-Slack-Signature", hookSign[3:]) }, now, event.ErrSignature},
		{"another version", func(d *event.Delivery) { d.Header.Set("X-Slack-Signature", "v1"+hookSign[2:]) }, now, event.ErrSignature},
	} {
		d := &event.Delivery{Body: []byte(hookBody), Header: http.Header{
			"X-Slack-Signature": {hookSign}, "X-Slack-Request-Timestamp": {fmt.Sprint(hookTime)},
		}}
		tt.change(d)
		hook := slack.Triggers().Webhook
		err := hook.Verify(d, [][]byte{[]byte("new"), []byte(hookSecret)}, tt.now, hook.Tolerance)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err := hook.Verify(d, [][]byte{[]byte(hookSecret)}, tt.now, time.Hour); errors.Is(tt.want, event.ErrStale) && err != nil {
			t.Errorf("%s, within what was chosen: %v", tt.name, err)
		}
	}
}

func sign(d *event.Delivery, sent string) {
	mac := hmac.New(sha256.New, []byte(hookSecret))
	fmt.Fprintf(mac, "v0:%s:%s", sent, d.Body)
	d.Header.Set("X-Slack-Request-Timestamp", sent)
	d.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
}

func parse(body string) (event.Parsed, error) {
	return slack.Triggers().Webhook.Parse(&event.Delivery{Header: http.Header{}, Body: []byte(body)})
}

const authorized = `"authorizations":[{"enterprise_id":null,"team_id":"T1","user_id":"UBOT","is_bot":true,"is_enterprise_install":false}]`

// callback is a delivery of that event.
func callback(inner string) string {
	return fmt.Sprintf(`{"token":"x","team_id":"T1","api_app_id":"A1","type":"event_callback","event_id":"Ev1","event_time":1355517523,%s,"event":%s}`, authorized, inner)
}

func TestChallenge(t *testing.T) {
	challenge := func(body string) string {
		return string(slack.Triggers().Webhook.Challenge(&event.Delivery{Body: []byte(body)}))
	}
	const text = "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"
	if got := challenge(`{"token":"x","challenge":"` + text + `","type":"url_verification"}`); got != text {
		t.Errorf("got %q", got)
	}
	for _, value := range []string{`""`, `"a\nb"`, `"` + strings.Repeat("a", 1001) + `"`, `7`} {
		if got := challenge(`{"type":"url_verification","challenge":` + value + `}`); got != "" {
			t.Errorf("%.20s: got %q", value, got)
		}
	}
	if got := challenge(callback(`{"type":"message","text":"url_verification"}`)); got != "" {
		t.Errorf("a message: got %q", got)
	}
}

func TestParse(t *testing.T) {
	told := func(kind, native, title, context string) *event.Event {
		return &event.Event{
			Provider: "slack", Type: kind, Native: native, Key: "Ev1", OccurredAt: time.Unix(1355517523, 0).UTC(), Title: title,
			URL: "https://slack.com/app_redirect?channel=C1&team=T1", Context: json.RawMessage(context),
		}
	}
	for _, tt := range []struct {
		name, event string
		want        *event.Event
	}{
		{
			"a message", `{"type":"message","channel":"C1","user":"U1","text":"Hello\n<@U2> & world","ts":"1355517523.000005","channel_type":"channel"}`,
			told("message", "message", "Message in C1: Hello <@U2> & world", `{"team":"T1","channel":"C1","channel_type":"channel","ts":"1355517523.000005","user":"U1","text":"Hello\n<@U2> & world"}`),
		},
		{
			"a reply with a file", `{"type":"message","subtype":"file_share","channel":"C1","user":"U1","text":"See","ts":"2.1","thread_ts":"1.1","files":[{"id":"F1","name":"a.txt","mimetype":"text/plain","url_private":"https://files.slack.com/x"}]}`,
			told("message", "message:file_share", "Message in C1: See", `{"team":"T1","channel":"C1","ts":"2.1","thread_ts":"1.1","user":"U1","text":"See","files":[{"id":"F1","name":"a.txt","mimetype":"text/plain"}]}`),
		},
		{
			"a bot's message", `{"type":"message","subtype":"bot_message","channel":"C1","bot_id":"B2","app_id":"A2","text":"","ts":"2.1","attachments":[{"title":"Down","text":"The site","color":"red"}]}`,
			told("message", "message:bot_message", "Message in C1: Down The site", `{"team":"T1","channel":"C1","ts":"2.1","user":"","bot":true,"bot_id":"B2","attachments":[{"title":"Down","text":"The site"}]}`),
		},
		{
			"a mention", `{"type":"app_mention","channel":"C1","user":"U1","text":"<@UBOT> go","ts":"2.1"}`,
			told("app_mention", "app_mention", "Mention in C1: <@UBOT> go", `{"team":"T1","channel":"C1","ts":"2.1","user":"U1","text":"<@UBOT> go"}`),
		},
		{
			"a reaction", `{"type":"reaction_added","user":"U1","reaction":"eyes","item_user":"U2","item":{"type":"message","channel":"C1","ts":"2.1"},"event_ts":"3.1"}`,
			told("reaction_added", "reaction_added", "Reaction :eyes: in C1", `{"team":"T1","channel":"C1","ts":"2.1","user":"U1","reaction":"eyes","item_user":"U2"}`),
		},
		{"an edit", `{"type":"message","subtype":"message_changed","channel":"C1","message":{"user":"U1","text":"x"}}`, nil},
		{"who joined", `{"type":"message","subtype":"channel_join","channel":"C1","user":"U1","text":"x"}`, nil},
		{"a reaction to a file", `{"type":"reaction_added","user":"U1","reaction":"eyes","item":{"type":"file","file":"F1"}}`, nil},
		{"another event", `{"type":"team_join","user":{"id":"U1"}}`, nil},
		{"the app's own message, by its user", `{"type":"message","channel":"C1","user":"UBOT","text":"x"}`, nil},
		{"the app's own message, by its app", `{"type":"message","channel":"C1","bot_id":"B1","app_id":"A1","text":"x"}`, nil},
		{"the app's own message, by its profile", `{"type":"message","channel":"C1","bot_id":"B1","bot_profile":{"app_id":"A1"},"text":"x"}`, nil},
		{"the app's own reaction", `{"type":"reaction_added","user":"UBOT","reaction":"eyes","item":{"type":"message","channel":"C1"}}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(callback(tt.event))
			want := event.Parsed{ID: "Ev1", Signed: true, Account: "T1"}
			if tt.want != nil {
				want.Events = []event.Event{*tt.want}
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestAccountOfEvents: it is the installation's, whatever team the message came from.
func TestAccountOfEvents(t *testing.T) {
	const message = `"type":"event_callback","event_id":"Ev1","team_id":"T9","event":{"type":"message","channel":"C1","user":"U1"}`
	for authorizations, want := range map[string]string{
		``:                     "T9",
		`,"authorizations":[]`: "T9",
		`,"authorizations":[{"team_id":"T1","is_enterprise_install":false,"enterprise_id":"E1"}]`: "T1",
		`,"authorizations":[{"team_id":null,"is_enterprise_install":true,"enterprise_id":"E1"}]`:  "E1",
	} {
		got, err := parse("{" + message + authorizations + "}")
		if err != nil || got.Account != want || len(got.Events) != 1 {
			t.Errorf("%s: %+v, %v", authorizations, got, err)
		}
	}
}

func TestLifecycle(t *testing.T) {
	got, err := parse(`{"team_id":"T1","api_app_id":"A1","event":{"type":"app_uninstalled"},"type":"event_callback","event_id":"Ev1","event_time":1234567890}`)
	want := event.Parsed{ID: "Ev1", Signed: true, Account: "T1", Lifecycle: event.Uninstalled}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = parse(`{"type":"app_rate_limited","team_id":"T1","minute_rate_limited":1518467820}`)
	if diff := cmp.Diff(event.Parsed{Account: "T1"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `"x"`, hookBody,
		`{"type":"event_callback","event":{"type":"message"}}`,
		`{"type":"event_callback","event_id":"Ev\u0000","event":{"type":"message"}}`,
		`{"type":"event_callback","event_id":"Ev1"}`,
		callback(`7`), callback(`{"type":"message","text":7}`),
		callback(`{"type":"message","x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`),
	} {
		if got, err := parse(body); err == nil {
			t.Errorf("%.80s: %+v", body, got)
		}
	}
}

// TestLargeEvents are cut, and their times and titles are ones that rows take.
func TestLargeEvents(t *testing.T) {
	body := callback(`{"type":"message","channel":"C1&x","user":"U1","text":"\u202e` + strings.Repeat("é", 100_000) + `"}`)
	got, err := parse(strings.Replace(body, "1355517523", "9223372036854775807", 1))
	if err != nil {
		t.Fatal(err)
	}
	e := got.Events[0]
	if len(e.Context) > 64<<10 || !strings.Contains(string(e.Context), `"_truncated":true`) || !e.OccurredAt.IsZero() || e.URL != "" {
		t.Errorf("%d bytes of context, at %v, %s", len(e.Context), e.OccurredAt, e.URL)
	}
	if len([]rune(e.Title)) != 201 || strings.Contains(e.Title, "\u202e") {
		t.Errorf("the title is %q", e.Title)
	}
}
