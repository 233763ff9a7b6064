package conformance_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// likeLinear answers as Linear does: with who one is, and the issues that
// changed last.
type likeLinear struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	issues []string // the one that changed last first
	polls  int
	slow   *slowness // of the next page; nil: none
}

type slowness struct{ begun, release chan struct{} }

func startLinear(t *testing.T) *likeLinear {
	t.Helper()
	l := &likeLinear{t: t}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	l.changes(0)
	return l
}

// changes has the nth issue change, n minutes after the first one, and returns
// the key of that.
func (l *likeLinear) changes(n int) (key string) {
	id, at := fmt.Sprintf("2f1e0d9c-8b7a-4695-8473-%012d", n), time.Date(2026, 10, 2, 8, n, 0, 0, time.UTC).Format(time.RFC3339Nano)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.issues = append([]string{fmt.Sprintf(`{"id":%q,"identifier":"ENG-%[2]d","title":"Login fails","url":"https://linear.app/acme/issue/ENG-%[2]d","priority":2,"priorityLabel":"High",`+
		`"createdAt":%[3]q,"updatedAt":%[3]q,"state":{"id":"s","name":"Todo","type":"unstarted"},"assignee":null,"team":{"id":"t","key":"ENG","name":"Engineering"},"project":null,"labels":{"nodes":[]}}`, id, n, at)}, l.issues...)
	return id + ":" + at
}

// hangs has the next page take until release is called.
func (l *likeLinear) hangs() (begun <-chan struct{}, release func()) {
	s := &slowness{make(chan struct{}), make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = s
	return s.begun, func() { close(s.release) }
}

func (l *likeLinear) polled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.polls
}

func (l *likeLinear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if !strings.Contains(string(body), "PollIssues") {
		fmt.Fprint(w, `{"data":{"viewer":{"id":"u1","name":"Ada","email":"ada@example.com"},"organization":{"id":"o1","name":"Acme","urlKey":"acme"}}}`)
		return
	}
	l.mu.Lock()
	l.polls++
	nodes, slow := strings.Join(l.issues, ","), l.slow
	if strings.Contains(string(body), `"first":1,`) || strings.Contains(string(body), `"first":1}`) {
		nodes = l.issues[0]
	}
	l.slow = nil
	l.mu.Unlock()
	if slow != nil {
		close(slow.begun)
		<-slow.release
	}
	fmt.Fprintf(w, `{"data":{"issues":{"nodes":[%s],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`, nodes)
}

// Who polls is killed while he is told what is new, between that and the commit
// that would keep it, at the commit, and before he hears of it. The next one to
// poll tells each of two triggers of each change once.
func TestInboundPollKilledAtEachStep(t *testing.T) {
	t.Parallel()
	c, people, takers := newIntake(t, 1, "--look-every", "100ms")
	other, linear := takers[0], startLinear(t)
	people.must("POST", "/api/v1/integrations", map[string]any{"provider": "linear", "kind": "api_key", "base_url": linear.URL, "secret": "lin_api_9f8e7d6c5b4a39281706"}, nil)
	for _, name := range []string{"triage", "report"} {
		people.trigger(people.automation(name), "linear", map[string]any{"event_type": "issue", "trigger_type": "polling", "integration_id": "linear", "interval_seconds": 30})
	}
	c.looked(0) // from here on is what is new
	p := newTap(t, c.postgres.URL)
	victim := newGateway(t, "ingest", "--public-url", "http://127.0.0.1:1", "--look-every", "100ms", "--database-url", p.url)
	victim.env = keys()
	t.Cleanup(victim.finish)

	var told []string
	issue := 0
	for name, arm := range map[string]func() (reached <-chan struct{}, after func()){
		"while it is told": linear.hangs,
		"before it writes": func() (<-chan struct{}, func()) {
			return p.at(`UPDATE "poll_groups" SET holder = NULL`, before), func() {}
		},
		"at its commit":   func() (<-chan struct{}, func()) { return p.at("INSERT INTO outbox", atCommit), func() {} },
		"before it hears": func() (<-chan struct{}, func()) { return p.at("INSERT INTO outbox", unheard), func() {} },
	} {
		victim.takes()
		other.pause()
		for range 3 {
			issue++
			key := linear.changes(issue)
			told = append(told, key, key)
		}
		reached, after := arm()
		turn := c.passes()
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatalf("%s: nobody polls", name)
		}
		victim.kill()
		after()
		other.resume()
		turn = max(turn, c.passes())
		c.looked(turn)
		people.onceEach(told...)
	}
	if n := linear.polled(); n > 12 {
		t.Errorf("for two triggers and nine looks Linear was asked %d times", n)
	}
}

// passes has the time pass until a look is due, and the lease of who died over.
// It returns how many turns there were.
func (c *cluster) passes() (turn int) {
	c.t.Helper()
	c.query(`UPDATE poll_groups SET next_at = now() - interval '1 second', lease_until = lease_until - interval '1 hour' RETURNING turn`, &turn)
	return turn
}

// looked waits for the end of a later turn than that.
func (c *cluster) looked(turn int) {
	c.t.Helper()
	await(c.t, "a look", func() bool {
		var done bool
		c.query(fmt.Sprintf(`SELECT count(*) > 0 FROM poll_groups WHERE turn > %d AND holder IS NULL`, turn), &done)
		return done
	})
}
