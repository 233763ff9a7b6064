package gmail_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/gmail"
)

// start is where the mailbox's history begins: beyond what a JSON number holds.
const start = 9007199254740993

// box answers like Gmail from the history that it has.
type box struct {
	t       *testing.T
	history []entry
	forgot  uint64 // what is older is not kept
	conn    *sources.Conn
	cursor  json.RawMessage

	asked []string
	fail  func(path string) (status int, body string) // zero: it answers
}

// entry is a record of the history: mail that was added.
type entry struct{ mail []mail }

type mail struct {
	id, labels, subject string
	gone                bool
}

func newBox(t *testing.T) *box {
	b := &box{t: t}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{MaxWait: 1, Attempts: 1})
	t.Cleanup(pool.Close)
	b.conn = &sources.Conn{Kind: action.KindOAuth2, Token: token, HTTP: pool.Client(t.Name(), base, token)}
	return b
}

// add puts one record of new mail into the history.
func (b *box) add(list ...mail) { b.history = append(b.history, entry{list}) }

func (b *box) last() uint64 { return start + uint64(len(b.history)) }

func (b *box) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/gmail/v1/users/me")
	b.asked = append(b.asked, path+"?"+r.URL.RawQuery)
	if r.Header.Get("Authorization") != "Bearer "+token {
		b.t.Errorf("asked as %q", r.Header.Get("Authorization"))
	}
	if b.fail != nil {
		if status, body := b.fail(path); status > 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return
		}
	}
	id, single := strings.CutPrefix(path, "/messages/")
	switch {
	case path == "/profile":
		fmt.Fprintf(w, `{"emailAddress":"ada@example.com","historyId":"%d"}`, b.last())
	case path == "/history":
		b.list(w, r.URL.Query())
	case single:
		b.message(w, id)
	default:
		b.t.Errorf("asked for %s", path)
	}
}

func (b *box) list(w http.ResponseWriter, q url.Values) {
	since, err := strconv.ParseUint(q.Get("startHistoryId"), 10, 64)
	if err != nil || q.Get("historyTypes") != "messageAdded" {
		b.t.Errorf("asked for %v", q)
	}
	if since < b.forgot {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, fault(404, "NOT_FOUND", "notFound"))
		return
	}
	limit, _ := strconv.Atoi(q.Get("maxResults"))
	answer := map[string]any{"historyId": fmt.Sprint(b.last())}
	var list []any
	for i, e := range b.history {
		if n := uint64(start + i + 1); n > since {
			var added []any
			for _, m := range e.mail {
				added = append(added, map[string]any{"message": map[string]any{"id": m.id, "threadId": "t" + m.id}})
			}
			list = append(list, map[string]any{"id": fmt.Sprint(n), "messagesAdded": added, "messages": []any{map[string]any{"id": "other"}}})
		}
	}
	if len(list) > limit {
		list, answer["nextPageToken"] = list[:limit], "p2"
	}
	if list != nil {
		answer["history"] = list
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (b *box) message(w http.ResponseWriter, id string) {
	for _, e := range b.history {
		for _, m := range e.mail {
			if m.id == id && !m.gone {
				_ = json.NewEncoder(w).Encode(map[string]any{
					"id": id, "threadId": "t" + id, "labelIds": strings.Fields(m.labels), "snippet": "It&#39;s <here>", "historyId": "5",
					"internalDate": "1793700000123", "payload": map[string]any{"headers": []any{
						map[string]any{"name": "from", "value": "Bob <bob@example.com>"},
						map[string]any{"name": "From", "value": "Boss"},
						map[string]any{"name": "Subject", "value": m.subject},
						map[string]any{"name": "To", "value": "ada@example.com"},
					}},
				})
				return
			}
		}
	}
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, fault(404, "NOT_FOUND", "notFound"))
}

func (b *box) look() (event.PollResult, error) {
	b.asked = nil
	got, err := gmail.Module().Poll(b.t.Context(), b.conn, b.cursor)
	if err == nil {
		b.cursor = got.Cursor
	}
	return got, err
}

