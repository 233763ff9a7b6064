package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/dashboard/notify"
	"sallyport/ingest/event"
	"sallyport/internal/dbtest"
	"sallyport/internal/redact"
	"sallyport/store"
	"sallyport/store/database"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// open is a vault that seals nothing.
type open struct{ action.Vault }

func (open) Open(_ action.Ref, sealed []byte) ([]byte, error) { return sealed, nil }

// endpoint is a server that is told of calls, and answers what it is told to.
type endpoint struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []told
}

type told struct {
	id, signature, body string
	at                  time.Time
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{status: 204}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent, _ := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.got = append(e.got, told{r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Signature"), string(body), time.Unix(sent, 0)})
		w.WriteHeader(e.status)
		_, _ = io.WriteString(w, "no: "+r.URL.String())
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) answers(status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = status
}

func (e *endpoint) all() []told {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]told(nil), e.got...)
}

// house is an organization whose calls are told of.
type house struct {
	*testing.T
	dbs []*store.DB
	db  *store.DB
	org string
	log *bytes.Buffer
	mu  sync.Mutex
}

// tell plays a story on SQLite and on PostgreSQL.
func tell(t *testing.T, story func(*house)) {
	for kind, open := range map[string]func(*testing.T) []*store.DB{"SQLite": file, "PostgreSQL": server} {
		t.Run(kind, func(t *testing.T) {
			dbs := open(t)
			story(&house{T: t, dbs: dbs, db: dbs[0], org: store.DefaultOrganization, log: &bytes.Buffer{}})
		})
	}
}

func file(t *testing.T) []*store.DB {
	path := filepath.Join(t.TempDir(), "s.db")
	dbtest.FileFrom(t, "notify", path, func(path string) error {
		db, err := store.Open(context.Background(), store.Config{Path: path})
		if err != nil {
			return err
		}
		return db.Close()
	})
	db := opened(t, store.Config{Path: path})
	return []*store.DB{db, db}
}

func server(t *testing.T) []*store.DB {
	url := dbtest.PostgresFrom(t, "notify", func(url string) error {
		_, err := database.Migrate(context.Background(), store.Config{URL: url})
		return err
	})
	return []*store.DB{opened(t, store.Config{URL: url}), opened(t, store.Config{URL: url})}
}

func opened(t *testing.T, c store.Config) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (h *house) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.Write(p)
}

func (h *house) logged() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.log.String()
}

func (h *house) ok(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) webhook(url string) {
	h.Helper()
	_, err := h.db.SetNotifyChannel(h.Context(), action.NotifyChannel{
		Organization: h.org, Kind: action.NotifyWebhook, Enabled: true, Wants: action.WantsAll, URL: url, UpdatedBy: "ada",
	}, &event.Secret{ID: uuid.NewString(), Sealed: []byte(secret), CreatedAt: h.db.Now()})
	h.ok(err)
}

// held is a call that waits.
func (h *house) held(change ...func(*action.Draft)) string {
	h.Helper()
	s, err := h.db.CreateSession(h.Context(), action.Session{Organization: h.org, Title: "Fix <!channel> the login", Group: "dev", CreatedBy: "ada"})
	h.ok(err)
	id, now := uuid.Must(uuid.NewV7()).String(), h.db.Now()
	expires := now.Add(time.Hour)
	d := &action.Draft{
		Invocation: action.Invocation{
			ID: id, Organization: h.org, Session: s.ID, Source: "linear", SourceName: "Linear", Action: "create_issue", Risk: action.RiskWrite,
			Status: action.StatusPending, Mode: action.ModeRequireApproval, ModeSource: action.LayerInferred,
			Steps:  []action.Step{{Layer: action.LayerInferred, Mode: action.ModeRequireApproval, Note: "a write waits for a person"}},
			Params: json.RawMessage(`{"title":"the-param"}`), ParamsHash: id, Summary: "Create the issue “Login”", CreatedAt: now, ExpiresAt: &expires,
		},
		PolicyVersion: 1, Joins: true, MaxPending: 50, SealedParams: []byte("sealed"), DeniedSince: now,
	}
	for _, f := range change {
		f(d)
	}
	_, err = h.db.Begin(h.Context(), d)
	h.ok(err)
	return id
}

func (h *house) deny(id string) {
	h.Helper()
	_, err := h.db.Deny(h.Context(), action.Verdict{Organization: h.org, ID: id, By: "ada", Now: h.db.Now()})
	h.ok(err)
}

// sender tells of calls by one of the instances until the story or stop ends it.
func (h *house) sender(i int, change ...func(*notify.Config)) (s *notify.Sender, stop func()) {
	h.Helper()
	c := notify.Config{
		Rows: h.dbs[i], Vault: open{}, JSON: &redact.JSON{}, Do: http.DefaultClient.Do, Slack: silent{}.Call, Worker: fmt.Sprint("worker ", i), PublicURL: "https://gate.example.com",
		NewID: uuid.NewString, Interval: 20 * time.Millisecond, MaxBackoff: 100 * time.Millisecond, Now: h.dbs[i].Now, Log: slog.New(slog.NewTextHandler(h, nil)),
	}
	for _, f := range change {
		f(&c)
	}
	s, err := notify.New(c)
	h.ok(err)
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			h.Error(err)
		}
	})
	stop = func() { end(); running.Wait() }
	h.Cleanup(stop)
	return s, stop
}

