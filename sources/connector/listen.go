package connector

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// errDeaf is a server to which there is nothing to listen.
var errDeaf = errors.New("the server tells nothing by itself")

// Listen implements [sources.Listener] by a stream on the shared session, or by
// subscriptions/listen where there are no sessions.
func (s *Source) Listen(ctx context.Context, heard func(sources.Notice)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(s.life, stop)()
	ear := &ear{Source: s, heard: heard}
	s.wishes.listen(true)
	defer s.wishes.listen(false)
	wait := time.Duration(0)
	for {
		began := time.Now()
		err := ear.listen(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errDeaf):
			return nil
		case errors.Is(err, errRetuned):
			ear.again = false // nothing broke
			continue
		}
		s.cfg.Log.Debug("listening to a server", "source", s.cfg.ID, "error", s.scrub(err))
		if time.Since(began) > maxBackoff {
			wait = 0
		}
		wait = min(max(2*wait, s.cfg.Backoff), maxBackoff)
		if pause(ctx, wait/2+rand.N(wait)) != nil {
			return nil
		}
	}
}

// ear is one who listens, stream after stream.
type ear struct {
	*Source
	heard   func(sources.Notice)
	again   bool // a stream broke: something may have been missed
	missing int  // streams in a row that a new session did not have
}

// listen opens one stream and hears it to its end.
func (e *ear) listen(ctx context.Context) error {
	ses, err := e.shared(ctx)
	if err != nil {
		return err
	}
	if ses.lists == (changing{}) && !ses.offers.Subscribe {
		return errDeaf
	}
	if ses.stateless {
		return e.subscribed(ctx, ses)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ses.life, stop)()
	return e.attended(ctx, ses)
}

// shared returns the shared session. It is not held: when no call uses it any
// more it may end, and the stream with it.
func (s *Source) shared(ctx context.Context) (*session, error) {
	done, err := s.begin()
	if err != nil {
		return nil, errDeaf
	}
	defer done()
	if err := s.circuit.enter(); err != nil {
		return nil, err
	}
	ses, err := s.acquire(ctx, place{})
	if err != nil {
		s.circuit.leave(ctx, err)
		return nil, err
	}
	s.circuit.pass()
	s.release(ses)
	return ses, nil
}

// attended hears the stream of the shared session.
func (e *ear) attended(ctx context.Context, ses *session) error {
	resp, err := e.tune(ctx, ses)
	if errors.Is(err, errSessionGone) {
		if e.missing++; e.missing > 1 {
			return errDeaf // it has no stream, and no other word for that
		}
		e.drop(ses)
		return err
	}
	if err != nil {
		return err
	}
	e.missing = 0
	if err := e.resubscribe(ctx, ses); err != nil {
		resp.Body.Close() //nolint:errcheck,gosec // it is begun anew
		return err
	}
	e.missed(ses)
	return e.follow(resp, func(m *message, method string) {
		switch {
		case m.method == nil: // a response, which nobody waits for here
		case m.id != nil:
			e.refuse(ctx, ses, m, method)
		default:
			e.notice(m, method)
		}
	})
}

// missed tells that everything may have changed while nobody listened.
func (e *ear) missed(ses *session) {
	if !e.again {
		e.again = true
		return
	}
	for _, list := range []struct {
		kind  sources.NoticeKind
		tells bool
	}{
		{sources.NoticeTools, ses.lists.tools},
		{sources.NoticeResources, ses.lists.resources},
		{sources.NoticePrompts, ses.lists.prompts},
	} {
		if list.tells {
			e.heard(sources.Notice{Kind: list.kind})
		}
	}
	for _, uri := range e.wishes.uris() {
		e.heard(sources.Notice{Kind: sources.NoticeUpdated, URI: uri})
	}
}

// notice hands on a notification.
func (e *ear) notice(m *message, method string) {
	n := sources.Notice{Kind: sources.NoticeKind(method)}
	switch n.Kind {
	case sources.NoticeTools, sources.NoticeResources, sources.NoticePrompts:
	case sources.NoticeUpdated:
		members, _ := sources.Members(m.params)
		n.URI, _ = unquoted(sources.Lookup(m.params, members, "uri"))
		n.URI = e.cleaner.Load().text(n.URI)
		if n.URI == "" {
			return
		}
	default:
		return
	}
	e.heard(n)
}

// attend hears the stream of an agent's own session while it lives: questions
// and log messages come on it which the server does not tie to a call.
func (s *Source) attend(ses *session) {
	wait := time.Duration(0)
	for ses.life.Err() == nil {
		resp, err := s.tune(ses.life, ses)
		if err == nil {
			wait = 0
			err = s.follow(resp, func(m *message, method string) { s.attendTo(ses, m, method) })
		}
		if errors.Is(err, errDeaf) || errors.Is(err, errSessionGone) {
			return // a call will learn of it
		}
		wait = min(max(2*wait, s.cfg.Backoff), maxBackoff)
		if pause(ses.life, wait/2+rand.N(wait)) != nil {
			return
		}
	}
}

func (s *Source) attendTo(ses *session, m *message, method string) {
	calls := s.inFlight(ses)
	if m.method == nil {
		return // a response, which nobody waits for here
	}
	if len(calls) == 0 {
		if m.id != nil {
			s.refuse(ses.life, ses, m, method)
		}
		return
	}
	latest := calls[len(calls)-1]
	if method != "notifications/progress" {
		latest.hear(m)
		return
	}
	for _, x := range calls { // each knows its own token
		x.hear(m)
	}
}

