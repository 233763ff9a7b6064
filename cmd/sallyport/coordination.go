package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"sallyport/action"
	"sallyport/store/coord"
)

// coordination is what instances share beside rows: hints, the counting of
// calls, locks. None of it is truth.
type coordination struct {
	action.Hints
	action.Limiter
	locks
	deliver func(action.Hint) // to this instance alone
	valkey  *coord.Valkey     // nil: this process alone
}

// openCoordination builds it; nothing is connected before run.
func (g *gateway) openCoordination(context.Context) error {
	if g.options.ValkeyURL == "" {
		hub := coord.NewHub()
		g.coord = coordination{Hints: hub, Limiter: coord.NewCounter(g.options.RateLimit, time.Now), locks: g.locks(), deliver: hub.Publish}
		return nil
	}
	valkey, err := coord.NewValkey(coord.ValkeyConfig{
		URL: g.options.ValkeyURL, Instance: g.instance, Limit: g.options.RateLimit,
		Timeout: g.options.Intervals.ValkeyTimeout, Heartbeat: g.options.Intervals.ValkeyHeartbeat, Resumed: g.watch.resume, Log: g.log,
	})
	if err != nil {
		return err
	}
	g.coord = coordination{Hints: valkey, Limiter: valkey, locks: valkeyLocks{valkey, g.locks()}, deliver: valkey.Deliver, valkey: valkey}
	return nil
}

// locks are those that need no Valkey.
func (g *gateway) locks() locks {
	if g.db.Shared() {
		return &rowLocks{db: g.db, instance: g.instance, log: g.log}
	}
	return coord.NewLocks(time.Now)
}

// hinted tells whether the hints of other instances arrive.
func (g *gateway) hinted() bool {
	if !g.db.Shared() {
		return true // there are none
	}
	return g.coord.valkey != nil && g.coord.valkey.Healthy()
}

// checkKeys makes sure that all instances on the rows have the same keys: with
// others they could not read what they sealed, nor know each other's tokens.
// The rows may know a master key that another is about to replace.
func (g *gateway) checkKeys(ctx context.Context, signing []byte) error {
	known, err := g.db.CheckedKey(ctx, "master")
	if err != nil {
		return err
	}
	master := g.master.sealing
	for _, old := range g.master.opening() {
		if fingerprint("master", old) == known {
			master = old
		}
	}
	err = g.db.CheckKeys(ctx, map[string]string{"master": fingerprint("master", master), "token": fingerprint("token", signing)})
	if err != nil {
		return err
	}
	return g.openKept(ctx, master)
}

// fingerprint tells a key from others, and nothing of it.
func fingerprint(name string, key []byte) string {
	return hex.EncodeToString(derive(key, "key check "+name))[:32]
}

// derive makes a key for one purpose out of another, so that none serves two
// (HMAC-SHA256 as in HKDF's expansion, RFC 5869, for one block).
func derive(key []byte, purpose string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("sallyport " + purpose + "\x01"))
	return mac.Sum(nil)
}