type silent struct{}

func (silent) Call(context.Context, string, string, string, []byte) ([]byte, error) {
	return nil, errors.New("nobody speaks to Slack here")
}

// until waits for something that must happen.
func (h *house) until(what string, holds func() bool) {
	h.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("%s: not within a minute; the log:\n%s", what, h.logged())
		}
	}
}

func (h *house) channel(kind action.NotifyKind) action.NotifyChannel {
	h.Helper()
	c, err := h.db.NotifyChannel(h.Context(), h.org, kind)
	h.ok(err)
	return c
}

func TestAWebhookIsToldOnceAndSigned(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		h.webhook(e.URL)
		h.sender(0)
		h.sender(1)
		ids := []string{h.held(), h.held(), h.held()}
		h.until("each is told of", func() bool { return len(e.all()) >= 3 })
		h.deny(ids[0])
		h.until("the end is told", func() bool { return len(e.all()) >= 4 })
		seen := map[string]bool{}
		for _, one := range e.all() {
			if seen[one.id] || one.id == "" {
				t.Errorf("the id %q came twice", one.id)
			}
			seen[one.id] = true
			if want := event.SignStandard(one.id, one.at, []byte(one.body), []byte(secret)); one.signature != want {
				t.Errorf("it is signed %q, want %q", one.signature, want)
			}
		}
		last := e.all()[3].body
		if !strings.Contains(last, `"invocation.settled"`) || !strings.Contains(last, ids[0]) || !strings.Contains(last, `"status":"denied"`) {
			t.Errorf("the last word is %s", last)
		}
		first := e.all()[0].body
		for _, want := range []string{`"type":"invocation.held"`, `"source":"Linear"`, `"action":"create_issue"`, "Create the issue", `"risk":"write"`, "a write waits", "seconds_left", `"group":"dev"`, "https://gate.example.com/invocations/" + ids[0]} {
			if !strings.Contains(first, want) {
				t.Errorf("%s is not in %s", want, first)
			}
		}
		if strings.Contains(first, "the-param") {
			t.Errorf("a param left: %s", first)
		}
	})
}

// Of a request for variables its names leave, and neither a value nor the words
// in which an agent may have put one.
func TestRequestsForVariablesAreTold(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		h.webhook(e.URL)
		s, err := h.db.CreateSession(h.Context(), action.Session{Organization: h.org, Title: "Fix the login", CreatedBy: "ada"})
		h.ok(err)
		r, _, err := h.db.RequestEnv(h.Context(), h.org, s.ID, []action.EnvKey{
			{Key: "API_TOKEN", Description: "the-words", Suggestions: []action.EnvSuggestion{{Label: "the-label", Value: "the-suggestion"}}},
		})
		h.ok(err)
		_, stop := h.sender(0, func(c *notify.Config) { c.PerMinute = 1 })
		h.until("it is told of", func() bool { return len(e.all()) == 1 })
		for _, want := range []string{`"type":"env_request.held"`, `"names":["API_TOKEN"]`, `"title":"Fix the login"`, "seconds_left", "https://gate.example.com/env-requests/" + r.ID} {
			if got := e.all()[0].body; !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
		_, err = h.db.DecideEnv(h.Context(), action.EnvVerdict{Organization: h.org, ID: r.ID, By: "ada", Sealed: []byte("the-value"), Names: []string{"API_TOKEN"}})
		h.ok(err)
		h.until("its end is due", func() bool {
			list, err := h.db.Notifications(h.Context(), h.org, 0)
			h.ok(err)
			return len(list) == 2
		})
		if got := len(e.all()); got != 1 {
			t.Errorf("%d messages beyond the rate", got-1)
		}
		stop()
		h.sender(0)
		h.until("its end is told", func() bool { return len(e.all()) == 2 })
		for _, one := range e.all() {
			if strings.Contains(one.body, "the-") {
				t.Errorf("it tells of more than names: %s", one.body)
			}
		}
		if end := e.all()[1].body; !strings.Contains(end, `"env_request.settled"`) || !strings.Contains(end, `"status":"answered"`) {
			t.Errorf("the last word is %s", end)
		}
	})
}

func TestADeadEndpointHoldsUpNobody(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		e.answers(503)
		h.webhook(e.URL + "/held/a-path-that-posts")
		h.sender(0)
		gone := h.held()
		h.until("it fails", func() bool { return h.channel(action.NotifyWebhook).Failures >= 3 })
		c := h.channel(action.NotifyWebhook)
		if !strings.Contains(c.LastError, "503") || strings.Contains(c.LastError+h.logged(), "a-path-that-posts") || c.LastErrorAt == nil {
			t.Errorf("it says %q", c.LastError)
		}
		h.deny(gone)
		h.until("the call is let go", func() bool {
			list, err := h.db.Notifications(h.Context(), h.org, 0)
			h.ok(err)
			return list[0].Status == action.NotifyVoid
		})
		before := len(e.all())
		e.answers(200)
		stays := h.held()
		h.until("the next one is told of", func() bool { return len(e.all()) > before })
		for _, one := range e.all()[before:] {
			if !strings.Contains(one.body, stays) {
				t.Errorf("after the end it was told of %s", one.body)
			}
		}
		h.until("it is well again", func() bool { return h.channel(action.NotifyWebhook).Failures == 0 })
	})
}

