package coord

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"sallyport/action"
)

// packed bounds the hints in one packet.
const packed = 256

// Publish implements [action.Hints]. Subscribers of this instance are called
// before it returns; a hint that cannot be sent to the others at once is
// queued, and dropped when the queue is full or Valkey away.
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

// Deliver tells the subscribers of this instance alone.
func (v *Valkey) Deliver(h action.Hint) { v.hub.Publish(h) }

// Subscribe implements [action.Hints].
func (v *Valkey) Subscribe(f func(action.Hint)) (cancel func()) { return v.hub.Subscribe(f) }

// drop counts hints that are not sent, and has the next packet say so.
func (v *Valkey) drop(n int) {
	v.tally.dropped.Add(int64(n))
	v.missed.Store(true)
}

// receive hands the hints of other instances to the subscribers here.
func (v *Valkey) receive(ctx context.Context, s *session, subscribed chan struct{}) error {
	var once sync.Once
	ctx = valkey.WithOnSubscriptionHook(ctx, func(valkey.PubSubSubscription) { once.Do(func() { close(subscribed) }) })
	err := s.client.Receive(ctx, s.client.B().Subscribe().Channel(v.channel()).Build(), func(m valkey.PubSubMessage) {
		if p, ok := decode(m.Message); ok {
			v.take(s, p)
		}
	})
	if err == nil {
		err = errors.New("the subscription ended")
	}
	return err
}

func (v *Valkey) channel() string { return v.config.Prefix + "hints" }

// take heeds a packet. Our own hints were delivered when they were published.
func (v *Valkey) take(s *session, p packet) {
	if p.From == v.id {
		if p.Beat {
			select {
			case s.beats <- struct{}{}:
			default: // the one before was not seen yet
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

// send sends heartbeats and the hints of the queue, in its order.
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
			p = packet{Hints: v.collect(h)}
		}
	}
}

// collect takes along what else waits.
func (v *Valkey) collect(first packedHint) []packedHint {
	hints := append(make([]packedHint, 0, 8), first)
	for len(hints) < packed {
		select {
		case h := <-v.queue:
			hints = append(hints, h)
		default:
			return hints
		}
	}
	return hints
}

// publish sends one packet. It is no caller's time that it takes, so it waits
// longer than they: silence is what ends a session.
func (v *Valkey) publish(ctx context.Context, s *session, p packet) error {
	p.From = v.id
	p.Lost = v.missed.Swap(false)
	text, err := p.encode()
	if err == nil {
		err = s.client.Do(ctx, s.client.B().Publish().Channel(v.channel()).Message(text).Build()).Error()
	}
	if err != nil {
		v.drop(len(p.Hints)) // and what p said of those before is said again
	}
	return err
}
