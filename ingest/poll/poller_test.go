package poll_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/ingest"
	"sallyport/ingest/event"
	"sallyport/ingest/poll"
	"sallyport/internal/redact"
	"sallyport/internal/vault"
)

// pollRows keeps poll groups in memory, and knows their triggers.
type pollRows struct {
	ingest.Rows
	mu     sync.Mutex
	groups map[string]*storedGroup
	looks  []event.PollOutcome // that were settled
	made   []event.Match
	refuse error // of the next SettlePoll
	idle   bool  // no trigger is enabled
}

type storedGroup struct {
	event.PollGroup
	holder string
	until  time.Time
}

func (c *pollRows) ClaimPoll(_ context.Context, worker string, lease time.Duration) (event.PollGroup, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next *storedGroup
	for _, g := range c.groups {
		due := !g.NextAt.After(time.Now()) && (g.holder == "" || !g.until.After(time.Now()))
		if due && (next == nil || g.NextAt.Before(next.NextAt) || g.NextAt.Equal(next.NextAt) && g.ID < next.ID) {
			next = g
		}
	}
	if next == nil {
		return event.PollGroup{}, false, nil
	}
	next.FencingToken++
	next.holder, next.until = worker, time.Now().Add(lease)
	return next.PollGroup, true, nil
}

func (c *pollRows) mine(worker string, g event.PollGroup) *storedGroup {
	if kept := c.groups[g.ID]; kept.holder == worker && kept.FencingToken == g.FencingToken {
		return kept
	}
	return nil
}

func (c *pollRows) RenewPoll(_ context.Context, worker string, g event.PollGroup, lease time.Duration) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.mine(worker, g)
	if kept == nil {
		return false, nil
	}
	kept.until = time.Now().Add(lease)
	return true, nil
}

func (c *pollRows) SettlePoll(_ context.Context, worker string, l event.PollOutcome) (runs []event.Run, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.mine(worker, l.Group)
	if kept == nil {
		return nil, action.Errorf(action.ErrConflict, "poll_lost", "lost")
	}
	if err, c.refuse = c.refuse, nil; err != nil {
		return nil, err
	}
	kept.holder, kept.NextAt, kept.LastError = "", l.NextAt, l.LastError
	if kept.Failures++; l.LastError == "" {
		kept.Failures = 0
	}
	if l.Cursor != nil {
		kept.Cursor = l.Cursor
	}
	c.looks, c.made = append(c.looks, l), append(c.made, l.Matches...)
	for _, m := range l.Matches {
		runs = append(runs, event.Run{ID: m.Run})
	}
	return runs, nil
}

func (c *pollRows) ActiveTriggers(_ context.Context, organization, provider string) ([]event.Trigger, error) {
	all := []event.Trigger{
		{ID: "any", Type: "mail", Config: []byte(`{}`)},
		{ID: "long", Type: "mail", Config: []byte(`{"long":true}`)},
		{ID: "other type", Type: "star", Config: []byte(`{}`)},
		{ID: "webhook", Type: "mail", Kind: event.Webhooks, Config: []byte(`{}`)},
		{ID: "elsewhere", Type: "mail", Integration: "elsewhere", Config: []byte(`{}`)},
	}
	list := []event.Trigger{}
	if c.idle {
		return list, nil
	}
	for _, g := range c.groups {
		for _, t := range all {
			t.Organization, t.Provider, t.Automation = organization, provider, "auto"
			if t.Kind == "" {
				t.Kind = event.Polling
			}
			if t.Integration == "" {
				t.Integration = g.Integration
			}
			list = append(list, t)
		}
	}
	return list, nil
}

func (c *pollRows) last() event.PollOutcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.looks) == 0 {
		return event.PollOutcome{}
	}
	return c.looks[len(c.looks)-1]
}

// mailService is a service, by integration.
type mailService struct {
	ingest.Integrations
	poll func(ctx context.Context, integration string, cursor json.RawMessage) (event.PollResult, error)
}

func (m mailService) Poll(ctx context.Context, _, integration string, cursor json.RawMessage) (event.PollResult, error) {
	return m.poll(ctx, integration, cursor)
}

func mailProvider() event.Provider {
	return event.Provider{ID: "mail", Title: "Mail", SupportsPolling: true, Types: []event.Type{{
		ID: "mail", Matches: func(e *event.Event, config json.RawMessage) bool {
			return string(config) == "{}" || len(e.Title) > 5
		},
	}}}
}

func mailEvents(keys ...string) (all []event.Event) {
	for _, key := range keys {
		all = append(all, event.Event{Provider: "mail", Type: "mail", Key: key, Title: key, Context: json.RawMessage(`{"id":"` + key + `"}`)})
	}
	return all
}

