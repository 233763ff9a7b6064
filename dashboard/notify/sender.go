package notify

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
)

// Config configures a [Sender]. The interfaces, Do, Slack, Worker, PublicURL
// and NewID are required. A zero duration or number means the default in its
// comment.
type Config struct {
	Rows  Rows
	Vault action.Vault
	JSON  *redact.JSON
	// Do sends a request and does not follow redirects.
	Do func(r *http.Request) (*http.Response, error)
	// Slack calls a method of Slack's API with the token of an integration and
	// returns the response, whatever it says. Errors are readable and contain
	// no credential.
	Slack func(ctx context.Context, organization, integration, method string, body []byte) ([]byte, error)

	Worker    string // ID of this process, unique among those that share a database
	PublicURL string // of the web page
	NewID     func() string
	UserAgent string // "sallyport"

	Interval    time.Duration // between polls without a hint; 1 second
	HoldDelay   time.Duration // before a held call is notified, so that a call withdrawn by then disturbs nobody; twice Interval
	PerMinute   int           // messages per minute, channel and process, so that no agent floods people; 30
	MinInterval time.Duration // between polls, however many hints arrive; a quarter of Interval
	Timeout     time.Duration // of a request; 10 seconds
	Lease       time.Duration // on a channel; 1 minute
	Concurrency int           // channels at once; 32
	MaxBackoff  time.Duration // between two attempts at a failing endpoint; 5 minutes

	Now func() time.Time // time.Now
	Log *slog.Logger     // discards
}

func (c *Config) fill() error {
	if c.Rows == nil || c.Vault == nil || c.JSON == nil || c.Do == nil || c.Slack == nil || c.Worker == "" || c.PublicURL == "" || c.NewID == nil {
		return errors.New("notify.Config: Rows, Vault, JSON, Do, Slack, Worker, PublicURL and NewID are required")
	}
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.MinInterval = cmp.Or(c.MinInterval, c.Interval/4)
	c.HoldDelay = cmp.Or(c.HoldDelay, 2*c.Interval)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 5*time.Minute)
	c.Concurrency = cmp.Or(c.Concurrency, 32)
	c.PerMinute = cmp.Or(c.PerMinute, 30)
	c.UserAgent = cmp.Or(c.UserAgent, "sallyport")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Sender finds pending calls and requests and runs that need attention, and notifies
// people of them. It is safe for concurrent use.
type Sender struct {
	Config
	wake    chan struct{}
	slots   chan struct{} // limits the channels that send at once
	sending sync.WaitGroup
	cursors map[channelKey]action.NotifyCursor // of Run's last poll

	mu       sync.Mutex
	limiters map[channelKey]*rate.Limiter
}

// channelKey identifies a channel of an organization.
type channelKey struct {
	organization string
	kind         action.NotifyKind
}

// New returns a sender. Call [Sender.Run] to start it.
func New(c Config) (*Sender, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	return &Sender{Config: c, wake: make(chan struct{}, 1), slots: make(chan struct{}, c.Concurrency), cursors: map[channelKey]action.NotifyCursor{}, limiters: map[channelKey]*rate.Limiter{}}, nil
}

