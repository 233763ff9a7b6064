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

// ValkeyConfig says where Valkey is and how it is used.
type ValkeyConfig struct {
	// URL is valkey://[user:password@]host:6379/0; valkeys:// means TLS.
	// Required. It names one server, not a cluster.
	URL string
	// Instance holds this one's locks: no two instances share it. Required.
	Instance string
	// Prefix is in front of every key and channel; zero: "sallyport:".
	// Installations that share a server need different ones, because channels
	// are common to all its databases.
	Prefix string
	// Limit is how many calls a minute a session may make; zero: no limit.
	Limit int
	// Timeout bounds each count of a call and each lock; zero: 250 ms.
	Timeout time.Duration
	// Heartbeat is how often is tried whether hints arrive; after two and a
	// half of silence they are taken not to. Zero: 1 s.
	Heartbeat time.Duration
	// Resumed is called whenever hints of others may have been missed: after
	// each connect, and when another instance could not send some. Then rows
	// tell. It must not block, and may be called twice at once. Nil: nobody is
	// told.
	Resumed func()
	// Now is the clock of all limits, for tests; nil: the server's, and
	// time.Now while there is none.
	Now func() time.Time
	// Log is told once when Valkey is lost and once when it is back; nil:
	// slog.Default.
	Log *slog.Logger
}

// Valkey carries hints, counts calls and holds locks for all instances that
// use the same server. None of it is truth, and nothing waits for a server
// that is away: see the package's comment.
type Valkey struct {
	config  ValkeyConfig
	options valkey.ClientOption
	id      string // tells our own packets from those of others
	counts  *valkey.Lua
	hold    *valkey.Lua
	release *valkey.Lua

	hub     Hub             // subscribers of this instance
	counter *Counter        // counts while Valkey does not
	queue   chan packedHint // to be sent

	live   atomic.Pointer[session] // nil while Valkey is not to be relied on
	missed atomic.Bool             // hints were dropped since the last packet
	tally  tally
}

// tally is what [Stats] is read from.
type tally struct{ connects, dropped, limits, locks atomic.Int64 }

// Stats is what happened since the start.
type Stats struct {
	Up            bool  // hints arrive
	Reconnects    int64 // times that Valkey was lost and found again
	Dropped       int64 // hints that other instances were not sent
	Fallbacks     int64 // calls that this instance counted alone
	LockFallbacks int64 // locks that this instance took for held without asking
}

// queued bounds the hints that wait to be sent.
const queued = 8192

// NewValkey checks the configuration. It connects to nothing: [Valkey.Run]
// does.
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
		counter: NewCounter(c.Limit, c.Now), queue: make(chan packedHint, queued),
	}, nil
}

// parseURL never says what it was given, because a password may be in it.
func parseURL(text string) (valkey.ClientOption, error) {
	options, err := valkey.ParseURL(text)
	u, bad := url.Parse(text)
	if err != nil || bad != nil || u.Host == "" && u.Scheme != "unix" || options.Sentinel.MasterSet != "" {
		return options, errors.New("the URL of Valkey is not valid; it looks like valkey://host:6379/0 or valkeys://user:password@host:6379/0 (characters of the password percent-encoded)")
	}
	options.DisableRetry = true // each call has its own way on without Valkey
	options.DisableCache = true
	options.ForceSingleClient = true
	options.PipelineMultiplex = -1 // one connection: when hints arrive on it, calls do
	options.Dialer.Timeout = cmp.Or(options.Dialer.Timeout, dialTimeout)
	return options, nil
}

// Healthy tells whether hints of other instances arrive here.
func (v *Valkey) Healthy() bool { return v.live.Load() != nil }

// Stats returns the counts so far.
func (v *Valkey) Stats() Stats {
	return Stats{
		Up: v.Healthy(), Reconnects: max(0, v.tally.connects.Load()-1), Dropped: v.tally.dropped.Load(),
		Fallbacks: v.tally.limits.Load(), LockFallbacks: v.tally.locks.Load(),
	}
}
