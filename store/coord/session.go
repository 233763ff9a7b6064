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
	// dialTimeout bounds connecting and greeting.
	dialTimeout = time.Second
	// The waits between attempts to connect double from least to most.
	leastWait, mostWait = 100 * time.Millisecond, 5 * time.Second
)

// session is one connection to Valkey, from its subscription to its end.
type session struct {
	client  valkey.Client
	end     context.CancelCauseFunc
	resting atomic.Bool   // calls do not ask; see run
	beats   chan struct{} // our own heartbeats that came back
}

// Run connects, sends and receives until ctx ends. It does not return because
// Valkey is away, be it at the start or later: it tries again for ever.
func (v *Valkey) Run(ctx context.Context) error {
	warned := false
	for wait := time.Duration(0); ; {
		before := v.tally.connects.Load()
		err := v.serve(ctx, func() {
			warned = false
			v.config.Log.Info("Valkey is connected: instances tell each other at once what changed, and count calls together")
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait = next(wait, v.tally.connects.Load() != before)
		if !warned {
			warned = true
			v.config.Log.Warn("Valkey is away, trying again: approvals given on another instance take some seconds longer, and each instance counts calls by itself", "error", err)
		}
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// next is how long to wait after a session that ended, given the wait before
// it and whether it was of use.
func next(wait time.Duration, useful bool) time.Duration {
	if useful {
		return leastWait
	}
	return min(max(2*wait, leastWait), mostWait)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// serve runs one session and says why it ended.
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
	parts.Go(func() { v.leave(s, v.receive(ctx, s, subscribed)) })
	parts.Go(func() { v.leave(s, v.send(ctx, s, subscribed)) })
	err = v.watch(ctx, s, up)
	v.leave(s, err)
	parts.Wait()
	v.empty()
	return err
}

// leave ends a session. From here on nobody relies on it.
func (v *Valkey) leave(s *session, why error) {
	v.live.CompareAndSwap(s, nil)
	s.end(why)
}

// empty drops what the session could not send any more: in the next one it
// would be old.
func (v *Valkey) empty() {
	for {
		select {
		case <-v.queue:
			v.drop(1)
		default:
			return
		}
	}
}

// watch waits for heartbeats. The first one makes the session count, when
// scripts run as well; silence ends it.
func (v *Valkey) watch(ctx context.Context, s *session, up func()) error {
	patience := v.config.Heartbeat * 5 / 2
	silence := time.NewTimer(patience)
	defer silence.Stop()
	counts := false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-silence.C:
			return fmt.Errorf("no heartbeat came back for %v", patience)
		case <-s.beats:
		}
		silence.Reset(patience)
		s.resting.Store(false)
		if counts {
			continue
		}
		if err := v.probe(ctx, s); err != nil {
			return fmt.Errorf("it does not run scripts: %w", err)
		}
		counts = true
		v.tally.connects.Add(1)
		v.live.Store(s)
		up()
		v.config.Resumed()
	}
}

// probe runs the script that calls depend on, on a key of its own.
func (v *Valkey) probe(ctx context.Context, s *session) error {
	_, err := v.exec(ctx, s, v.counts, v.config.Prefix+"probe", []string{"1", microseconds(minute), ""})
	return err
}
