package coord

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	// dialTimeout bounds the connection and its handshake.
	dialTimeout = time.Second
	// Attempts to connect back off exponentially between these.
	minBackoff, maxBackoff = 100 * time.Millisecond, 5 * time.Second
)

// session is one connection to Valkey, from its subscription to its end.
type session struct {
	client    valkey.Client
	end       context.CancelCauseFunc
	suspended atomic.Bool   // calls use their fallback; see run
	beats     chan struct{} // own heartbeats that returned
}

// Run connects, sends and receives until ctx ends. It retries for as long as Valkey is
// unavailable, at the start or later.
func (v *Valkey) Run(ctx context.Context) error {
	warned := false
	for wait := time.Duration(0); ; {
		before := v.counters.connects.Load()
		err := v.serve(ctx, func() {
			warned = false
			v.config.Log.Info("Valkey is connected: instances exchange hints and share rate limits")
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait = nextBackoff(wait, v.counters.connects.Load() != before)
		if !warned {
			warned = true
			v.config.Log.Warn("Valkey is unavailable, retrying: approvals on another instance take some seconds longer, and each instance applies rate limits to its own calls", "error", err)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// nextBackoff returns the wait before the next session, from the previous wait and
// whether the last session worked.
func nextBackoff(wait time.Duration, useful bool) time.Duration {
	if useful {
		return minBackoff
	}
	return min(max(2*wait, minBackoff), maxBackoff)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// serve runs one session and returns why it ended. up is called once it works.
func (v *Valkey) serve(ctx context.Context, up func()) error {
	client, err := valkey.NewClient(v.options)
	if client != nil {
		defer client.Close()
	}
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	s := &session{client: client, end: end, beats: make(chan struct{}, 1)}
	subscribed := make(chan struct{})
	var parts sync.WaitGroup
	parts.Go(func() { v.endSession(s, v.receive(ctx, s, subscribed)) })
	parts.Go(func() { v.endSession(s, v.send(ctx, s, subscribed)) })
	err = v.watchHeartbeats(ctx, s, up)
	v.endSession(s, err)
	parts.Wait()
	v.drainQueue()
	return err
}

// endSession ends a session, and calls stop using it at once.
func (v *Valkey) endSession(s *session, why error) {
	v.live.CompareAndSwap(s, nil)
	s.end(why)
}

// drainQueue drops the hints that the session did not send: they would be stale in
// the next one.
func (v *Valkey) drainQueue() {
	for {
		select {
		case <-v.queue:
			v.drop(1)
		default:
			return
		}
	}
}

// watchHeartbeats puts the session in use after the first heartbeat, if scripts run
// too, and ends it when heartbeats stop.
func (v *Valkey) watchHeartbeats(ctx context.Context, s *session, up func()) error {
	limit := v.config.Heartbeat * 5 / 2
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	working := false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timeout.C:
			return fmt.Errorf("no heartbeat returned for %v", limit)
		case <-s.beats:
		}
		timeout.Reset(limit)
		s.suspended.Store(false)
		if working {
			continue
		}
		if err := v.probe(ctx, s); err != nil {
			return fmt.Errorf("running a script: %w", err)
		}
		working = true
		v.counters.connects.Add(1)
		v.live.Store(s)
		up()
		v.config.Resumed()
	}
}

// probe runs the script that calls depend on, on a separate key.
func (v *Valkey) probe(ctx context.Context, s *session) error {
	_, err := v.exec(ctx, s, v.counts, v.config.Prefix+"probe", []string{"1", microseconds(minute), ""})
	return err
}
