package notify

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"sallyport/action"
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
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	for field, value := range map[*time.Duration]time.Duration{&c.MinInterval: c.Interval / 4, &c.HoldDelay: 2 * c.Interval, &c.Timeout: 10 * time.Second, &c.Lease: time.Minute, &c.MaxBackoff: 5 * time.Minute} {
		if *field == 0 {
			*field = value
		}
	}
	if c.Concurrency == 0 {
		c.Concurrency = 32
	}
	if c.PerMinute == 0 {
		c.PerMinute = 30
	}
	if c.UserAgent == "" {
		c.UserAgent = "sallyport"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Sender finds pending calls and environment requests and notifies approvers of
// them. It is safe for concurrent use.
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
			s.Log.ErrorContext(ctx, "looking for held calls to tell of", "error", err)
			sleep(ctx, backoff(s.Interval, 30*s.Interval, failures))
		default:
			failures = 0
			s.idle(ctx, more)
		}
	}
	return ctx.Err()
}

// idle waits for a hint or for the next poll.
func (s *Sender) idle(ctx context.Context, more bool) {
	sleep(ctx, s.MinInterval) // a burst of hints causes one poll
	if more {
		return
	}
	timer := time.NewTimer(s.Interval)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.wake:
	}
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
		if err := s.enqueue(ctx, &c); err != nil && ctx.Err() == nil { // other channels continue
			s.Log.ErrorContext(ctx, "looking for held calls to tell of", "organization", c.Organization, "kind", c.Kind, "error", err)
		}
		mark := s.cursors[channelKey{c.Organization, c.Kind}]
		more = more || mark.ID != "" || mark.Notification != ""
	}
	claimed, err := s.Rows.ClaimChannels(ctx, s.Worker, s.Lease)
	until := s.Now().Add(s.Lease - s.Timeout)
	for _, c := range claimed { // claimed ones also come with an error
		s.sending.Go(func() { s.send(ctx, &c, until) })
	}
	return more, err
}

// enqueue creates notifications for new pending items and closes those of
// settled ones.
func (s *Sender) enqueue(ctx context.Context, c *action.NotifyChannel) (err error) {
	at := channelKey{c.Organization, c.Kind}
	mark := s.cursors[at]
	if _, mark, err = s.Rows.CloseSettled(ctx, *c, mark); err != nil {
		return err
	}
	if c.Enabled {
		if _, mark, err = s.Rows.QueueCalls(ctx, *c, s.Now().Add(-s.HoldDelay), mark); err != nil {
			return err
		}
	}
	s.cursors[at] = mark
	return nil
}

// send sends the due notifications of a channel in order, until one fails or
// the lease is about to end.
func (s *Sender) send(ctx context.Context, c *action.NotifyChannel, until time.Time) {
	work, stop := withGrace(ctx, gracePeriod)
	defer stop()
	s.slots <- struct{}{}
	defer func() { <-s.slots }()
	defer func() {
		if err := s.Rows.ReleaseChannel(work, s.Worker, *c); err != nil {
			s.Log.WarnContext(ctx, "a channel stays taken until its lease ends", "organization", c.Organization, "kind", c.Kind, "error", err)
		}
	}()
	limiter := s.limiter(c)
	for ctx.Err() == nil && s.Now().Before(until) && limiter.TokensAt(s.Now()) >= 1 {
		w, err := s.Rows.NextNotification(work, *c)
		if err != nil {
			s.Log.ErrorContext(ctx, "reading what to tell of held calls", "organization", c.Organization, "error", err)
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

// limiter returns the rate limiter of a channel. Notifications over the limit
// stay due.
func (s *Sender) limiter(c *action.NotifyChannel) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := channelKey{c.Organization, c.Kind}
	if s.limiters[at] == nil {
		s.limiters[at] = rate.NewLimiter(rate.Every(time.Minute/time.Duration(s.PerMinute)), s.PerMinute)
	}
	return s.limiters[at]
}

// sendNotification sends a notification and records the result. It returns
// false if the channel should pause.
func (s *Sender) sendNotification(ctx, work context.Context, c *action.NotifyChannel, w *action.DueNotification) bool {
	timed, stop := context.WithTimeout(work, s.Timeout)
	a, err := s.deliver(timed, c, w)
	stop()
	if err != nil {
		s.Log.ErrorContext(ctx, "telling of what waits", "organization", c.Organization, "invocation", w.Invocation, "request", w.EnvRequest, "error", err)
		a.detail = "The notification could not be written; the gateway's log has the details."
	}
	o := s.outcome(c, w, a)
	if !a.ok {
		if !o.ChannelRetryAt.IsZero() {
			c.Failures++
		}
		s.Log.WarnContext(ctx, "what waits could not be told of", "organization", c.Organization, "kind", c.Kind, "invocation", w.Invocation, "request", w.EnvRequest, "failures", c.Failures, "error", a.detail)
	}
	held, err := s.Rows.SettleNotification(work, s.Worker, o)
	if err != nil {
		s.Log.ErrorContext(ctx, "what came of a notification could not be written; it is sent again", "organization", c.Organization, "invocation", w.Invocation, "request", w.EnvRequest, "error", err)
	}
	return held && (a.ok || a.messageRejected)
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

// deliver sends one notification.
func (s *Sender) deliver(ctx context.Context, c *action.NotifyChannel, w *action.DueNotification) (response, error) {
	if w.Variables != nil {
		v := envRequest(w, s.PublicURL, s.Now())
		return s.sendTo(ctx, c, w, envEventTypes, v, v.post())
	}
	m := message(w, s.PublicURL, s.Now())
	return s.sendTo(ctx, c, w, callEventTypes, m, m.post())
}

// sendTo sends what the channel takes: a Slack post, or a signed webhook of one
// of the two event types.
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
