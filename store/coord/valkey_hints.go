package coord

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"sallyport/action"
)

// maxPacketHints bounds the hints of one packet.
const maxPacketHints = 256

// Publish implements [action.Hints]. It calls the subscribers of this instance before
// it returns, and queues the hint for other instances. The hint is dropped if the
// queue is full or Valkey is unavailable.
func (v *Valkey) Publish(h action.Hint) {
	v.hub.Publish(h)
	if v.Healthy() {
		select {
		case v.queue <- pack(h):
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
		v.hub.Publish(h.unpack())
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
