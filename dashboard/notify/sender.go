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

// Config says what a [Sender] works with. The interfaces, Do, Slack, Worker, PublicURL and
// NewID are required; of the durations and numbers, zero means the default in the comment.
type Config struct {
	Rows  Rows
	Vault action.Vault
	JSON  *redact.JSON
	// Do sends a request, and follows no redirect.
	Do func(r *http.Request) (*http.Response, error)
	// Slack calls a method of Slack's API with the token of an integration and
	// returns the answer, whatever it says. Errors are for people to read, without
	// a credential.
	Slack func(ctx context.Context, organization, integration, method string, body []byte) ([]byte, error)

	Worker    string // this process; unique among those that share rows
	PublicURL string // where people reach the page
	NewID     func() string
	UserAgent string // "sallyport"

	Every    time.Duration // between two looks when nobody wakes it; 1 second
	Settle   time.Duration // before a held call is told of: what is withdrawn by then disturbs nobody; twice Every
	Minute   int           // messages a minute of one channel by this process, so that no agent wears people out; 30
	Rest     time.Duration // between two looks however often somebody does; a quarter of Every
	Timeout  time.Duration // of a request; 10 seconds
	Lease    time.Duration // before others send by a channel of this process; 1 minute
	Parallel int           // channels at once; 32
	Slowest  time.Duration // between two attempts at an endpoint that fails; 5 minutes

	Now func() time.Time // time.Now
	Log *slog.Logger     // discards
}

