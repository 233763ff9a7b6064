package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"sallyport/ingest/event"
)

// keepTimeout bounds how long the sender waits for the row.
const keepTimeout = 8 * time.Second

// take verifies a delivery and keeps it, unless it is one that wants an answer
// at once. Nothing of it is read, counted or kept before it is verified, so that
// nobody without a secret can leave anything behind.
func (s *Server) take(r *http.Request, e endpoint, d *event.Delivery) (challenge []byte, err error) {
	if err := s.verify(r.Context(), e, d); err != nil {
		return nil, err
	}
	toll, wait := s.flood.take(e.path, bodyHash(s.Vault, d.Body), e.trigger == nil, s.Now())
	if wait > 0 {
		return nil, flooded(wait)
	}
	if ask := e.provider.Webhook.Challenge; ask != nil {
		if err := s.safely(r.Context(), e, func() { challenge = ask(d) }); err != nil || challenge != nil {
			s.Count("challenged", e.provider.ID)
			return challenge, err
		}
	}
	if e.trigger != nil && !e.trigger.Enabled {
		s.Count("disabled", e.provider.ID)
		return nil, nil
	}
	fresh, err := s.keep(r.Context(), e, d)
	if err != nil {
		return nil, err
	}
	s.flood.kept(toll, fresh)
	s.Count(map[bool]string{true: "received", false: "repeated"}[fresh], e.provider.ID)
	s.Accepted()
	return nil, nil
}

// verify asks the module. Whatever is wrong, the sender is told the same.
func (s *Server) verify(ctx context.Context, e endpoint, d *event.Delivery) error {
	err := event.ErrSignature
	if len(e.secrets) > 0 {
		tolerance, chosen := s.Tolerances[e.provider.ID]
		if !chosen {
			tolerance = e.provider.Webhook.Tolerance
		}
		_ = s.safely(ctx, e, func() { err = e.provider.Webhook.Verify(d, e.secrets, s.Now(), tolerance) })
	}
	if err == nil {
		return nil
	}
	s.Log.DebugContext(ctx, "a delivery was refused", "provider", e.provider.ID, "endpoint", e.path, "reason", err)
	if errors.Is(err, event.ErrStale) {
		return errStale
	}
	return errSignature
}

// keep writes the delivery. A sender who hangs up now has sent it all the same.
func (s *Server) keep(ctx context.Context, e endpoint, d *event.Delivery) (fresh bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	now := s.Now().UTC()
	defer func(began time.Time) { s.Pace.took(time.Since(began), time.Now()) }(time.Now())
	r := event.Receipt{
		ID: s.NewID(), Organization: e.organization, Endpoint: e.path, Provider: e.provider.ID,
		Key: receiptKey(s.Vault, e.deliveryID(d), d.Body, now), Size: len(d.Body),
		Status: event.ReceiptQueued, NextAt: now, ReceivedAt: now,
	}
	if e.trigger != nil {
		r.Trigger = e.trigger.ID
	}
	d.Header = kept(d.Header, e.secrets, e.idHeader(d))
	if err = sealDelivery(s.Vault, &r, d); err == nil {
		fresh, err = s.Rows.Receive(ctx, r)
	}
	if err != nil {
		s.Log.ErrorContext(ctx, "a delivery could not be kept; its sender was asked to send it again", "provider", e.provider.ID, "endpoint", e.path, "error", err)
		return false, errStorage
	}
	return fresh, nil
}

// safely calls a module, whose panic refuses the delivery and nothing more.
func (s *Server) safely(ctx context.Context, e endpoint, do func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.ErrorContext(ctx, "a module panicked", "provider", e.provider.ID, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			err = errSignature
		}
	}()
	do()
	return nil
}
