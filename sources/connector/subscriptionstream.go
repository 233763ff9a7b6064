package connector

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"sallyport/sources"
)

// listenBySubscription reads subscriptions/listen. When the set of resources
// changes it opens a new stream, and reads the old one until the server
// acknowledges the new one.
func (e *listener) listenBySubscription(ctx context.Context, ses *session) error {
	ctx, stop := context.WithCancel(ctx)
	var strands sync.WaitGroup
	defer strands.Wait()
	defer stop()
	var last *subscriptionStream // nil: none is heard
	for {
		uris, retuned := e.subscriptions.snapshot()
		if ses.listChanges == (listChanges{}) && len(uris) == 0 {
			last = last.stop()
			e.subscriptions.setActive(nil)
			if err := e.awaitSubscriptions(ctx, retuned); err != nil {
				return err
			}
			continue
		}
		next := &subscriptionStream{listener: e, ses: ses, uris: uris, acked: make(chan struct{}), done: make(chan struct{})}
		reading, cancel := context.WithCancel(ctx)
		next.cancel = cancel
		strands.Go(func() {
			defer close(next.done)
			defer cancel()
			next.err = next.listen(reading)
		})
		if err := next.awaitAcknowledged(ctx); last != nil && errors.Is(err, errNoStream) && !next.empty() {
			return errSecondStream
		}
		if !last.alive() && next.alive() && e.announceMissed(ses) {
			for _, uri := range uris {
				e.resourceUpdated(uri)
			}
		}
		last.stop()
		last = next
		select {
		case <-retuned:
			if next.empty() {
				e.restarted = false // nothing can have been missed
			}
		case <-next.done:
			if !next.empty() || !ses.capabilities.Subscribe {
				return next.err
			}
			last = nil
			if err := e.awaitSubscriptions(ctx, retuned); err != nil { // other resources may be granted
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errSecondStream reports a server that refuses a second concurrent stream.
var errSecondStream = errors.New("the server does not take a second stream")

// awaitSubscriptions waits until the set of resources changes. For those,
// nothing was missed.
func (e *listener) awaitSubscriptions(ctx context.Context, retuned <-chan struct{}) error {
	e.restarted = false
	select {
	case <-retuned:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// subscriptionStream is one subscriptions/listen stream.
type subscriptionStream struct {
	*listener
	ses    *session
	uris   []string
	cancel context.CancelFunc
	acked  chan struct{} // closed when the server acknowledged the stream
	done   chan struct{} // closed at its end

	grantsNone bool  // nothing was granted; valid after acked
	err        error // valid after done
}

// awaitAcknowledged waits until the server acknowledged the stream. Without an
// acknowledgement the stream counts as acknowledged after a moment. The error
// says why the stream failed.
func (s *subscriptionStream) awaitAcknowledged(ctx context.Context) error {
	late := time.NewTimer(subscribeTimeout)
	defer late.Stop()
	select {
	case <-s.acked:
	case <-late.C:
	case <-ctx.Done():
	case <-s.done:
		return s.err
	}
	return nil
}

// alive reports whether the stream is open.
func (s *subscriptionStream) alive() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// empty reports whether the server granted nothing.
func (s *subscriptionStream) empty() bool {
	select {
	case <-s.acked:
		return s.grantsNone
	default:
		return false
	}
}

// stop ends the stream, if there is one.
func (s *subscriptionStream) stop() *subscriptionStream {
	if s != nil {
		s.cancel()
	}
	return nil
}

// listen reads the stream to its end.
func (s *subscriptionStream) listen(ctx context.Context) error {
	id := s.ids.Add(1)
	resp, err := s.subscribe(ctx, id) //nolint:bodyclose // follow closes it
	if err != nil {
		return err
	}
	var ended error
	err = s.readStream(resp, func(m *message, method string) {
		switch {
		case m.answers(id):
			ended = errors.New("the server ended the subscription")
			if s.grantsNone || errorCode(m.problem) == codeMethod {
				ended = errNoStream
			}
			s.cancel()
		case !belongsTo(m, id):
		case method == "notifications/subscriptions/acknowledged":
			select {
			case <-s.acked:
			default:
				s.grantsNone = grantsNothing(m)
				s.subscriptions.setActive(s.uris)
				close(s.acked)
			}
		default:
			s.handleNotice(m, method)
		}
	})
	if ended != nil {
		return ended
	}
	return err
}

// subscribe posts subscriptions/listen for everything that the server offers.
func (s *subscriptionStream) subscribe(ctx context.Context, id int64) (*http.Response, error) {
	wanted, err := json.Marshal(struct {
		Notifications any `json:"notifications"`
	}{struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}{s.ses.listChanges.tools, s.ses.listChanges.prompts, s.ses.listChanges.resources, s.uris}})
	if err != nil {
		return nil, err
	}
	post, err := s.post(ctx, s.ses, &request{method: "subscriptions/listen", params: wanted}, id)
	if err != nil {
		return nil, err
	}
	return s.openStream(ctx, post, s.ses)
}

// belongsTo reports whether a notification is of this subscription, or does not
// say.
func belongsTo(m *message, id int64) bool {
	tag := member(member(m.params, "_meta"), metaSubscription)
	asked := message{id: tag}
	return tag == nil || asked.answers(id)
}

// grantsNothing reports whether an acknowledgement grants nothing at all.
func grantsNothing(m *message) bool {
	granted := member(m.params, "notifications")
	list, ok := sources.Members(granted)
	return ok && !slices.ContainsFunc(list, func(g sources.Member) bool {
		switch string(granted[g.Value:g.End]) {
		case "false", "null", "[]":
			return false
		}
		return true
	})
}
