package credential

import (
	"context"
	"errors"
	"time"

	"sallyport/action"
)

// minted is a token that is in no row: it is had anew whenever it is needed.
type minted struct {
	version int64 // of the row that it was had for
	token   string
	at      time.Time
	until   time.Time // it is used
}

// mint returns a token of an app's installation or of a broker, other than not,
// from memory or had anew: once for all callers of this instance.
func (t *Tokens) mint(ctx context.Context, h *owned, not string) (string, error) {
	if m, ok := t.remembered(h); ok && m.token != not {
		return m.token, nil
	}
	at := h.place()
	if err := t.paused(at); err != nil {
		return "", err
	}
	return once(ctx, t.doors, at, func(ctx context.Context) (string, error) {
		if m, ok := t.remembered(h); ok && m.token != not {
			return m.token, nil
		}
		if err := t.paused(at); err != nil {
			return "", err
		}
		now, err := t.same(ctx, h)
		if err != nil {
			return "", err
		}
		if m, ok := t.remembered(now); ok && m.token != not {
			return m.token, nil
		}
		m, err := t.minting(ctx, now, not != "")
		if errors.Is(err, errNewer) {
			return "", err
		}
		if err != nil {
			err = unsent(err)
			t.pause(at, err)
			return "", err
		}
		m.version, m.at = now.in.Version, t.Now()
		t.mintedMu.Lock()
		t.minted[at] = m
		t.mintedMu.Unlock()
		return m.token, nil
	})
}

// same returns the row as it is now, unless its credential is for something else
// than the caller knows.
func (t *Tokens) same(ctx context.Context, h *owned) (*owned, error) {
	now, err := t.reread(ctx, h.place())
	if err != nil {
		return nil, unread(err)
	}
	if now.in.Kind != h.in.Kind || now.in.Broker != h.in.Broker || now.cred.Host != h.cred.Host {
		return nil, newer()
	}
	return &now, nil
}

func (t *Tokens) minting(ctx context.Context, h *owned, anew bool) (minted, error) {
	if h.in.Kind == action.KindApp {
		return t.installationToken(ctx, h)
	}
	return t.brokersToken(ctx, h, anew)
}

// remembered returns the token that was had for the row as it is.
func (t *Tokens) remembered(h *owned) (minted, bool) {
	t.mintedMu.Lock()
	defer t.mintedMu.Unlock()
	m, ok := t.minted[h.place()]
	return m, ok && m.version == h.in.Version && t.Now().Before(m.until)
}

// drop forgets what this instance knows of an integration.
func (t *Tokens) drop(at place) {
	t.forget(at)
	t.mintedMu.Lock()
	delete(t.minted, at)
	t.mintedMu.Unlock()
}