func (c *Config) fill() error {
	if c.Rows == nil || c.Vault == nil || c.JSON == nil || c.Do == nil || c.Slack == nil || c.Worker == "" || c.PublicURL == "" || c.NewID == nil {
		return errors.New("notify.Config: Rows, Vault, JSON, Do, Slack, Worker, PublicURL and NewID are required")
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	for value, use := range map[*time.Duration]time.Duration{&c.Rest: c.Every / 4, &c.Settle: 2 * c.Every, &c.Timeout: 10 * time.Second, &c.Lease: time.Minute, &c.Slowest: 5 * time.Minute} {
		if *value == 0 {
			*value = use
		}
	}
	if c.Parallel == 0 {
		c.Parallel = 32
	}
	if c.Minute == 0 {
		c.Minute = 30
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

// Sender finds calls and requests for variables that wait, and tells of them. It is safe for use by several
// goroutines.
type Sender struct {
	Config
	wake    chan struct{}
	room    chan struct{} // of channels
	sending sync.WaitGroup
	marks   map[place]action.NotifyCursor // how far Run looked

	mu    sync.Mutex
	paces map[place]*rate.Limiter
}

// place is one channel of one organization.
type place struct {
	organization string
	kind         action.NotifyKind
}

// New returns a sender, for [Sender.Run].
func New(c Config) (*Sender, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	return &Sender{Config: c, wake: make(chan struct{}, 1), room: make(chan struct{}, c.Parallel), marks: map[place]action.NotifyCursor{}, paces: map[place]*rate.Limiter{}}, nil
}

// Hint takes a hint of what changed. It does not wait.
func (s *Sender) Hint(h action.Hint) {
	if h.Kind != action.HintInvocation && h.Kind != action.HintReload {
		return
	}
	switch h.Status {
	case action.StatusExecuting, action.StatusCompleted, action.StatusFailed:
		return // of these it is no news that nobody is waited for
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run tells of calls until ctx ends, finishes the requests that are under way,
// and returns ctx's error.
func (s *Sender) Run(ctx context.Context) error {
	defer s.sending.Wait()
	for failures := 0; ctx.Err() == nil; {
		more, err := s.round(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			failures++
			s.Log.ErrorContext(ctx, "looking for held calls to tell of", "error", err)
			sleep(ctx, backoff(s.Every, 30*s.Every, failures))
		default:
			failures = 0
			s.idle(ctx, more)
		}
	}
	return ctx.Err()
}

// idle waits until there may be something to do.
func (s *Sender) idle(ctx context.Context, more bool) {
	sleep(ctx, s.Rest) // a flood of hints is one look
	if more {
		return
	}
	timer := time.NewTimer(s.Every)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.wake:
	}
}

// round looks once, and has sent what is due. There may be more to look at.
func (s *Sender) round(ctx context.Context) (more bool, err error) {
	channels, err := s.Rows.NotifyChannels(ctx, "")
	if err != nil {
		return false, err
	}
	if len(channels) == 0 {
		clear(s.marks)
		return false, nil
	}
	for _, c := range channels {
		if err := s.look(ctx, &c); err != nil && ctx.Err() == nil { // the others are not held up
			s.Log.ErrorContext(ctx, "looking for held calls to tell of", "organization", c.Organization, "kind", c.Kind, "error", err)
		}
		mark := s.marks[place{c.Organization, c.Kind}]
		more = more || mark.ID != "" || mark.Notification != ""
	}
	claimed, err := s.Rows.ClaimChannels(ctx, s.Worker, s.Lease)
	until := s.Now().Add(s.Lease - s.Timeout)
	for _, c := range claimed { // also with an error
		s.sending.Go(func() { s.send(ctx, &c, until) })
	}
	return more, err
}

// look makes notifications of what is new, and ends those of what is over.
func (s *Sender) look(ctx context.Context, c *action.NotifyChannel) (err error) {
	at := place{c.Organization, c.Kind}
	mark := s.marks[at]
	if _, mark, err = s.Rows.LookForEnds(ctx, *c, mark); err != nil {
		return err
	}
	if c.Enabled {
		if _, mark, err = s.Rows.LookForCalls(ctx, *c, s.Now().Add(-s.Settle), mark); err != nil {
			return err
		}
	}
	s.marks[at] = mark
	return nil
}

// send tells all that is due by a channel, one after the other, until one fails
// or the lease is about to end.
func (s *Sender) send(ctx context.Context, c *action.NotifyChannel, until time.Time) {
	work, stop := outlive(ctx, finishWithin)
	defer stop()
	s.room <- struct{}{}
	defer func() { <-s.room }()
	defer func() {
		if err := s.Rows.ReleaseChannel(work, s.Worker, *c); err != nil {
			s.Log.WarnContext(ctx, "a channel stays taken until its lease ends", "organization", c.Organization, "kind", c.Kind, "error", err)
		}
	}()
	pace := s.pace(c)
	for ctx.Err() == nil && s.Now().Before(until) && pace.TokensAt(s.Now()) >= 1 {
		w, err := s.Rows.NextNotification(work, *c)
		if err != nil {
			s.Log.ErrorContext(ctx, "reading what to tell of held calls", "organization", c.Organization, "error", err)
			return
		}
		if w == nil {
			return
		}
		pace.AllowN(s.Now(), 1)
		if !s.one(ctx, work, c, w) {
			return
		}
	}
}

// pace says how fast a channel may tell: what is beyond it stays due.
func (s *Sender) pace(c *action.NotifyChannel) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{c.Organization, c.Kind}
	if s.paces[at] == nil {
		s.paces[at] = rate.NewLimiter(rate.Every(time.Minute/time.Duration(s.Minute)), s.Minute)
	}
	return s.paces[at]
}

// one sends a notification and writes what came of it; false when the channel
// is to be left alone for now.
func (s *Sender) one(ctx, work context.Context, c *action.NotifyChannel, w *action.DueNotification) bool {
	within, stop := context.WithTimeout(work, s.Timeout)
	a, err := s.tell(within, c, w)
	stop()
	if err != nil {
		s.Log.ErrorContext(ctx, "telling of what waits", "organization", c.Organization, "invocation", w.Invocation, "request", w.EnvRequest, "error", err)
		a.said = "The notification could not be written; the gateway's log has the details."
	}
	o := s.outcome(c, w, a)
	if !a.ok {
		if !o.ChannelRetryAt.IsZero() {
			c.Failures++
		}
		s.Log.WarnContext(ctx, "what waits could not be told of", "organization", c.Organization, "kind", c.Kind, "invocation", w.Invocation, "request", w.EnvRequest, "failures", c.Failures, "error", a.said)
	}
	held, err := s.Rows.SettleNotification(work, s.Worker, o)
	if err != nil {
		s.Log.ErrorContext(ctx, "what came of a notification could not be written; it is sent again", "organization", c.Organization, "invocation", w.Invocation, "request", w.EnvRequest, "error", err)
	}
	return held && (a.ok || a.only)
}

// lastWords is how often a message is told that is refused by itself, or that
// tells an end.
const lastWords = 10

func (s *Sender) outcome(c *action.NotifyChannel, w *action.DueNotification, a answer) action.NotifyOutcome {
	o := action.NotifyOutcome{Notification: w.Notification, OK: a.ok}
	if a.ok {
		o.Ref = a.ref
		return o
	}
	o.Error = a.said
	again := s.Now().Add(max(backoff(s.Every, s.Slowest, w.Attempt+1), a.wait))
	switch ends := w.Event == action.NotifySettled; {
	case ends && a.only:
	case ends || a.only: // neither holds up the channel
		if w.Attempt+1 < lastWords {
			o.RetryAt = again
		}
	default:
		o.RetryAt, o.ChannelRetryAt = again, s.Now().Add(max(backoff(s.Every, s.Slowest, c.Failures+1), a.wait))
	}
	return o
}

// tell sends one notification.
func (s *Sender) tell(ctx context.Context, c *action.NotifyChannel, w *action.DueNotification) (answer, error) {
	if w.Variables != nil {
		v := variables(w, s.PublicURL, s.Now())
		return s.by(ctx, c, w, typesOfVariables, v, v.post())
	}
	m := message(w, s.PublicURL, s.Now())
	return s.by(ctx, c, w, typesOfCalls, m, m.post())
}

// by sends what a channel takes: a post, or a signed message of one of the two
// types.
func (s *Sender) by(ctx context.Context, c *action.NotifyChannel, w *action.DueNotification, types [2]string, data any, p post) (answer, error) {
	if c.Kind == action.NotifySlack {
		return s.toSlack(ctx, c, p, w.Ref)
	}
	kind := types[0]
	if w.Event == action.NotifySettled {
		kind = types[1]
	}
	return s.toWebhook(ctx, c, w.ID, kind, data)
}