// refuse answers a request of the server for which there is no caller.
func (s *Source) refuse(ctx context.Context, ses *session, m *message, method string) {
	x := &exchange{Source: s, ses: ses, cred: &credential{}, request: &request{}, client: s.client(nil, nil)}
	x.reply(ctx, m, method)
}

// tune opens the stream of a session.
func (s *Source) tune(ctx context.Context, ses *session) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	sessionHeaders(r.Header, ses)
	return s.openStream(ctx, r, ses)
}

// openStream sends a request whose answer is a stream that goes on.
func (s *Source) openStream(ctx context.Context, r *http.Request, ses *session) (*http.Response, error) {
	cred, err := s.credential(ctx)
	if err != nil {
		return nil, err
	}
	client := s.client(&cred, nil)
	client.Transport.(*authorizer).open = true //nolint:forcetypeassert // it was made so
	resp, err := client.Do(r)
	if err != nil {
		return nil, s.lost(ctx, action.ErrUnavailable, err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, nil
	}
	resp.Body.Close() //nolint:errcheck,gosec // it is not the stream
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		if _, err := s.refused(ctx, cred.used(), status, resp.Header); err != nil {
			return nil, err
		}
		return nil, statusFault(status)
	case status == http.StatusNotFound && ses.id != "":
		return nil, errSessionGone
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500 && status != http.StatusNotImplemented:
		return nil, statusFault(status)
	}
	return nil, errDeaf
}

// follow reads a stream to its end, however long that takes: a peer that is
// dead is noticed by the transport. Each event is bounded.
func (s *Source) follow(resp *http.Response, hear func(m *message, method string)) error {
	defer resp.Body.Close()
	body := &refill{body: resp.Body, limit: s.cfg.MaxAnswer, left: s.cfg.MaxAnswer}
	err := readEvents(body, func(ev event) bool {
		body.left = body.limit
		m, ok := parseMessage(ev.data)
		if !ok || m.method == nil && m.id == nil {
			return true
		}
		method, _ := unquoted(m.method)
		hear(&m, method)
		return true
	})
	if err == nil {
		err = errors.New("the stream ended")
	}
	return err
}

// refill bounds how much may be read until it is filled again.
type refill struct {
	body interface {
		Read([]byte) (int, error)
	}
	left, limit int64
}

func (r *refill) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errors.New("an event is too large")
	}
	n, err := r.body.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// subscribed hears subscriptions/listen.
func (e *ear) subscribed(parent context.Context, ses *session) error {
	uris, retuned := e.wishes.now()
	if ses.lists == (changing{}) && len(uris) == 0 {
		e.wishes.told(nil)
		return e.idle(parent, retuned)
	}
	ctx, stop := context.WithCancelCause(parent)
	defer stop(nil)
	go func() {
		select {
		case <-retuned:
			stop(errRetuned)
		case <-ctx.Done():
		}
	}()
	id := e.ids.Add(1)
	resp, err := e.subscribe(ctx, ses, id, uris)
	if err != nil {
		return retunedOr(ctx, err)
	}
	over := errors.New("the server ended the subscription")
	nothing := false
	err = e.follow(resp, func(m *message, method string) {
		switch {
		case m.answers(id):
			stop(over)
			nothing = nothing || problemCode(m.problem) == codeMethod
		case !ours(m, id):
		case method == "notifications/subscriptions/acknowledged":
			nothing = grantsNothing(m)
			e.wishes.told(uris)
			e.missed(ses)
		default:
			e.notice(m, method)
		}
	})
	switch {
	case nothing && len(uris) == 0:
		return errDeaf
	case nothing: // other resources may be granted
		return e.idle(parent, retuned)
	}
	return retunedOr(ctx, err)
}

// idle waits until other resources are wanted.
func (e *ear) idle(ctx context.Context, retuned <-chan struct{}) error {
	select {
	case <-retuned:
		return errRetuned
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errRetuned is a stream that ended because other resources are wanted.
var errRetuned = errors.New("other resources are wanted")

func retunedOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errRetuned) {
		return cause
	}
	return err
}

// subscribe posts subscriptions/listen for all that the server offers.
func (e *ear) subscribe(ctx context.Context, ses *session, id int64, uris []string) (*http.Response, error) {
	wanted, err := json.Marshal(struct {
		Notifications any `json:"notifications"`
	}{struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}{ses.lists.tools, ses.lists.prompts, ses.lists.resources, uris}})
	if err != nil {
		return nil, err
	}
	r := &request{method: "subscriptions/listen", params: wanted}
	post, err := e.post(ctx, ses, r, id)
	if err != nil {
		return nil, err
	}
	return e.openStream(ctx, post, ses)
}

// ours reports whether a notification is of this subscription, or does not say.
func ours(m *message, id int64) bool {
	members, _ := sources.Members(m.params)
	meta := sources.Lookup(m.params, members, "_meta")
	members, _ = sources.Members(meta)
	tag := sources.Lookup(meta, members, metaSubscription)
	asked := message{id: tag}
	return tag == nil || asked.answers(id)
}

// grantsNothing reports whether an acknowledgement grants nothing at all.
func grantsNothing(m *message) bool {
	members, _ := sources.Members(m.params)
	granted := sources.Lookup(m.params, members, "notifications")
	list, ok := sources.Members(granted)
	return ok && !slices.ContainsFunc(list, func(g sources.Member) bool {
		switch string(granted[g.Value:g.End]) {
		case "false", "null", "[]":
			return false
		}
		return true
	})
}
