package linear_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/outbound"
	"sallyport/sources"
	"sallyport/sources/linear"
)

// workspace answers polls from issues that it has: those that changed last
// first, a page at a time.
type workspace struct {
	t      *testing.T
	issues map[string]*held
	conn   *sources.Conn
	cursor json.RawMessage

	asked int
	fail  func(asked int) (status int, body string) // zero: it answers
}

type held struct {
	created, updated time.Time
	by               string // members that say who created it
}

func newWorkspace(t *testing.T) *workspace {
	w := &workspace{t: t, issues: map[string]*held{}}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	base, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := outbound.New(outbound.Config{MaxWait: 1, Attempts: 1})
	t.Cleanup(pool.Close)
	w.conn = &sources.Conn{Kind: action.KindAPIKey, Token: "lin_api_canary", HTTP: pool.Client(t.Name(), base, "lin_api_canary")}
	return w
}

func (w *workspace) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.asked++
	if w.fail != nil {
		if status, body := w.fail(w.asked); status > 0 {
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, body)
			return
		}
	}
	var in struct {
		Variables struct {
			First  int
			After  string
			Filter struct{ UpdatedAt struct{ GTE time.Time } }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.t.Error(err)
	}
	ids := []string{}
	for id, i := range w.issues {
		if !i.updated.Before(in.Variables.Filter.UpdatedAt.GTE) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := w.issues[b].updated.Compare(w.issues[a].updated); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	if after := in.Variables.After; after != "" {
		ids = ids[slices.Index(ids, after)+1:]
	}
	page := ids[:min(len(ids), in.Variables.First)]
	nodes, end := make([]string, 0, len(page)), ""
	for _, id := range page {
		i := w.issues[id]
		nodes = append(nodes, fmt.Sprintf(`{"id":%q,"identifier":%q,"title":"T","createdAt":%q,"updatedAt":%q,"labels":{"nodes":[]}%s}`,
			id, "ENG-"+id, i.created.Format(time.RFC3339Nano), i.updated.Format(time.RFC3339Nano), i.by))
		end = id
	}
	fmt.Fprintf(rw, `{"data":{"issues":{"nodes":[%s],"pageInfo":{"hasNextPage":%t,"endCursor":%q}}}}`,
		strings.Join(nodes, ","), len(page) < len(ids), end)
}

// day is the beginning of the workspace's time, in which minutes count.
func day(minutes float64) time.Time {
	return time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC).Add(time.Duration(minutes * float64(time.Minute)))
}

// put has an issue created, or changed, at that minute.
func (w *workspace) put(id string, minute float64) {
	if w.issues[id] == nil {
		w.issues[id] = &held{created: day(minute)}
	}
	w.issues[id].updated = day(minute)
}

func (w *workspace) look() (event.PollResult, error) {
	w.asked = 0
	got, err := linear.Module().Poll(w.t.Context(), w.conn, w.cursor)
	if err == nil {
		w.cursor = got.Cursor
	}
	return got, err
}

