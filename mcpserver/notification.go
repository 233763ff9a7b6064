package mcpserver

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/mcpserver/wire"
)

// progress sends progress notifications: first while the call is pending, then those
// of its source.
type progress struct {
	token []byte // raw
	reply *wire.Writer

	mu        sync.Mutex
	lastValue float64 // the last value while pending; zero: the call was never pending
	offset    float64
	hasOffset bool
}

// reportHeld reports that the call is pending, or what was decided. The values are a
// counter.
func (p *progress) reportHeld(inv *action.Invocation, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastValue++
	b := p.begin()
	b = strconv.AppendFloat(append(b, `,"progress":`...), p.lastValue, 'f', -1, 64)
	b = jsonlex.Quote(append(b, `,"message":`...), statusText(inv, now))
	return p.reply.Event(append(b, `}}`...))
}

// statusText describes the state of a call that needs approval.
func statusText(inv *action.Invocation, now time.Time) string {
	switch inv.Status {
	case action.StatusApproved:
		return callName(inv) + " was approved and is about to run"
	case action.StatusExecuting:
		return callName(inv) + " was approved and is being executed"
	}
	text := "Waiting for approval of " + callName(inv)
	if inv.ApprovalURL != "" {
		text += ": " + inv.ApprovalURL
	}
	if inv.ExpiresAt != nil {
		text += " (" + remaining(*inv.ExpiresAt, now) + " left)"
	}
	return text
}

// forward passes on a notification of the source with the client's token. If
// progress was sent while the call was pending, the source's values are increased by
// a constant, because values must grow over the whole call and sources often start
// at zero.
func (p *progress) forward(params []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.begin()
	m := wire.Members{Text: params}
	for m.Next() {
		if string(m.Key) == "progressToken" {
			continue
		}
		value := m.Value
		if string(m.Key) == "progress" || string(m.Key) == "total" {
			value = p.addOffset(params, value)
		}
		b = jsonlex.Quote(append(b, ','), m.Key)
		b = append(append(b, ':'), value...)
	}
	if m.Err != nil {
		return nil // malformed: dropped
	}
	return p.reply.Event(append(b, `}}`...))
}

// addOffset adds the offset to a raw value if progress was sent while the call was
// pending.
func (p *progress) addOffset(params, value []byte) []byte {
	if p.lastValue == 0 || !wire.IsNumber(value) {
		return value
	}
	if !p.hasOffset {
		first, err := strconv.ParseFloat(string(wire.Member(params, "progress")), 64)
		if err != nil {
			return value
		}
		p.offset, p.hasOffset = p.lastValue+1-math.Min(math.Floor(first), 0), true
	}
	v, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return value
	}
	return strconv.AppendFloat(nil, v+p.offset, 'f', -1, 64)
}

func (p *progress) begin() []byte {
	b := make([]byte, 0, 256)
	b = append(b, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`...)
	return append(b, p.token...)
}

// severity orders the log levels, the least severe first; -1 for an unknown name.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// defaultPeerLevel is the level of a session whose client may have set one on another
// instance only.
const defaultPeerLevel = "info"

// setLevel answers logging/setLevel. The level is kept with the MCP session and sent
// to peers.
func (s *Server) setLevel(x *exchange, p *params) {
	level, bad := levelOf(p.level, "level")
	if bad == nil && level == "" {
		bad = badLevel("level")
	}
	if bad != nil {
		x.sendError(bad)
		return
	}
	x.session.setLevel(level)
	if s.cfg.Peers != nil && s.allow(x, SignalLevel) {
		s.postSignal(x, SignalLevel, levelData{Level: level})
	}
	s.sendEmpty(x)
}

// levelOf parses a log level; empty if it is absent.
func levelOf(raw []byte, field string) (string, *wire.Error) {
	switch {
	case raw == nil:
		return "", nil
	case !wire.IsString(raw) || severity(wire.DecodeString(raw)) < 0:
		return "", badLevel(field)
	}
	return wire.DecodeString(raw), nil
}

func badLevel(field string) *wire.Error {
	return wire.InvalidParams("%s must be one of debug, info, notice, warning, error, critical, alert and emergency.", field)
}

func (s *session) setLevel(level string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level = level
}

// levelData is the Data of a SignalLevel.
type levelData struct {
	Level string `json:"level"`
}

// logLevel returns the log level that the client wants and whether it wants log
// messages. With a session, the default is to send all; stateless clients ask with
// every request.
func (s *Server) logLevel(x *exchange, p *params) (level string, wanted bool, bad *wire.Error) {
	if !x.stateless {
		x.session.mu.Lock()
		level = x.session.level
		x.session.mu.Unlock()
		if level == "" && s.cfg.Peers != nil {
			level = defaultPeerLevel
		}
		return level, true, nil
	}
	const key = mcp.MetaKeyLogLevel //nolint:staticcheck // deprecated, and in use
	level, bad = levelOf(wire.Member(p.meta, key), "_meta "+key)
	return level, level != "", bad
}

// forwardLog passes on a log message of the source if the client wants its level.
func (c *caller) forwardLog(params []byte) {
	level := wire.Member(params, "level")
	if c.logLevel != "" && wire.IsString(level) {
		if n := severity(wire.DecodeString(level)); n >= 0 && n < severity(c.logLevel) {
			return
		}
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":`), params...)
	c.onWriteError(c.reply.Event(append(b, '}')))
}