// startPollers runs pollers on the integrations, each due now, until the returned
// function is called.
func startPollers(t *testing.T, c *pollRows, instances int, answer func(ctx context.Context, integration string, cursor json.RawMessage) (event.PollResult, error), integrations ...string) (stop func()) {
	t.Helper()
	c.groups = map[string]*storedGroup{}
	for _, name := range integrations {
		c.groups[name] = &storedGroup{PollGroup: event.PollGroup{ID: name, Organization: "org", Provider: "mail", Integration: name, PollSeconds: 60, NextAt: time.Now()}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	ids := ascending()
	for i := range instances {
		p, err := poll.NewPoller(poll.Config{
			Providers: []event.Provider{mailProvider()}, Rows: c,
			Integrations: mailService{poll: answer}, Vault: testVault(t), JSON: &redact.JSON{}, Worker: "worker " + strconv.Itoa(i), NewID: ids,
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := p.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("ended with %v", err)
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

func TestTriggersSharePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pollRows
		var cursors []string
		stop := startPollers(t, &c, 1, func(_ context.Context, _ string, cursor json.RawMessage) (event.PollResult, error) {
			cursors = append(cursors, string(cursor))
			if cursor == nil {
				return event.PollResult{Events: mailEvents("short", "rather long"), Cursor: json.RawMessage(`1`), Lost: "all of\nMay ghp_0123456789abcdefghijABCDEFGHIJ012345"}, nil
			}
			return event.PollResult{Cursor: json.RawMessage(`2`), Wait: 5 * time.Minute}, nil
		}, "inbox")
		time.Sleep(90 * time.Second)
		synctest.Wait()
		stop()
		if diff := cmp.Diff([]string{"", "1"}, cursors); diff != "" {
			t.Error(diff)
		}
		got := map[string]event.SkipReason{}
		for _, m := range c.made {
			got[m.Record.Trigger+"/"+m.Record.Key] = m.Record.Skip
		}
		want := map[string]event.SkipReason{"any/short": "", "any/rather long": "", "long/short": event.SkipFilter, "long/rather long": ""}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if lost := c.looks[0].Lost; strings.Contains(lost, "ghp_") || !strings.HasPrefix(lost, "all of May ") {
			t.Errorf("lost is told as %q", lost)
		}
		if wait := c.last().NextAt.Sub(c.looks[0].NextAt); wait < 5*time.Minute || wait > 5*time.Minute+2*time.Second {
			t.Errorf("%s after it, though the module wanted five minutes", wait)
		}
	})
}

// While a service is asked, which takes a while, people disable what asks.
func TestPollUsesTriggersReadAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pollRows
		stop := startPollers(t, &c, 1, func(context.Context, string, json.RawMessage) (event.PollResult, error) {
			c.idle = true
			return event.PollResult{Events: mailEvents("short"), Cursor: json.RawMessage(`1`)}, nil
		}, "inbox")
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if len(c.made) > 0 || string(c.last().Cursor) != "1" {
			t.Errorf("%d events for nobody; cursor %s", len(c.made), c.last().Cursor)
		}
	})
}

func TestPollAgainWhenThereIsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pollRows
		looks := 0
		stop := startPollers(t, &c, 1, func(context.Context, string, json.RawMessage) (event.PollResult, error) {
			looks++
			return event.PollResult{Cursor: json.RawMessage(strconv.Itoa(looks)), More: true, Wait: time.Hour}, nil
		}, "inbox")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		stop()
		if looks != 20 {
			t.Errorf("looked %d times at once", looks)
		}
		if wait := time.Until(c.last().NextAt); wait < 59*time.Minute {
			t.Errorf("looks again in %s", wait)
		}
	})
}

func TestFailedPolls(t *testing.T) {
	told := func(wait time.Duration) error {
		return &action.Error{Kind: action.ErrUnavailable, Code: "rate_limited", Message: "The service is busy.", RetryAfter: wait}
	}
	for _, test := range []struct {
		name     string
		fail     func() error
		atLeast  time.Duration // until the second look
		atMost   time.Duration
		lastSays string
	}{
		{"an error", func() error { return action.Errorf(action.ErrInvalid, "upstream_auth", "Connect anew.") }, 45 * time.Second, time.Minute, "Connect anew."},
		{"an error of ours", func() error { return errors.New("secret details") }, 45 * time.Second, time.Minute, "Internal error of the gateway; its log has the details."},
		{"a panic", func() error { panic("secret details") }, 45 * time.Second, time.Minute, "Its log has the details."},
		{"told to wait", func() error { return told(10 * time.Minute) }, 10 * time.Minute, 10 * time.Minute, "The service is busy."},
		{"told to come soon", func() error { return told(time.Second) }, time.Minute, time.Minute, "The service is busy."},
		{"told to wait for ever", func() error { return told(1000 * time.Hour) }, 24 * time.Hour, 24 * time.Hour, "The service is busy."},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c pollRows
				others := 0
				stop := startPollers(t, &c, 1, func(_ context.Context, integration string, _ json.RawMessage) (event.PollResult, error) {
					if integration == "bad" {
						return event.PollResult{}, test.fail()
					}
					others++
					return event.PollResult{Cursor: json.RawMessage(`1`)}, nil
				}, "bad", "good")
				time.Sleep(30 * time.Second)
				synctest.Wait()
				stop()
				bad := c.groups["bad"]
				began := time.Now().Add(-30 * time.Second)
				if wait := bad.NextAt.Sub(began); wait < test.atLeast || wait > test.atMost || !strings.HasSuffix(bad.LastError, test.lastSays) || strings.Contains(bad.LastError, "secret") {
					t.Errorf("again after %s: %q", wait, bad.LastError)
				}
				if others != 1 || bad.Cursor != nil {
					t.Errorf("the other integration was looked at %d times; cursor %s", others, bad.Cursor)
				}
			})
		})
	}
}

func TestPollBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pollRows
		looks := 0
		stop := startPollers(t, &c, 2, func(context.Context, string, json.RawMessage) (event.PollResult, error) {
			looks++
			return event.PollResult{}, errors.New("no")
		}, "inbox")
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		stop()
		// 1, 2, 4, 8, 16, 32 and then 60 minutes, each a quarter shorter at most.
		if looks < 14 || looks > 20 {
			t.Errorf("looked %d times in ten hours", looks)
		}
	})
}

// Only one of two processes has a group, also when one stops for longer than its
// lease: then what it found is thrown away, and the other one finds it.
func TestPollAfterLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pollRows
		looks, cancelled := 0, false
		stop := startPollers(t, &c, 2, func(ctx context.Context, _ string, cursor json.RawMessage) (event.PollResult, error) {
			if looks++; looks == 1 {
				c.mu.Lock() // its lease is over at once, and the other one's turn
				c.groups["inbox"].until = time.Now()
				c.mu.Unlock()
				<-ctx.Done()
				cancelled = errors.Is(ctx.Err(), context.Canceled) // and not because it took too long
			}
			return event.PollResult{Events: mailEvents("one"), Cursor: json.RawMessage(`1`), Wait: time.Hour}, nil
		}, "inbox")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stop()
		if looks != 2 || !cancelled || len(c.looks) != 1 || len(c.made) != 2 {
			t.Errorf("%d looks, cancelled %t, %d settled, %d matches", looks, cancelled, len(c.looks), len(c.made))
		}
	})
}

// A slow look keeps its group, as long as its process lives.
func TestSlowPollKeepsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pollRows
		looks := 0
		stop := startPollers(t, &c, 2, func(ctx context.Context, _ string, _ json.RawMessage) (event.PollResult, error) {
			looks++
			time.Sleep(110 * time.Second)
			return event.PollResult{Events: mailEvents("one"), Cursor: json.RawMessage(`1`), Wait: time.Hour}, ctx.Err()
		}, "inbox")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		stop()
		if looks != 1 || len(c.made) != 2 {
			t.Errorf("%d looks, %d matches", looks, len(c.made))
		}
	})
}

func TestUnwrittenPollIsRepeated(t *testing.T) {
	for name, refuse := range map[string]error{
		"rows are away for a moment": &action.Error{Kind: action.ErrNotReady, Code: "database_unavailable", Message: "away"},
		"a fault":                    errors.New("constraint"),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := pollRows{refuse: refuse}
			looks := 0
			stop := startPollers(t, &c, 1, func(_ context.Context, _ string, cursor json.RawMessage) (event.PollResult, error) {
				if looks++; cursor != nil {
					return event.PollResult{Cursor: cursor}, nil
				}
				return event.PollResult{Events: mailEvents("one"), Cursor: json.RawMessage(`1`)}, nil
			}, "inbox")
			time.Sleep(3 * time.Minute)
			synctest.Wait()
			stop()
			if len(c.made) != 2 || string(c.groups["inbox"].Cursor) != "1" {
				t.Errorf("%s: %d looks made %d matches", name, looks, len(c.made))
			}
		})
	}
}

func TestConcurrentPollLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c pollRows
		now, most := 0, 0
		var mu sync.Mutex
		stop := startPollers(t, &c, 1, func(context.Context, string, json.RawMessage) (event.PollResult, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
			return event.PollResult{Cursor: json.RawMessage(`1`)}, nil
		}, "a", "b", "c", "d", "e", "f", "g", "h", "i")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		stop()
		if most != 4 || len(c.looks) != 9 {
			t.Errorf("%d at once, %d in all", most, len(c.looks))
		}
	})
}

func testVault(t testing.TB) *vault.Vault {
	t.Helper()
	v, err := vault.New(make([]byte, vault.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ascending returns a function that returns ascending ids.
func ascending() func() string {
	var n atomic.Int64
	return func() string { return fmt.Sprintf("id-%06d", n.Add(1)) }
}