// tells looks once and compares what is told: issue, at, action.
func (w *workspace) tells(when string, want ...string) event.PollResult {
	w.t.Helper()
	polled, err := w.look()
	if err != nil {
		w.t.Fatalf("%s: %v", when, err)
	}
	got := []string{}
	for _, e := range polled.Events {
		var n struct{ Action string }
		if err := json.Unmarshal(e.Context, &n); err != nil || e.Type != "issue" || e.Provider != "linear" {
			w.t.Errorf("%s: %+v", when, e)
		}
		got = append(got, e.Key+" "+n.Action)
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
	return polled
}

func TestPoll(t *testing.T) {
	w := newWorkspace(t)
	w.put("1", 0)
	w.put("2", 1)
	w.put("3", 2)
	w.tells("what was there before is no news")
	w.tells("nothing happened")

	w.put("4", 3)
	w.put("1", 2.5)
	w.tells("oldest first", "1:2026-11-02T10:02:30Z updated", "4:2026-11-02T10:03:00Z created")
	w.tells("nothing happened")

	w.put("5", 3)
	w.tells("at the same time as the last one", "5:2026-11-02T10:03:00Z created")
	w.put("2", 2.2)
	w.tells("shown later than its time", "2:2026-11-02T10:02:12Z updated")
	w.put("4", 9)
	w.put("4", 10)
	w.tells("twice between looks", "4:2026-11-02T10:10:00Z updated")
	w.put("6", 9.5)
	w.put("6", 10.5)
	if got := w.tells("created and changed", "6:2026-11-02T10:10:30Z created"); got.More || got.Wait < time.Minute {
		t.Errorf("more %v, wait %v", got.More, got.Wait)
	}
	w.tells("nothing happened")
}

func TestPollOfNothing(t *testing.T) {
	w := newWorkspace(t)
	w.tells("an empty workspace")
	w.tells("and it stays so")
	w.put("1", 0)
	w.tells("its first issue", "1:2026-11-02T10:00:00Z created")
	w.cursor = json.RawMessage(`"of another time"`)
	w.tells("a cursor that is none")
	w.put("1", 1)
	w.tells("goes on from there", "1:2026-11-02T10:01:00Z updated")
}

// TestPollTellsWhoCreated, and of a change not who made it.
func TestPollTellsWhoCreated(t *testing.T) {
	w := newWorkspace(t)
	w.put("0", 0)
	w.tells("begins")
	w.put("0", 1)
	w.issues["0"].by = `,"botActor":{"id":"b"}`
	for id, by := range map[string]string{"1": `,"botActor":{"id":"b"}`, "2": `,"creator":{"id":"x","app":true},"botActor":null`, "3": `,"creator":{"id":"u","name":"Ada","app":false}`, "4": `,"creator":null`} {
		w.put(id, 2)
		w.issues[id].by = by
	}
	polled, err := w.look()
	if err != nil || len(polled.Events) != 5 {
		t.Fatal(polled, err)
	}
	matches := matching(t, "issue")
	for _, e := range polled.Events {
		id, _, _ := strings.Cut(e.Key, ":")
		if got, want := matches(&e, nil), id != "1" && id != "2"; got != want || !matches(&e, json.RawMessage(`{"bots":true}`)) {
			t.Errorf("%s passes: %v", e.Context, got)
		}
		if got := matches(&e, json.RawMessage(`{"bots":true,"ignore_authors":["Ada"]}`)); got != (id != "3") {
			t.Errorf("%s passes without Ada: %v", e.Context, got)
		}
	}
}

// TestPollOfMuch needs several looks; the mark moves after the last one, so
// that what changes meanwhile is not missed.
func TestPollOfMuch(t *testing.T) {
	w := newWorkspace(t)
	w.put("first", 0)
	w.tells("begins")
	for i := range 1200 {
		w.put(fmt.Sprintf("%04d", i), 1+float64(i)/100)
	}
	got, err := w.look()
	if err != nil || len(got.Events) != 1000 || !got.More || w.asked != 20 {
		t.Fatalf("%d events, more %v, asked %d times, %v", len(got.Events), got.More, w.asked, err)
	}
	w.put("0000", 20)
	got, err = w.look()
	if err != nil || len(got.Events) != 199 || got.More {
		t.Fatalf("%d events, more %v, %v", len(got.Events), got.More, err)
	}
	w.tells("what changed meanwhile", "0000:2026-11-02T10:20:00Z updated")
	if len(w.cursor) > 1000 {
		t.Errorf("the cursor has %d bytes", len(w.cursor))
	}
}

// TestPollBreaksOff keeps what was read, and goes on from there.
func TestPollBreaksOff(t *testing.T) {
	const limited = `{"errors":[{"message":"wait","extensions":{"code":"RATELIMITED","meta":{"rateLimitResult":{"duration":600000}}}}]}`
	w := newWorkspace(t)
	w.put("first", 0)
	w.tells("begins")
	for i := range 120 {
		w.put(fmt.Sprintf("%04d", i), 1+float64(i)/100)
	}
	w.fail = func(asked int) (int, string) {
		if asked == 3 {
			return 400, limited
		}
		return 0, ""
	}
	got, err := w.look()
	if err != nil || len(got.Events) != 100 || got.More || got.Wait != 10*time.Minute {
		t.Fatalf("%d events, more %v, wait %v, %v", len(got.Events), got.More, got.Wait, err)
	}
	fresh := newWorkspace(t) // whose client was not told to wait
	fresh.issues, fresh.cursor = w.issues, w.cursor
	if got, err = fresh.look(); err != nil || len(got.Events) != 20 || got.More {
		t.Fatalf("%d events, more %v, %v", len(got.Events), got.More, err)
	}
	fresh.tells("nothing happened")
}

// TestPollWhosePlaceIsGone reads from the beginning what it had not finished.
func TestPollWhosePlaceIsGone(t *testing.T) {
	w := newWorkspace(t)
	w.put("first", 0)
	w.tells("begins")
	for i := range 1010 {
		w.put(fmt.Sprintf("%04d", i), 1+float64(i)/1000)
	}
	if got, err := w.look(); err != nil || !got.More {
		t.Fatal(got.More, err)
	}
	gone := func(asked int) (int, string) {
		if asked == 1 {
			return 400, `{"errors":[{"message":"bad","extensions":{"code":"INVALID_INPUT","type":"invalid input"}}]}`
		}
		return 0, ""
	}
	w.fail = gone
	got, err := w.look()
	if err != nil || !got.More || len(got.Events) != 0 {
		t.Fatalf("%d events, more %v, %v", len(got.Events), got.More, err)
	}
	w.fail = nil
	if got, err = w.look(); err != nil || got.More || len(got.Events) != 10 {
		t.Fatalf("%d events, more %v, %v", len(got.Events), got.More, err)
	}
	w.fail = gone
	if _, err = w.look(); err == nil {
		t.Error("a question that is refused from the beginning is no trouble")
	}
	for i := range 60 {
		w.put(fmt.Sprintf("%04d", i), 30)
	}
	w.fail = func(asked int) (int, string) { return gone(asked - 1) }
	if got, err = w.look(); err == nil {
		t.Errorf("a page that is refused each time is no trouble: %d events", len(got.Events))
	}
}

// TestPollFails without a new cursor.
func TestPollFails(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		check  func(error) bool
	}{
		{401, `{"errors":[{"message":"no","extensions":{"type":"authentication error"}}]}`, func(err error) bool {
			var no *sources.Refusal
			return errors.As(err, &no) && no.Credential
		}},
		{200, `{"data":{"issues":{"nodes":[{"id":"1","updatedAt":"soon"}],"pageInfo":{}}}}`, func(err error) bool { return err != nil }},
		{429, `{}`, func(err error) bool { return errors.Is(err, action.ErrUnavailable) }},
	} {
		for _, cursor := range []string{"", `{"start":"2026-11-02T10:00:00Z","mark":"2026-11-02T10:00:00Z"}`, `{"mark":"2026-11-02T10:00:00Z","after":"x"}`} {
			w := newWorkspace(t)
			w.cursor = json.RawMessage(cursor)
			w.fail = func(int) (int, string) { return tt.status, tt.body }
			if got, err := w.look(); !tt.check(err) || got.Cursor != nil || strings.Contains(fmt.Sprintf("%+v", err), "canary") {
				t.Errorf("%d with %s: %+v, %v", tt.status, cursor, got, err)
			}
		}
	}
}