// Hint wakes the sender when a change may have created or settled a
// notification. It does not block.
func (s *Sender) Hint(h action.Hint) {
	if h.Kind != action.HintInvocation && h.Kind != action.HintReload {
		return
	}
	switch h.Status {
	case action.StatusExecuting, action.StatusCompleted, action.StatusFailed:
		return // approvers are not notified of these
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends notifications until ctx ends, then finishes the running requests
// and returns ctx's error.
func (s *Sender) Run(ctx context.Context) error {
	defer s.sending.Wait()
	for failures := 0; ctx.Err() == nil; {
		more, err := s.poll(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			s.Log.ErrorContext(ctx, "could not queue notifications", "error", err)
			sleep(ctx, backoff(s.Interval, 30*s.Interval, failures))
		default:
			failures = 0
			sleep(ctx, s.MinInterval) // a burst of hints causes one poll
			if more {
				continue
			}
			timer := time.NewTimer(s.Interval)
			select {
			case <-ctx.Done():
			case <-timer.C:
			case <-s.wake:
			}
			timer.Stop()
		}
	}
	return ctx.Err()
}

// poll queues new notifications and starts to send what is due. It reports
// whether there is more to queue.
func (s *Sender) poll(ctx context.Context) (more bool, err error) {
	channels, err := s.Rows.NotifyChannels(ctx, "")
	if err != nil {
		return false, err
	}
	if len(channels) == 0 {
		clear(s.cursors)
		return false, nil
	}
	for _, c := range channels {
		at := channelKey{c.Organization, c.Kind}
		_, mark, err := s.Rows.CloseSettled(ctx, c, s.cursors[at])
		if err == nil && c.Enabled {
			_, mark, err = s.Rows.QueueCalls(ctx, c, s.Now().Add(-s.HoldDelay), mark)
		}
		if err == nil {
			s.cursors[at] = mark
		} else if ctx.Err() == nil { // other channels continue
			s.Log.ErrorContext(ctx, "could not queue notifications", "organization", c.Organization, "kind", c.Kind, "error", err)
		}
		mark = s.cursors[at]
		more = more || mark.ID != "" || mark.Notification != ""
	}
	claimed, err := s.Rows.ClaimChannels(ctx, s.Worker, s.Lease)
	until := s.Now().Add(s.Lease - s.Timeout)
	for _, c := range claimed { // claimed ones also come with an error
		s.sending.Go(func() { s.send(ctx, &c, until) })
	}
	return more, err
}

// send sends the due notifications of a channel in order, until one fails or
// the lease is about to end.
func (s *Sender) send(ctx context.Context, c *action.NotifyChannel, until time.Time) {
	work, end := context.WithCancel(context.WithoutCancel(ctx)) // ends a while after ctx
	defer end()
	defer context.AfterFunc(ctx, func() { sleep(work, gracePeriod); end() })()
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	defer func() {
		if err := s.Rows.ReleaseChannel(work, s.Worker, *c); err != nil {
			s.Log.WarnContext(ctx, "could not release a notification channel before its lease ends", "organization", c.Organization, "kind", c.Kind, "error", err)
		}
	}()
	at := channelKey{c.Organization, c.Kind}
	s.mu.Lock()
	limiter := s.limiters[at] // notifications over the limit stay due
	if limiter == nil {
		limiter = rate.NewLimiter(rate.Every(time.Minute/time.Duration(s.PerMinute)), s.PerMinute)
		s.limiters[at] = limiter
	}
	s.mu.Unlock()
	for ctx.Err() == nil && s.Now().Before(until) && limiter.TokensAt(s.Now()) >= 1 {
		w, err := s.Rows.NextNotification(work, *c)
		if err != nil {
			s.Log.ErrorContext(ctx, "could not load a notification", "organization", c.Organization, "error", err)
			return
		}
		if w == nil {
			return
		}
		limiter.AllowN(s.Now(), 1)
		if !s.sendNotification(ctx, work, c, w) {
			return
		}
	}
}

// sendNotification sends a notification and records the result. It returns
// false if the channel should pause.
func (s *Sender) sendNotification(ctx, work context.Context, c *action.NotifyChannel, w *action.DueNotification) bool {
	timed, stop := context.WithTimeout(work, s.Timeout)
	var a response
	var err error
	switch {
	case w.Variables != nil:
		v := envRequest(w, s.PublicURL, s.Now())
		a, err = s.sendTo(timed, c, w, envEventTypes, v, v.post())
	case w.Grant != nil:
		v := grantRequest(w, s.PublicURL, s.Now())
		a, err = s.sendTo(timed, c, w, grantEventTypes, v, v.post())
	case w.Ended != nil:
		v := endedRun(w, s.PublicURL)
		a, err = s.sendTo(timed, c, w, runEventTypes, v, v.post())
	default:
		m := message(w, s.PublicURL, s.Now())
		a, err = s.sendTo(timed, c, w, callEventTypes, m, m.post())
	}
	stop()
	if err != nil {
		s.Log.ErrorContext(ctx, "could not create a notification", "organization", c.Organization, "about", subject(w), "error", err)
		a.detail = "The notification could not be created. The gateway's log has the details."
	}
	o := s.outcome(c, w, a)
	if !a.ok {
		if !o.ChannelRetryAt.IsZero() {
			c.Failures++
		}
		s.Log.WarnContext(ctx, "could not send a notification", "organization", c.Organization, "kind", c.Kind, "about", subject(w), "failures", c.Failures, "error", a.detail)
	}
	held, err := s.Rows.SettleNotification(work, s.Worker, o)
	if err != nil {
		s.Log.ErrorContext(ctx, "could not record a notification; it will be sent again", "organization", c.Organization, "about", subject(w), "error", err)
	}
	return held && (a.ok || a.messageRejected)
}

// subject returns the ID of what a notification is about.
func subject(w *action.DueNotification) string {
	return cmp.Or(w.Invocation, w.EnvRequest, w.GrantRequest, w.Run)
}

// maxAttempts bounds the retries of a message that the endpoint rejects, and of
// a message about a settled call.
const maxAttempts = 10

func (s *Sender) outcome(c *action.NotifyChannel, w *action.DueNotification, a response) action.NotifyOutcome {
	o := action.NotifyOutcome{Notification: w.Notification, OK: a.ok}
	if a.ok {
		o.Ref = a.ref
		return o
	}
	o.Error = a.detail
	retryAt := s.Now().Add(max(backoff(s.Interval, s.MaxBackoff, w.Attempt+1), a.retryAfter))
	switch settled := w.Event == action.NotifySettled; {
	case settled && a.messageRejected:
	case settled || a.messageRejected: // neither pauses the channel
		if w.Attempt+1 < maxAttempts {
			o.RetryAt = retryAt
		}
	default:
		o.RetryAt, o.ChannelRetryAt = retryAt, s.Now().Add(max(backoff(s.Interval, s.MaxBackoff, c.Failures+1), a.retryAfter))
	}
	return o
}

// sendTo sends a Slack post, or a signed webhook of one of the two event types.
func (s *Sender) sendTo(ctx context.Context, c *action.NotifyChannel, w *action.DueNotification, types [2]string, data any, p post) (response, error) {
	if c.Kind == action.NotifySlack {
		return s.toSlack(ctx, c, p, w.Ref)
	}
	kind := types[0]
	if w.Event == action.NotifySettled {
		kind = types[1]
	}
	return s.toWebhook(ctx, c, w.ID, kind, data)
}

// gracePeriod is how long a running request may take when its process stops.
const gracePeriod = 3 * time.Second

// backoff returns the delay after a number of failures: base, doubled with each
// failure up to limit. Jitter of up to a quarter keeps what failed together
// from retrying together.
func backoff(base, limit time.Duration, failures int) time.Duration {
	d := min(base, limit)
	for range failures - 1 {
		if d *= 2; d >= limit {
			d = limit
			break
		}
	}
	return d - rand.N(d/4+1)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Rows stores channels and their notifications.
type Rows interface {
	NotifyChannels(ctx context.Context, organization string) ([]action.NotifyChannel, error)
	NotifyChannel(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyChannel, error)
	// QueueCalls creates notifications for the calls and requests that were held
	// before a time, and for runs that need attention.
	QueueCalls(ctx context.Context, c action.NotifyChannel, held time.Time, from action.NotifyCursor) (created int, next action.NotifyCursor, err error)
	// CloseSettled closes the notifications of what needs nobody any more.
	CloseSettled(ctx context.Context, c action.NotifyChannel, from action.NotifyCursor) (closed int, next action.NotifyCursor, err error)
	// ClaimChannels leases channels with due notifications to the worker.
	// Channels that were claimed before an error are returned with it.
	ClaimChannels(ctx context.Context, worker string, lease time.Duration) ([]action.NotifyChannel, error)
	// NextNotification returns nil when nothing is due.
	NextNotification(ctx context.Context, c action.NotifyChannel) (*action.DueNotification, error)
	// SettleNotification returns false when the worker lost the channel.
	SettleNotification(ctx context.Context, worker string, o action.NotifyOutcome) (held bool, err error)
	ReleaseChannel(ctx context.Context, worker string, c action.NotifyChannel) error
	SigningSecrets(ctx context.Context, organization, owner string) ([]event.Secret, error)
}
