package coord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"sallyport/action"
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

// maxPacketHints bounds the hints of one packet.
const maxPacketHints = 256

// Publish implements [action.Hints]. It calls the subscribers of this instance before
// it returns, and queues the hint for other instances. The hint is dropped if the
// queue is full or Valkey is unavailable.
func (v *Valkey) Publish(h action.Hint) {
	v.hub.Publish(h)
	if v.Healthy() {
		select {
		case v.queue <- packedHint(h):
			return
		default:
		}
	}
	v.drop(1)
}

// Deliver publishes a hint to the subscribers of this instance only.
func (v *Valkey) Deliver(h action.Hint) { v.hub.Publish(h) }

// Subscribe implements [action.Hints].
func (v *Valkey) Subscribe(f func(action.Hint)) (cancel func()) { return v.hub.Subscribe(f) }

// drop counts hints that are not sent, and has the next packet report it.
func (v *Valkey) drop(n int) {
	v.counters.dropped.Add(int64(n))
	v.missed.Store(true)
}

// receive publishes the hints of other instances to the subscribers of this one.
func (v *Valkey) receive(ctx context.Context, s *session, subscribed chan struct{}) error {
	var once sync.Once
	ctx = valkey.WithOnSubscriptionHook(ctx, func(valkey.PubSubSubscription) { once.Do(func() { close(subscribed) }) })
	err := s.client.Receive(ctx, s.client.B().Subscribe().Channel(v.channel()).Build(), func(m valkey.PubSubMessage) {
		if p, ok := decode(m.Message); ok {
			v.handlePacket(s, p)
		}
	})
	if err == nil {
		err = errors.New("the subscription ended")
	}
	return err
}

func (v *Valkey) channel() string { return v.config.Prefix + "hints" }

// handlePacket publishes the hints of a packet. Own hints were published before they
// were sent.
func (v *Valkey) handlePacket(s *session, p packet) {
	if p.From == v.id {
		if p.Beat {
			select {
			case s.beats <- struct{}{}:
			default: // the previous one has not been read
			}
		}
		return
	}
	for _, h := range p.Hints {
		v.hub.Publish(action.Hint(h))
	}
	if p.Lost {
		v.config.Resumed()
	}
}

// send sends heartbeats, and the hints of the queue in order.
func (v *Valkey) send(ctx context.Context, s *session, subscribed chan struct{}) error {
	beat := time.NewTicker(v.config.Heartbeat)
	defer beat.Stop()
	select {
	case <-subscribed:
	case <-ctx.Done():
		return ctx.Err()
	}
	p := packet{Beat: true}
	for {
		if err := v.publish(ctx, s, p); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
			p = packet{Beat: true}
		case h := <-v.queue:
			p = packet{Hints: v.collectQueued(h)}
		}
	}
}

// collectQueued adds the hints that are queued already.
func (v *Valkey) collectQueued(first packedHint) []packedHint {
	hints := append(make([]packedHint, 0, 8), first)
	for len(hints) < maxPacketHints {
		select {
		case h := <-v.queue:
			hints = append(hints, h)
		default:
			return hints
		}
	}
	return hints
}

// publish sends one packet, without a timeout: no caller waits for it, and missing
// heartbeats end the session.
func (v *Valkey) publish(ctx context.Context, s *session, p packet) error {
	p.From = v.id
	p.Lost = v.missed.Swap(false)
	text, err := p.encode()
	if err == nil {
		err = s.client.Do(ctx, s.client.B().Publish().Channel(v.channel()).Message(text).Build()).Error()
	}
	if err != nil {
		v.drop(len(p.Hints)) // the next packet reports earlier losses too
	}
	return err
}

// packet is one message between instances: a batch of hints in order, or a
// heartbeat, which only its sender reads.
type packet struct {
	From  string       `json:"f"`
	Beat  bool         `json:"b,omitempty"`
	Lost  bool         `json:"l,omitempty"` // hints before this packet were not sent
	Hints []packedHint `json:"h,omitempty"`
}

// packedHint is an [action.Hint] in a packet. Its keys are short because many
// approvals can arrive at once.
type packedHint struct {
	Kind         action.HintKind `json:"k"`
	Organization string          `json:"o,omitempty"`
	Session      string          `json:"s,omitempty"`
	Invocation   string          `json:"i,omitempty"`
	Run          string          `json:"r,omitempty"`
	Status       action.Status   `json:"t,omitempty"`
	Asking       bool            `json:"a,omitempty"`
	Resource     string          `json:"u,omitempty"`
	Source       string          `json:"c,omitempty"`
}

// knownKind reports whether this version handles a kind of hint.
func knownKind(k action.HintKind) bool {
	switch k {
	case action.HintInvocation, action.HintCatalog, action.HintPolicy, action.HintSession, action.HintSignal, action.HintResource, action.HintRun, action.HintLogin, action.HintReload:
		return true
	}
	return false
}

func (p packet) encode() (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// decode reads a packet; ok is false for any other message. Hints of unknown kinds,
// which a newer instance may send, are dropped.
func decode(text string) (p packet, ok bool) {
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.From == "" {
		return packet{}, false
	}
	p.Hints = slices.DeleteFunc(p.Hints, func(h packedHint) bool { return !knownKind(h.Kind) })
	return p, true
}
