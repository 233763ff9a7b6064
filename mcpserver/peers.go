package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"sallyport/action"
)

// Peers is how instances tell one another about MCP sessions.
type Peers interface {
	// Post makes sig durable; every instance is given it by [Server.Receive],
	// within about a second.
	Post(ctx context.Context, sig Signal) error
	// End notes that a session ended, until its id would have expired anyway.
	End(ctx context.Context, organization, session string, until time.Time) error
	// Ended reports whether it did.
	Ended(ctx context.Context, organization, session string) (bool, error)
}

// SignalKind is what a signal says.
type SignalKind string

// The kinds of signal.
const (
	SignalCancel SignalKind = "cancel" // a client cancelled a call that is in flight elsewhere
	SignalEnd    SignalKind = "end"    // a client ended its session
	// A client subscribed to a resource, or does no more. Its event stream may
	// be elsewhere.
	SignalLevel       SignalKind = "level" // a client said which log messages it wants
	SignalSubscribe   SignalKind = "subscribe"
	SignalUnsubscribe SignalKind = "unsubscribe"
)

// Signal is a word of one instance to all.
type Signal struct {
	Kind         SignalKind
	Organization string
	// Session is the hash of the MCP session's id; the id itself is a
	// credential and leaves the process nowhere.
	Session string
	// Data of a cancel: which call, and whether its client only gave up
	// waiting. Of a subscription: which resource.
	Data json.RawMessage
}

// cancelData is the Data of a SignalCancel.
type cancelData struct {
	ID      string `json:"id"` // see idKey
	Timeout bool   `json:"timeout,omitempty"`
}

const (
	// peerWithin bounds one word to the peers.
	peerWithin = 5 * time.Second
	// skew is how far the clocks of two instances may be apart.
	skew = 5 * time.Minute
	// maxPostedID is the longest request id that is told to peers. Clients
	// count, or take a UUID.
	maxPostedID = 128
)

// Receive takes a signal that some instance posted, this one included. It does
// not block, and one that comes twice does nothing.
func (s *Server) Receive(sig Signal) {
	name, ok := parseSessionName(sig.Session)
	if !ok {
		return
	}
	known := s.sessions.find(name)
	if known != nil && known.view.key.organization != sig.Organization {
		return
	}
	switch sig.Kind {
	case SignalCancel:
		if known != nil {
			known.cancelled(sig.Data)
		}
	case SignalLevel:
		if known != nil {
			known.levelElsewhere(sig.Data)
		}
	case SignalSubscribe, SignalUnsubscribe:
		if known != nil {
			s.subscribedElsewhere(known, sig.Kind, sig.Data)
		}
	case SignalEnd:
		if old := s.sessions.finish(name, s.ids.end(s.cfg.Now()).Add(skew)); old != nil {
			s.end(old)
		}
	}
}

// cancelled cancels the call that a signal names, if it is in flight here.
func (s *session) cancelled(data json.RawMessage) {
	var d cancelData
	if json.Unmarshal(data, &d) != nil {
		return
	}
	c := s.inFlight(d.ID)
	switch {
	case c == nil:
	case d.Timeout:
		c.cancel(action.ErrCallerGone)
	default:
		c.cancel(action.ErrCancelled)
	}
}

// postCancel tells the other instances of a cancellation of a call that is not
// in flight here, if it may be in flight there.
func (s *Server) postCancel(x *exchange, id string, cause error) error {
	if s.cfg.Peers == nil || len(id) > maxPostedID || x.mcp.endedLately(id) || !s.mayPost(x, SignalCancel) {
		return nil
	}
	data, err := json.Marshal(cancelData{ID: id, Timeout: errors.Is(cause, action.ErrCallerGone)})
	if err != nil { // a string and a bool always encode
		return err
	}
	// A client that cancels may well not wait for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerWithin)
	defer cancel()
	return s.cfg.Peers.Post(ctx, Signal{
		Kind: SignalCancel, Organization: x.who.Organization, Session: x.mcp.name.String(), Data: data,
	})
}

// finishSession ends a session on every instance; beyond what its principal may
// have told to peers, on this one. When it returns an error, the session goes
// on.
func (s *Server) finishSession(x *exchange) error {
	until := x.mcp.ends.Add(skew)
	if s.cfg.Peers == nil || !s.mayPost(x, SignalEnd) {
		s.dropSession(x.mcp, until)
		return nil
	}
	// Nor may one that says goodbye.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerWithin)
	defer cancel()
	organization, name := x.who.Organization, x.mcp.name.String()
	if err := s.cfg.Peers.End(ctx, organization, name, until); err != nil {
		return err
	}
	s.dropSession(x.mcp, until)
	if err := s.cfg.Peers.Post(ctx, Signal{Kind: SignalEnd, Organization: organization, Session: name}); err != nil {
		s.cfg.Log.Warn("telling other instances that an MCP session ended; they forget it when it rests", "error", err)
	}
	return nil
}

func (s *Server) dropSession(old *session, until time.Time) {
	if s.sessions.finish(old.name, until) != nil {
		s.end(old)
	}
}

// hasEnded reports whether a client ended the session, here or elsewhere.
func (s *Server) hasEnded(x *exchange, name sessionName) (bool, error) {
	if s.sessions.hasEnded(name) {
		return true, nil
	}
	if s.cfg.Peers == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), peerWithin)
	defer cancel()
	return s.cfg.Peers.Ended(ctx, x.who.Organization, name.String())
}