// An endpoint that takes no ends is told of what waits all the same.
func TestRefusedEndsHoldUpNobody(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		h.webhook(e.URL)
		h.sender(0)
		ids := make([]string, 12)
		for i := range ids {
			ids[i] = h.held()
		}
		h.until("each is told of", func() bool { return len(e.all()) >= len(ids) })
		e.answers(400)
		for _, id := range ids {
			h.deny(id)
		}
		h.held()
		h.until("the next one and all ends are told", func() bool {
			events := map[action.NotifyEvent]int{}
			list, err := h.db.Notifications(h.Context(), h.org, 0)
			h.ok(err)
			for _, n := range list {
				if n.Attempt > 0 {
					events[n.Event]++
				}
			}
			return events[action.NotifyHeld] == 1 && events[action.NotifySettled] == len(ids)
		})
		if c := h.channel(action.NotifyWebhook); c.Failures != 0 || c.RetryAt != nil || !strings.Contains(c.LastError, "400") {
			t.Errorf("the channel is left alone: %+v", c)
		}
	})
}

// blind cannot look for calls of Slack.
type blind struct{ *store.DB }

func (b blind) QueueCalls(ctx context.Context, c action.NotifyChannel, held time.Time, from action.NotifyCursor) (int, action.NotifyCursor, error) {
	if c.Kind == action.NotifySlack {
		return 0, from, errors.New("this one cannot be looked at")
	}
	return b.DB.QueueCalls(ctx, c, held, from)
}

func TestAChannelThatCannotBeLookedAtHoldsUpNobody(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		_, err := h.db.SetNotifyChannel(h.Context(), action.NotifyChannel{
			Organization: h.org, Kind: action.NotifySlack, Enabled: true, Wants: action.WantsAll, Integration: "i1", Target: "C1", UpdatedBy: "ada",
		}, nil)
		h.ok(err)
		h.webhook(e.URL)
		h.sender(0, func(c *notify.Config) { c.Rows = blind{h.dbs[0]} })
		h.held()
		h.until("the webhook is told", func() bool { return len(e.all()) > 0 && strings.Contains(h.logged(), "cannot be looked at") })
	})
}

// A sender that dies while it sends leaves its lease; another sends the same
// again, by the same id.
func TestAnotherGoesOnAfterADeath(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		h.webhook(e.URL)
		h.held()
		c := h.channel(action.NotifyWebhook)
		_, _, err := h.db.QueueCalls(h.Context(), c, h.db.Now(), action.NotifyCursor{})
		h.ok(err)
		taken, err := h.db.ClaimChannels(h.Context(), "the dead", 300*time.Millisecond)
		h.ok(err)
		w, err := h.db.NextNotification(h.Context(), taken[0])
		h.ok(err)
		h.sender(1)
		h.until("it is told of", func() bool { return len(e.all()) > 0 })
		if got := e.all()[0].id; got != w.ID {
			t.Errorf("it was told with id %s, want %s", got, w.ID)
		}
		if held, err := h.db.SettleNotification(h.Context(), "the dead", action.NotifyOutcome{Notification: w.Notification, OK: true}); held || err != nil {
			t.Errorf("the dead one settled it: %v, %v", held, err)
		}
	})
}

// TestApproversAreNotWornOut: what is taken back at once is not told, and a
// flood of calls is told at a pace.
func TestApproversAreNotWornOut(t *testing.T) {
	t.Parallel()
	tell(t, func(h *house) {
		e := newEndpoint(t)
		h.webhook(e.URL)
		var ahead atomic.Int64
		later := func(d time.Duration) { ahead.Add(int64(d)) }
		h.sender(0, func(c *notify.Config) {
			c.PerMinute, c.HoldDelay = 2, time.Hour
			c.Now = func() time.Time { return h.db.Now().Add(time.Duration(ahead.Load())) }
		})
		h.deny(h.held())
		for range 5 {
			h.held(func(d *action.Draft) { *d.ExpiresAt = d.CreatedAt.Add(5 * time.Hour) })
		}
		later(time.Hour + time.Second)
		written := func() int {
			list, err := h.db.Notifications(h.Context(), h.org, 0)
			h.ok(err)
			return len(list)
		}
		h.until("there is something to tell of five calls", func() bool { return written() == 5 })
		h.until("two are told of", func() bool { return len(e.all()) >= 2 })
		for told := 2; told < 5; told++ {
			if n := len(e.all()); n != told {
				t.Fatalf("%d were told where %d had room", n, told)
			}
			later(31 * time.Second)
			h.until("the next is told of", func() bool { return len(e.all()) > told })
		}
	})
}
