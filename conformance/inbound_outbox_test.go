package conformance_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// endpoint is where runs are delivered to. It keeps what was posted there, as
// far as it was signed as Standard Webhooks has it.
type endpoint struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	secret  string
	got     []handover
	answers []func(w http.ResponseWriter) // to the next ones; then 204
}

// handover is a run as it was posted.
type handover struct {
	id, sent string // of the delivery
	Type     string
	Data     struct {
		Run     runRow
		Event   struct{ Context struct{ Action string } }
		Session struct {
			ID, Token string
			MCPURL    string `json:"mcp_url"`
		}
		Claim string `json:"claim_id"`
	}
}

// same tells all of it that has to stay the same.
func (h handover) same() string {
	return fmt.Sprint(h.id, h.Data.Run.ID, h.Data.Claim, h.Data.Session)
}

func startEndpoint(a *api) *endpoint {
	a.t.Helper()
	e := &endpoint{t: a.t}
	e.Server = httptest.NewServer(e)
	a.t.Cleanup(e.Close)
	var made struct{ Secret string }
	a.must("PUT", "/api/v1/run-endpoint", map[string]any{"url": e.URL + "/runs"}, &made)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secret = made.Secret
	return e
}

func (e *endpoint) next(answers ...func(http.ResponseWriter)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answers = answers
}

func (e *endpoint) all() []handover {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // its sender was killed
	}
	e.mu.Lock()
	h := handover{id: r.Header.Get("Webhook-Id"), sent: r.Header.Get("Webhook-Timestamp")}
	if problem := e.verify(h, r.Header.Get("Webhook-Signature"), body); problem != "" {
		e.t.Errorf("a delivery is not signed: %s", problem)
	}
	decode(e.t, body, &h)
	e.got = append(e.got, h)
	answer := func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }
	if len(e.answers) > 0 {
		answer, e.answers = e.answers[0], e.answers[1:]
	}
	e.mu.Unlock()
	answer(w)
}

// verify says what is wrong with a signature, after the standard's own words.
func (e *endpoint) verify(h handover, signatures string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(e.secret, "whsec_"))
	if err != nil || len(key) < 24 {
		return fmt.Sprintf("the secret is %q", e.secret)
	}
	seconds, err := strconv.ParseInt(h.sent, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return "its time is " + h.sent
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", h.id, h.sent, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); !slices.Contains(strings.Fields(signatures), want) {
		return signatures + ", and should be " + want
	}
	return ""
}

// An endpoint fails three times and then takes a run: each time it was the same
// delivery of the same run, with the same claim and session, with which the run
// is worked on. Another one is delivered by who is killed meanwhile, and by the
// next one: that is one run, too.
func TestInboundRunIsDelivered(t *testing.T) {
	t.Parallel()
	c, people, takers := newIntake(t, 2, "--dispatch-every", "100ms")
	e, r := startEndpoint(people.api), people.gitHub("triage")
	e.next(
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) { w.Header().Set("Location", "/"); w.WriteHeader(http.StatusFound) },
	)
	d, first := r.issue(1)
	d.taken(t, r.at(takers[0]))
	for n := range 4 {
		people.await(fmt.Sprintf("delivery %d", n+1), func() bool { return len(e.all()) == n+1 })
		want := "pending"
		if n == 3 {
			want = "delivered"
		}
		people.await("its outcome", func() bool { return rowsOf[parcel](people.api, outboxPath, "")[0].Status == want })
		c.execute(`UPDATE outbox SET next_at = now() WHERE status = 'pending'`) // its time has come
	}
	got := e.all()
	for _, h := range got[1:] {
		if h.same() != got[0].same() {
			t.Errorf("another delivery is %+v, the first one was %+v", h, got[0])
		}
	}
	people.onceEach(first)
	worker := people.as(got[0].Data.Session.Token)
	if r := worker.do("POST", runsPath+"/"+got[0].Data.Run.ID+"/renew", nil); r.Status != http.StatusOK {
		t.Errorf("the session's worker renews: %d %s", r.Status, r.Body)
	}
	if _, err := newAgent(t, got[0].Data.Session.MCPURL, worker.key).list(t.Context()); got[0].Data.Event.Context.Action != "opened" || err != nil {
		t.Errorf("its agent: %v; the event: %+v", err, got[0].Data.Event)
	}
	if r := worker.do("POST", runsPath+"/"+got[0].Data.Run.ID+"/finish", map[string]any{"status": "succeeded"}); r.Status != http.StatusOK {
		t.Errorf("the session's worker finishes: %d %s", r.Status, r.Body)
	}
	people.await("the session to end", func() bool { return worker.do("GET", "/api/v1/me", nil).Status == http.StatusUnauthorized })

	// Whoever delivers the next one is killed before he hears the answer.
	begun, release := make(chan struct{}), make(chan struct{})
	e.next(func(w http.ResponseWriter) { close(begun); <-release; w.WriteHeader(http.StatusOK) })
	takers[1].pause()
	d, second := r.issue(2)
	d.taken(t, r.at(takers[0]))
	<-begun
	takers[0].kill()
	close(release)
	takers[1].resume()
	c.execute(`UPDATE outbox SET lease_until = lease_until - interval '1 hour' WHERE status = 'sending'`) // until its lease is over
	people.await("the next one to deliver it", func() bool { return len(e.all()) == 6 })
	if got = e.all()[4:]; got[0].same() != got[1].same() {
		t.Errorf("it was delivered as %+v and then as %+v", got[0], got[1])
	}
	people.await("its outcome", func() bool { return len(rowsOf[parcel](people.api, outboxPath, "status=delivered")) == 2 })
	people.onceEach(first, second)
	for _, one := range rowsOf[runRow](people.api, runsPath, "status=claimed") {
		if one.ID != got[0].Data.Run.ID || one.Session != got[0].Data.Session.ID || one.By != "endpoint" {
			t.Errorf("the run is %+v, and was delivered as %+v", one, got[0])
		}
	}
}
