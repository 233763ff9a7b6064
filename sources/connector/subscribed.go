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

// subscribed hears subscriptions/listen. When other resources are wanted a
// stream is begun anew, and the one before it is heard until the server took
// the new one.
func (e *ear) subscribed(ctx context.Context, ses *session) error {
	ctx, stop := context.WithCancel(ctx)
	var strands sync.WaitGroup
	defer strands.Wait()
	defer stop()
	var last *strand // nil: none is heard
	for {
		uris, retuned := e.wishes.now()
		if ses.lists == (changing{}) && len(uris) == 0 {
			last = last.silence()
			e.wishes.told(nil)
			if err := e.idle(ctx, retuned); err != nil {
				return err
			}
			continue
		}
		next := &strand{ear: e, ses: ses, uris: uris, taken: make(chan struct{}), over: make(chan struct{})}
		next.begin(ctx, &strands)
		if err := next.settled(ctx); last != nil && errors.Is(err, errDeaf) && !next.void() {
			return errSecond
		}
		if !last.heard() && next.heard() {
			e.passed(ses, uris)
		}
		last.silence()
		last = next
		select {
		case <-retuned:
			if next.void() {
				e.again = false // nothing can have been missed
			}
		case <-next.over:
			if !next.void() || !ses.offers.Subscribe {
				return next.err
			}
			last = nil
			if err := e.idle(ctx, retuned); err != nil { // other resources may be granted
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errSecond is a server that takes no stream beside another; alone it may.
var errSecond = errors.New("the server does not take a second stream")

// idle waits until other resources are wanted. Of those that are nothing was
// missed.
func (e *ear) idle(ctx context.Context, retuned <-chan struct{}) error {
	e.again = false
	select {
	case <-retuned:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// passed tells what may have changed while no stream was heard.
func (e *ear) passed(ses *session, uris []string) {
	if !e.missed(ses) {
		return
	}
	for _, uri := range uris {
		e.updated(uri)
	}
}

// strand is one stream of subscriptions/listen.
type strand struct {
	*ear
	ses   *session
	uris  []string
	quit  context.CancelFunc
	taken chan struct{} // closed when the server acknowledged it
	over  chan struct{} // closed at its end

	nothing bool  // it grants nothing; good to read when it is taken
	err     error // good to read when it is over
}

// begin hears the stream in the background.
func (s *strand) begin(ctx context.Context, strands *sync.WaitGroup) {
	ctx, s.quit = context.WithCancel(ctx)
	strands.Go(func() {
		defer close(s.over)
		defer s.quit()
		s.err = s.listen(ctx)
	})
}

// settled waits until the server took the stream. One that never says so is
// taken at its word after a moment. The error is why it did not.
func (s *strand) settled(ctx context.Context) error {
	late := time.NewTimer(wishTime)
	defer late.Stop()
	select {
	case <-s.taken:
	case <-late.C:
	case <-ctx.Done():
	case <-s.over:
		return s.err
	}
	return nil
}

// heard reports whether the stream goes on.
func (s *strand) heard() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.over:
		return false
	default:
		return true
	}
}

// void reports whether the server granted nothing.
func (s *strand) void() bool {
	select {
	case <-s.taken:
		return s.nothing
	default:
		return false
	}
}

// silence ends the stream, if there is one.
func (s *strand) silence() *strand {
	if s != nil {
		s.quit()
	}
	return nil
}

// listen hears the stream to its end.
func (s *strand) listen(ctx context.Context) error {
	id := s.ids.Add(1)
	resp, err := s.subscribe(ctx, id) //nolint:bodyclose // follow closes it
	if err != nil {
		return err
	}
	var ended error
	err = s.follow(resp, func(m *message, method string) {
		switch {
		case m.answers(id):
			ended = errors.New("the server ended the subscription")
			if s.nothing || problemCode(m.problem) == codeMethod {
				ended = errDeaf
			}
			s.quit()
		case !ours(m, id):
		case method == "notifications/subscriptions/acknowledged":
			s.acknowledged(m)
		default:
			s.notice(m, method)
		}
	})
	if ended != nil {
		return ended
	}
	return err
}

func (s *strand) acknowledged(m *message) {
	select {
	case <-s.taken:
		return
	default:
	}
	s.nothing = grantsNothing(m)
	s.wishes.told(s.uris)
	close(s.taken)
}

// subscribe posts subscriptions/listen for all that the server offers.
func (s *strand) subscribe(ctx context.Context, id int64) (*http.Response, error) {
	wanted, err := json.Marshal(struct {
		Notifications any `json:"notifications"`
	}{struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources bool     `json:"resourcesListChanged,omitempty"`
		URIs      []string `json:"resourceSubscriptions,omitempty"`
	}{s.ses.lists.tools, s.ses.lists.prompts, s.ses.lists.resources, s.uris}})
	if err != nil {
		return nil, err
	}
	post, err := s.post(ctx, s.ses, &request{method: "subscriptions/listen", params: wanted}, id)
	if err != nil {
		return nil, err
	}
	return s.openStream(ctx, post, s.ses)
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
