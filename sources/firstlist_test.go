package sources_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// slowly is a source that answers when it is let.
type slowly struct {
	toolsOnly
	let chan struct{}
}

func (s slowly) ID() string { return "connector:1" }

func (s slowly) List(ctx context.Context) (sources.Listing, error) {
	select {
	case <-s.let:
		return sources.Listing{Tools: []json.RawMessage{json.RawMessage(`{"name":"act","inputSchema":{"type":"object"}}`)}}, nil
	case <-ctx.Done():
		return sources.Listing{}, ctx.Err()
	}
}

func (s slowly) Call(context.Context, string, json.RawMessage, action.Caller) (action.Result, error) {
	return action.Result{}, errors.New("nobody calls")
}

func openSlowly(t *testing.T, s slowly, patience time.Duration) *sources.Catalog {
	t.Helper()
	c, err := sources.New(sources.Config{
		Connectors: func(context.Context, string) ([]action.Connector, error) {
			return []action.Connector{{ID: "1", Organization: "o", Name: "one", Slug: "one", Enabled: true, Revision: 1}}, nil
		},
		Open:     func(action.Connector) (sources.Source, error) { return s, nil },
		Patience: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Who comes while the first list is being asked for waits for it too, and
// takes no empty list for the truth.
func TestEveryCallerWaitsForTheFirstList(t *testing.T) {
	s := slowly{let: make(chan struct{})}
	c := openSlowly(t, s, time.Minute)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if i == 50 {
				close(s.let)
			}
			if a, err := c.Resolve(t.Context(), "o", "one_act"); err != nil || a.Name != "act" {
				t.Errorf("resolved %v, %v", a, err)
			}
		})
	}
	all.Wait()
}

// A tool that a silent source may have is not said to be unknown.
func TestASilentSourceMayHaveTheTool(t *testing.T) {
	c := openSlowly(t, slowly{}, time.Millisecond)
	if _, err := c.Resolve(t.Context(), "o", "one_act"); !errors.Is(err, action.ErrUnavailable) {
		t.Errorf("its own: %v", err)
	}
	if _, err := c.Resolve(t.Context(), "o", "two_act"); !errors.Is(err, action.ErrNotFound) {
		t.Errorf("somebody else's: %v", err)
	}
}
