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

// Allow implements [action.Limiter]. Without Valkey this instance counts alone
// and lets through what it would allow by itself.
func (v *Valkey) Allow(ctx context.Context, key string) time.Duration {
	if v.config.Limit <= 0 {
		return 0
	}
	return v.count(ctx, ownRate(key), v.config.Limit)
}

// Take implements [action.Limiter], in the same way.
func (v *Valkey) Take(ctx context.Context, l action.Limit) time.Duration {
	of, ok := limited(l)
	if !ok {
		return minute
	}
	return v.count(ctx, of, l.Calls)
}

// count has Valkey count a call, or else this instance.
func (v *Valkey) count(ctx context.Context, of counted, limit int) time.Duration {
	micros, ok := v.run(ctx, v.counts, v.config.Prefix+of.name(), strconv.Itoa(limit), microseconds(of.window), v.now())
	if !ok {
		v.tally.limits.Add(1)
		return v.counter.count(of, limit)
	}
	if micros == 0 {
		v.counter.count(of, limit) // so that counting alone would go on from here
	}
	return time.Duration(micros) * time.Microsecond
}

// name is the key of the count on the server.
func (of counted) name() string {
	if of.own {
		return "limit:" + of.key
	}
	return "rate:" + microseconds(of.window) + ":" + of.key
}

func microseconds(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// now is the time for [countScript]; empty: the server's own.
func (v *Valkey) now() string {
	if v.config.Now == nil {
		return ""
	}
	return strconv.FormatInt(v.config.Now().UnixMicro(), 10)
}

// Hold takes the lock for ttl, or renews it, and reports whether this instance
// has it now. Without Valkey every instance has every lock: what is done under
// one must be right then, too.
func (v *Valkey) Hold(ctx context.Context, name string, ttl time.Duration) bool {
	held, ok := v.run(ctx, v.hold, v.config.Prefix+"lock:"+name, v.config.Instance, milliseconds(ttl))
	if !ok {
		v.tally.locks.Add(1)
	}
	return !ok || held == 1
}

// Release gives the lock back when this instance has it. Where Valkey is not
// told, the lock lapses.
func (v *Valkey) Release(ctx context.Context, name string) {
	v.run(ctx, v.release, v.config.Prefix+"lock:"+name, v.config.Instance)
}

// run runs a script, unless Valkey is away. ok is false when there is no
// answer; then the caller goes on without.
func (v *Valkey) run(ctx context.Context, script *valkey.Lua, key string, args ...string) (n int64, ok bool) {
	s := v.live.Load()
	if s == nil || s.resting.Load() {
		return 0, false
	}
	n, err := v.exec(ctx, s, script, key, args)
	switch {
	case err == nil:
		return n, true
	case ctx.Err() != nil: // the caller's own time was up
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		// Nobody else shall wait as long: calls rest until a heartbeat shows
		// that the server lives.
		s.resting.Store(true)
	default:
		v.leave(s, err)
	}
	return 0, false
}

func (v *Valkey) exec(ctx context.Context, s *session, script *valkey.Lua, key string, args []string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, v.config.Timeout)
	defer cancel()
	return script.Exec(ctx, s.client, []string{key}, args).AsInt64()
}

// milliseconds writes a lock's time; zero would be an error to the server.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
