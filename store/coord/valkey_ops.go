package coord

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"sallyport/action"
)

// Allow implements [action.Limiter]. Without Valkey this instance counts its own
// calls only.
func (v *Valkey) Allow(ctx context.Context, key string) time.Duration {
	if v.config.Limit <= 0 {
		return 0
	}
	return v.count(ctx, sessionRateKey(key), v.config.Limit)
}

// Take implements [action.Limiter], with the same fallback.
func (v *Valkey) Take(ctx context.Context, l action.Limit) time.Duration {
	of, ok := limitKey(l)
	if !ok {
		return minute
	}
	return v.count(ctx, of, l.Calls)
}

// count counts a call in Valkey, or in this instance if Valkey is unavailable.
func (v *Valkey) count(ctx context.Context, of rateKey, limit int) time.Duration {
	micros, ok := v.run(ctx, v.counts, v.config.Prefix+of.valkeyKey(), strconv.Itoa(limit), microseconds(of.window), v.now())
	if !ok {
		v.counters.limits.Add(1)
		return v.counter.count(of, limit)
	}
	if micros == 0 {
		v.counter.count(of, limit) // keeps the fallback current
	}
	return time.Duration(micros) * time.Microsecond
}

// valkeyKey is the key of the counter on the server.
func (of rateKey) valkeyKey() string {
	if of.sessionRate {
		return "limit:" + of.key
	}
	return "rate:" + microseconds(of.window) + ":" + of.key
}

func microseconds(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// now is the time for [countScript]; empty for the server's clock.
func (v *Valkey) now() string {
	if v.config.Now == nil {
		return ""
	}
	return strconv.FormatInt(v.config.Now().UnixMicro(), 10)
}

// Hold acquires or renews the lock for ttl, and reports whether this instance holds
// it. Without Valkey every instance holds every lock, so work under a lock must be
// correct without it.
func (v *Valkey) Hold(ctx context.Context, name string, ttl time.Duration) bool {
	held, ok := v.run(ctx, v.hold, v.config.Prefix+"lock:"+name, v.config.Instance, milliseconds(ttl))
	if !ok {
		v.counters.locks.Add(1)
	}
	return !ok || held == 1
}

// Release releases the lock if this instance holds it. If Valkey is unavailable, the
// lock expires.
func (v *Valkey) Release(ctx context.Context, name string) {
	v.run(ctx, v.release, v.config.Prefix+"lock:"+name, v.config.Instance)
}

// run runs a script, unless Valkey is unavailable. ok is false without an answer, and
// the caller uses its fallback.
func (v *Valkey) run(ctx context.Context, script *valkey.Lua, key string, args ...string) (n int64, ok bool) {
	s := v.live.Load()
	if s == nil || s.suspended.Load() {
		return 0, false
	}
	n, err := v.exec(ctx, s, script, key, args)
	switch {
	case err == nil:
		return n, true
	case ctx.Err() != nil: // the caller's own deadline
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		// No other call waits for a timeout: calls use their fallback until a
		// heartbeat returns.
		s.suspended.Store(true)
	default:
		v.endSession(s, err)
	}
	return 0, false
}

func (v *Valkey) exec(ctx context.Context, s *session, script *valkey.Lua, key string, args []string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, v.config.Timeout)
	defer cancel()
	return script.Exec(ctx, s.client, []string{key}, args).AsInt64()
}

// milliseconds formats the TTL of a lock; the server rejects zero.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
