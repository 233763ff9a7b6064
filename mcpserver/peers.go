package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/mcpserver/token"
)

// Peers connects the instances that share MCP sessions.
type Peers interface {
	// Post stores sig durably. Every instance gets it through [Server.Receive] within
	// about a second.
	Post(ctx context.Context, sig Signal) error
	// End records that a session ended, until its id expires.
	End(ctx context.Context, organization, session string, until time.Time) error
	// Ended reports whether a session ended.
	Ended(ctx context.Context, organization, session string) (bool, error)
}

// SignalKind is the subject of a signal.
type SignalKind string

// The kinds of signal.
const (
	SignalCancel SignalKind = "cancel" // a client canceled a call on another instance
	SignalEnd    SignalKind = "end"    // a client ended its session
	SignalLevel  SignalKind = "level"  // a client set its log level
	// Sent on a change of subscriptions: the event stream may be on another instance.
	SignalSubscribe   SignalKind = "subscribe"
	SignalUnsubscribe SignalKind = "unsubscribe"
)

// Signal is a message of one instance to all.
type Signal struct {
	Kind         SignalKind
	Organization string
	// Session is the hash of the MCP session's id. The id itself is a credential and
	// never leaves the process.
	Session string
	// Data depends on the kind: cancelData, subscriptionData or levelData.
	Data json.RawMessage
}

// cancelData is the Data of a SignalCancel.
type cancelData struct {
	ID      string `json:"id"` // see wire.IDKey
	Timeout bool   `json:"timeout,omitempty"`
}

const (
	// peerTimeout bounds one signal or query to peers.
	peerTimeout = 5 * time.Second
	// maxClockSkew is the largest expected difference between instances' clocks.
	maxClockSkew = 5 * time.Minute
	// maxSignalID is the longest request id in a signal. Clients use numbers or UUIDs.
	maxSignalID = 128
)

// Receive handles a signal of any instance, including this one. It does not block
// and is idempotent.
func (s *Server) Receive(sig Signal) {
	name, ok := token.ParseSessionHash(sig.Session)
	if !ok {
		return
	}
	known := s.sessions.find(name)
	if known != nil && known.view.key.organization != sig.Organization {
		return
	}
	if sig.Kind == SignalEnd {
		if old := s.sessions.end(name, s.ids.Expiry(s.cfg.Now()).Add(maxClockSkew)); old != nil {
			s.closeSession(old)
		}
		return
	}
	if known == nil {
		return
	}
	switch sig.Kind {
	case SignalCancel:
		var d cancelData
		if json.Unmarshal(sig.Data, &d) != nil {
			return
		}
		cause := action.ErrCancelled
		if d.Timeout {
			cause = action.ErrCallerGone
		}
		if c := known.inFlight(d.ID); c != nil {
			c.cancel(cause)
		}
	case SignalLevel:
		var d levelData
		if json.Unmarshal(sig.Data, &d) == nil && severity(d.Level) >= 0 {
			known.setLevel(d.Level)
		}
	case SignalSubscribe, SignalUnsubscribe:
		s.applyPeerSubscription(known, sig.Kind, sig.Data)
	}
}

// postCancel tells peers about a canceled call that is not in flight here.
func (s *Server) postCancel(x *exchange, id string, cause error) error {
	if s.cfg.Peers == nil || len(id) > maxSignalID || x.session.endedRecently(id) || !s.allow(x, SignalCancel) {
		return nil
	}
	data, err := json.Marshal(cancelData{ID: id, Timeout: errors.Is(cause, action.ErrCallerGone)})
	if err != nil { // a string and a bool always encode
		return err
	}
	// A client that cancels may disconnect before the response.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
	defer cancel()
	return s.cfg.Peers.Post(ctx, Signal{
		Kind: SignalCancel, Organization: x.who.Organization, Session: x.session.name.String(), Data: data,
	})
}

// endSession ends a session on every instance; above the rate limit of its
// principal, on this one only. On an error the session continues.
func (s *Server) endSession(x *exchange) error {
	until := x.session.ends.Add(maxClockSkew)
	if s.cfg.Peers == nil || !s.allow(x, SignalEnd) {
		s.endSessionHere(x.session, until)
		return nil
	}
	// The client may disconnect before the response.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.r.Context()), peerTimeout)
	defer cancel()
	organization, name := x.who.Organization, x.session.name.String()
	if err := s.cfg.Peers.End(ctx, organization, name, until); err != nil {
		return err
	}
	s.endSessionHere(x.session, until)
	if err := s.cfg.Peers.Post(ctx, Signal{Kind: SignalEnd, Organization: organization, Session: name}); err != nil {
		s.cfg.Log.Warn("other instances could not be notified that an MCP session ended; they remove it when it is idle", "error", err)
	}
	return nil
}

func (s *Server) endSessionHere(old *session, until time.Time) {
	if s.sessions.end(old.name, until) != nil {
		s.closeSession(old)
	}
}

// sessionEnded reports whether a client ended the session, on any instance.
func (s *Server) sessionEnded(x *exchange, name token.SessionHash) (bool, error) {
	if s.sessions.hasEnded(name) {
		return true, nil
	}
	if s.cfg.Peers == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), peerTimeout)
	defer cancel()
	return s.cfg.Peers.Ended(ctx, x.who.Organization, name.String())
}

const (
	// maxPerWindow is how many signals of one kind a principal may have stored per
	// minute and instance: cancellations and replies need no call of the Gate, which
	// would count them.
	maxPerWindow     = 120
	rateWindowLength = time.Minute
)

// rateLimiter counts signals and replies by principal. MCP sessions are not counted
// separately because opening one costs nothing.
type rateLimiter struct {
	mu      sync.Mutex
	windows map[rateKey]rateWindow
}

type rateKey struct {
	principal string
	kind      SignalKind // kindReply for replies
}

type rateWindow struct {
	since time.Time // start of the window
	count int
}

func (a rateWindow) expired(now time.Time) bool { return now.Sub(a.since) >= rateWindowLength }

// allow counts an event and reports whether it is within the limit; first is true
// for the first one above the limit, which is logged.
func (a *rateLimiter) allow(k rateKey, now time.Time) (ok, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one, known := a.windows[k]
	if !known || one.expired(now) {
		one = rateWindow{since: now}
	}
	one.count++
	a.windows[k] = one
	return one.count <= maxPerWindow, one.count == maxPerWindow+1
}

// expire drops ended windows.
func (a *rateLimiter) expire(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, one := range a.windows {
		if one.expired(now) {
			delete(a.windows, k)
		}
	}
}

// kindReply is the rate limit's kind for replies to questions.
const kindReply SignalKind = "reply"

// allow counts a signal or a reply and reports whether it is within the limit.
func (s *Server) allow(x *exchange, kind SignalKind) bool {
	ok, first := s.limits.allow(rateKey{x.who.ID, kind}, s.cfg.Now())
	if first {
		s.cfg.Log.Warn("a session exceeds a rate limit: for the rest of the minute its replies are refused, or its signals are not sent to other instances", "session", x.who.ID, "kind", kind)
	}
	return ok
}
