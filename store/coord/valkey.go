package coord

import (
	"cmp"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
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
		return options, errors.New("the URL of Valkey is not valid; it looks like valkey://host:6379/0 or valkeys://user:password@host:6379/0 (characters of the password percent-encoded)")
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
