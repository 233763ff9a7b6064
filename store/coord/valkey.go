package coord

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"sallyport/action"
)

// ValkeyConfig configures [NewValkey].
type ValkeyConfig struct {
	// URL is valkey://[user:password@]host:6379/0; valkeys:// means TLS.
	// Required. It names one server, not a cluster.
	URL string
	// Instance identifies the holder of locks; unique per instance. Required.
	Instance string
	// Prefix precedes every key and channel; zero: "sallyport:".
	// Installations that share a server need different ones, because channels
	// are common to all its databases.
	Prefix string
	// Limit is the number of calls per minute and session; zero: no limit.
	Limit int
	// Timeout bounds each operation on a rate or a lock; zero: 250 ms.
	Timeout time.Duration
	// Heartbeat is the interval of heartbeats; Valkey counts as unavailable after
	// two and a half intervals without one. Zero: 1 s.
	Heartbeat time.Duration
	// Resumed is called when hints may have been missed: after each connect, and
	// when another instance dropped some. The callee then reads the rows. It must
	// not block, and must be safe for concurrent use. Nil: not called.
	Resumed func()
	// Now is the clock of all limits, for tests; nil: the server's clock, and
	// time.Now while Valkey is unavailable.
	Now func() time.Time
	// Log receives one line per outage and one per recovery; nil: slog.Default.
	Log *slog.Logger
}

// Valkey publishes hints, limits rates and holds locks for all instances that use the
// same server. See the package comment for what happens during an outage.
type Valkey struct {
	config  ValkeyConfig
	options valkey.ClientOption
	id      string // the sender in packets of this instance
	counts  *valkey.Lua
	hold    *valkey.Lua
	release *valkey.Lua

	hub     Hub             // subscribers of this instance
	counter *Counter        // the fallback during an outage
	queue   chan packedHint // to be sent

	live     atomic.Pointer[session] // nil while Valkey is unavailable
	missed   atomic.Bool             // hints were dropped since the last packet
	counters counters
}

// counters are the sources of [Stats].
type counters struct{ connects, dropped, limits, locks atomic.Int64 }

// Stats counts events since the start.
type Stats struct {
	Up            bool  // hints arrive
	Reconnects    int64 // recoveries after an outage
	Dropped       int64 // hints that were not sent to other instances
	Fallbacks     int64 // calls counted by this instance only
	LockFallbacks int64 // locks assumed held during an outage
}

// queueSize bounds the hints that are queued for other instances.
const queueSize = 8192

// NewValkey checks the configuration. [Valkey.Run] connects.
func NewValkey(c ValkeyConfig) (*Valkey, error) {
	options, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Instance == "" {
		return nil, errors.New("coord.ValkeyConfig: Instance is required")
	}
	c.Prefix = cmp.Or(c.Prefix, "sallyport:")
	c.Timeout = cmp.Or(c.Timeout, 250*time.Millisecond)
	c.Heartbeat = cmp.Or(c.Heartbeat, time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Resumed == nil {
		c.Resumed = func() {}
	}
	return &Valkey{
		config: c, options: options, id: rand.Text(),
		counts: valkey.NewLuaScript(countScript), hold: valkey.NewLuaScript(holdScript), release: valkey.NewLuaScript(releaseScript),
		counter: NewCounter(c.Limit, c.Now), queue: make(chan packedHint, queueSize),
	}, nil
}

// parseURL never quotes its input, which may contain a password.
func parseURL(text string) (valkey.ClientOption, error) {
	options, err := valkey.ParseURL(text)
	u, bad := url.Parse(text)
	if err != nil || bad != nil || u.Host == "" && u.Scheme != "unix" || options.Sentinel.MasterSet != "" {
		return options, errors.New("the URL of Valkey is not valid; write valkey://host:6379/0 or valkeys://user:password@host:6379/0 (with a percent-encoded password)")
	}
	options.DisableRetry = true // each call has a fallback
	options.DisableCache = true
	options.ForceSingleClient = true
	options.PipelineMultiplex = -1 // one connection, so that heartbeats also show that calls arrive
	options.Dialer.Timeout = cmp.Or(options.Dialer.Timeout, dialTimeout)
	return options, nil
}

// Healthy reports whether Valkey is in use.
func (v *Valkey) Healthy() bool { return v.live.Load() != nil }

// Stats returns the counts so far.
func (v *Valkey) Stats() Stats {
	return Stats{
		Up: v.Healthy(), Reconnects: max(0, v.counters.connects.Load()-1), Dropped: v.counters.dropped.Load(),
		Fallbacks: v.counters.limits.Load(), LockFallbacks: v.counters.locks.Load(),
	}
}

// Ping checks that the Valkey at a URL answers.
func Ping(ctx context.Context, url string) error {
	options, err := parseURL(url)
	if err != nil {
		return err
	}
	client, err := valkey.NewClient(options)
	if err != nil {
		return fmt.Errorf("connecting to Valkey: %w", err)
	}
	defer client.Close()
	return client.Do(ctx, client.B().Ping().Build()).Error()
}

// countScript is [Counter] on the server, in microseconds of the server's clock, so
// that the clocks of instances may differ. It returns zero or the time to wait. If the
// clock went back, as after a failover, it starts a new window.
const countScript = `
local limit, window, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not now then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end
local kept = redis.call('HMGET', KEYS[1], 's', 'n', 'p')
local start, n, past = tonumber(kept[1] or now), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
local passed = now - start
if passed < 0 then
  start = now
elseif passed >= 2 * window then
  start, n, past = now, 0, 0
elseif passed >= window then
  start, n, past = start + window, 0, n
end
passed = now - start
if n + past * (window - passed) / window < limit then
  redis.call('HSET', KEYS[1], 's', string.format('%.0f', start), 'n', n + 1, 'p', past)
  redis.call('PEXPIRE', KEYS[1], 2 * window / 1000)
  return 0
end
local wait
if n < limit then
  wait = (1 - (limit - n) / past) * window - passed
else
  wait = window - passed + (1 - limit / n) * window
end
return math.max(1, math.ceil(wait) + 1)
`

// holdScript acquires a lock, or renews that of the same holder.
const holdScript = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`

// releaseScript deletes a lock if the holder still has it.
const releaseScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`

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
	// The server rejects a TTL of zero.
	held, ok := v.run(ctx, v.hold, v.config.Prefix+"lock:"+name, v.config.Instance, strconv.FormatInt(max(1, ttl.Milliseconds()), 10))
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