// tells looks once and compares the mail that is told, by id.
func (b *box) tells(when string, want ...string) event.PollResult {
	b.t.Helper()
	polled, err := b.look()
	if err != nil {
		b.t.Fatalf("%s: %v", when, err)
	}
	got := []string{}
	for _, e := range polled.Events {
		id, at, _ := strings.Cut(e.Key, ":")
		if got = append(got, id); at != "2026-11-03T10:00:00.123Z" {
			b.t.Errorf("%s: the key %s", when, e.Key)
		}
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
	return polled
}

func TestPoll(t *testing.T) {
	b := newBox(t)
	b.add(mail{id: "old", labels: "INBOX"})
	b.tells("what was there before is no news")
	if diff := cmp.Diff([]string{"/profile?"}, b.asked); diff != "" || string(b.cursor) != `{"history_id":"9007199254740994"}` {
		t.Errorf("%s, the cursor is %s", diff, b.cursor)
	}
	b.tells("nothing happened")
	b.add(mail{id: "a", labels: "INBOX UNREAD"}, mail{id: "b"})
	b.add(mail{id: "draft", labels: "DRAFT"}, mail{id: "deleted", gone: true})
	b.add()
	b.add(mail{id: "c"})
	if got := b.tells("new mail", "a", "b", "c"); got.More {
		t.Error("there is more")
	}
	if diff := cmp.Diff([]string{
		"/history?historyTypes=messageAdded&maxResults=50&startHistoryId=9007199254740994",
		"/messages/a?format=metadata&metadataHeaders=From&metadataHeaders=To&metadataHeaders=Cc&metadataHeaders=Reply-To&metadataHeaders=Subject&metadataHeaders=Date&metadataHeaders=Message-ID",
	}, b.asked[:2]); diff != "" {
		t.Error(diff)
	}
	b.tells("nothing happened")
	b.cursor = json.RawMessage(`[]`)
	b.tells("a cursor that is none")
	b.add(mail{id: "d"})
	b.tells("goes on from there", "d")
}

func TestEvent(t *testing.T) {
	b := newBox(t)
	b.tells("begins")
	b.add(mail{id: "a", labels: "INBOX", subject: "Re:\u202e <hi>\n"})
	want := event.Event{
		Provider: "gmail", Type: "new_message", Native: "messageAdded", Key: "a:2026-11-03T10:00:00.123Z",
		OccurredAt: time.Date(2026, 11, 3, 10, 0, 0, 123e6, time.UTC),
		Title:      "Mail from Bob <bob@example.com>: Re:  <hi> ", URL: "https://mail.google.com/mail/#all/a",
		Context: json.RawMessage(`{"id":"a","thread_id":"ta","labels":["INBOX"],"from":"Bob <bob@example.com>","to":"ada@example.com","subject":"Re:` + "\u202e" + ` <hi>\n","snippet":"It's <here>"}`),
	}
	if diff := cmp.Diff([]event.Event{want}, b.tells("new mail", "a").Events); diff != "" {
		t.Error(diff)
	}
	b.add(mail{id: "b", subject: strings.Repeat("é", 100_000)})
	e := b.tells("a long one", "b").Events[0]
	if len(e.Context) > 64<<10 || len([]rune(e.Title)) != 201 || !strings.Contains(string(e.Context), `"_truncated":true`) {
		t.Errorf("%d bytes of context, title %q", len(e.Context), e.Title)
	}
}

func TestPollOfMuch(t *testing.T) {
	b := newBox(t)
	b.tells("begins")
	want := []string{}
	for i := range 120 {
		b.add(mail{id: fmt.Sprint("m", i)})
		want = append(want, fmt.Sprint("m", i))
	}
	for n, more := range []bool{true, true, false} {
		if got := b.tells("much", want[n*50:min(n*50+50, 120)]...); got.More != more {
			t.Errorf("look %d: more %v", n, got.More)
		}
	}
	b.tells("nothing happened")
}

// TestPollBreaksOff: what was read stays read, and nothing is left out.
func TestPollBreaksOff(t *testing.T) {
	b := newBox(t)
	b.tells("begins")
	b.add(mail{id: "a"})
	b.add(mail{id: "b"}, mail{id: "c"})
	b.fail = func(path string) (int, string) {
		if path == "/messages/c" {
			return 500, "oh"
		}
		return 0, ""
	}
	b.tells("until it breaks", "a")
	if _, err := b.look(); err == nil {
		t.Error("nothing was read, and that is no trouble")
	}
	b.fail = nil
	b.tells("whole again", "b", "c")
}

// TestPollIsLimited says for how long.
func TestPollIsLimited(t *testing.T) {
	b := newBox(t)
	b.tells("begins")
	b.add(mail{id: "a"})
	b.add(mail{id: "b"})
	b.fail = func(path string) (int, string) {
		if path == "/messages/b" {
			return 429, fault(429, "RESOURCE_EXHAUSTED", "rateLimitExceeded")
		}
		return 0, ""
	}
	if got := b.tells("until then", "a"); got.Wait <= 0 || got.More {
		t.Errorf("wait %v, more %v", got.Wait, got.More)
	}
}

func TestForgottenHistory(t *testing.T) {
	b := newBox(t)
	b.tells("begins")
	b.add(mail{id: "a"})
	b.forgot = b.last() + 1
	b.add(mail{id: "b"})
	if got := b.tells("too long ago"); !strings.Contains(got.Lost, "Mail that arrived since then") {
		t.Errorf("what was lost is not told: %q", got.Lost)
	}
	b.add(mail{id: "c"})
	if got := b.tells("from there on", "c"); got.Lost != "" {
		t.Errorf("lost: %q", got.Lost)
	}
}

// TestRefusedMail: a message that Gmail refuses to show does not stop the
// mailbox, but one that it may show later does, and so does trouble with all.
func TestRefusedMail(t *testing.T) {
	for _, tt := range []struct {
		status  int
		body    string
		all     bool // it is answered to everything else, too
		skipped bool
	}{
		{400, fault(400, "FAILED_PRECONDITION", "failedPrecondition"), false, true},
		{403, fault(403, "PERMISSION_DENIED", "forbidden"), false, true},
		{403, fault(403, "PERMISSION_DENIED", "insufficientPermissions"), true, false},
		{403, fault(403, "RESOURCE_EXHAUSTED", "dailyLimitExceeded"), true, false},
		{401, fault(401, "UNAUTHENTICATED", "authError"), false, false},
		{408, "", false, false},
		{500, "", false, false},
	} {
		b := newBox(t)
		b.tells("begins")
		b.add(mail{id: "a"})
		b.add(mail{id: "b"}, mail{id: "bad"}, mail{id: "c"})
		b.add(mail{id: "d"})
		b.fail = func(path string) (int, string) {
			if path == "/messages/bad" || tt.all && path == "/profile" {
				return tt.status, tt.body
			}
			return 0, ""
		}
		if !tt.skipped {
			if got := b.tells(tt.body, "a"); got.Lost != "" {
				t.Errorf("%d %s: lost %q", tt.status, tt.body, got.Lost)
			}
			b.fail = nil
			b.tells("whole again", "b", "bad", "c", "d")
			continue
		}
		if got := b.tells(tt.body, "a", "b", "c", "d"); !strings.Contains(got.Lost, "1 message") {
			t.Errorf("%d %s: lost %q", tt.status, tt.body, got.Lost)
		}
		b.tells("nothing happened")
	}
}

// TestPollFails without a new cursor, and never names the credential.
func TestPollFails(t *testing.T) {
	credential := func(err error) bool {
		var no *sources.Refusal
		return errors.As(err, &no) && no.Credential
	}
	unavailable := func(err error) bool { return errors.Is(err, action.ErrUnavailable) }
	for _, tt := range []struct {
		path   string
		status int
		body   string
		check  func(error) bool
	}{
		{"/history", 401, fault(401, "UNAUTHENTICATED", "authError"), credential},
		{"/messages/a", 401, fault(401, "UNAUTHENTICATED", "authError"), credential},
		{"/history", 200, `<html>`, unavailable},
		{"/history", 200, `{}`, unavailable},
		{"/history", 200, `{"nextPageToken":"p2","historyId":"7"}`, unavailable},
		{"/history", 200, `{"history":[{"messagesAdded":[]}],"historyId":"7"}`, unavailable},
		{"/history", 200, `{"history":[{"id":"8","messagesAdded":[{"message":{"id":"../x"}}]}],"historyId":"8"}`, unavailable},
		{"/messages/a", 200, `{"id":"b"}`, unavailable},
		{"/messages/a", 200, `[]`, unavailable},
	} {
		b := newBox(t)
		b.tells("begins")
		b.add(mail{id: "a"})
		b.fail = func(path string) (int, string) {
			if path == tt.path {
				return tt.status, tt.body
			}
			return 0, ""
		}
		if got, err := b.look(); !tt.check(err) || got.Cursor != nil || strings.Contains(fmt.Sprintf("%+v", err), token) {
			t.Errorf("%s %d %s: %+v, %v", tt.path, tt.status, tt.body, got, err)
		}
	}
	b := newBox(t)
	b.fail = func(string) (int, string) { return 200, `{"emailAddress":"a@example.com"}` }
	if _, err := b.look(); !unavailable(err) {
		t.Errorf("without a history: %v", err)
	}
	if slices.ContainsFunc(b.asked, func(s string) bool { return strings.Contains(s, token) }) {
		t.Error("the credential is in a URL")
	}
}

func TestFilters(t *testing.T) {
	b := newBox(t)
	b.tells("begins")
	trigger := gmail.Triggers().Types[0]
	for _, tt := range []struct {
		labels, config string
		want           bool
	}{
		{"INBOX UNREAD", ``, true},
		{"INBOX", `{}`, true},
		{"", `{"labels":[]}`, true},
		{"Label_12", ``, true},
		{"SPAM", ``, false},
		{"TRASH INBOX", ``, false},
		{"SENT", ``, false},
		{"SENT INBOX", ``, true},
		{"SENT", `{"labels":["SENT"]}`, true},
		{"SPAM", `{"labels":["INBOX","SPAM"]}`, true},
		{"INBOX Label_12", `{"labels":["Label_12"]}`, true},
		{"INBOX", `{"labels":["Label_12"]}`, false},
		{"", `{"labels":["INBOX"]}`, false},
	} {
		id := fmt.Sprint("m", len(b.history))
		b.add(mail{id: id, labels: tt.labels})
		e := b.tells(tt.labels, id).Events[0]
		if got := trigger.Matches(&e, json.RawMessage(tt.config)); got != tt.want {
			t.Errorf("%q passes %s: %v", tt.labels, tt.config, got)
		}
	}
	if trigger.Matches(&event.Event{Context: json.RawMessage(`7`)}, nil) || gmail.Triggers().Webhook != nil {
		t.Error("what cannot be read passes, or is heard by webhook")
	}
}
