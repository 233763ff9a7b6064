package mcpserver

import (
	"encoding/json"
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

// progress tells a client that gave a token how its call fares: first how long
// it is held, then whatever its source reports.
type progress struct {
	token []byte // raw, as the client wrote it
	reply *wire.Writer

	mu        sync.Mutex
	lastValue float64 // the last value while held; zero: it never was
	offset    float64
	hasOffset bool
}

// reportHeld tells that the call waits for a person, or what came of the waiting. The
// values only count.
func (p *progress) reportHeld(inv *action.Invocation, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastValue++
	b := p.begin()
	b = strconv.AppendFloat(append(b, `,"progress":`...), p.lastValue, 'f', -1, 64)
	b = jsonlex.Quote(append(b, `,"message":`...), statusText(inv, now))
	return p.reply.Event(append(b, `}}`...))
}

// statusText says where a call stands that had to be approved.
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

// forward passes a notification of the source on. Nothing of it changes but the
// token, unless hold progress was sent before: values must grow over the whole
// call, while the source's begin where it likes, often at zero. Then all of
// its values are moved up by the same amount, and its total with them, so that
// they grow as the source meant them to.
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
		return nil // broken: not worth an answer
	}
	return p.reply.Event(append(b, `}}`...))
}

// addOffset returns a raw value, moved up where hold progress came before it.
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

// severity orders the levels of log messages, the least severe first; -1 is for
// a name that is none.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// defaultPeerLevel is taken for the level of a session whose client may have
// said one to another instance, and not to this one.
const defaultPeerLevel = "info"

// setLevel answers logging/setLevel of the older era. The level is remembered
// with the MCP session, and told to the instances that know it.
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
	if s.cfg.Peers != nil && s.allowSignal(x, SignalLevel) {
		s.postSignal(x, SignalLevel, levelData{Level: level})
	}
	x.send(wire.Response{Result: []byte("{}")})
}

// levelOf reads a level; empty when there is none.
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

// setLevelFromPeer takes a level that the client said to another instance.
func (s *session) setLevelFromPeer(data json.RawMessage) {
	var d levelData
	if json.Unmarshal(data, &d) == nil && severity(d.Level) >= 0 {
		s.setLevel(d.Level)
	}
}

func (s *session) logLevel() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.level
}

// logLevel returns the level of log messages that the caller wants, and whether
// it wants any. A client of the older era that said nothing gets what comes;
// one of the stateless era has to ask for them with every request.
func (s *Server) logLevel(x *exchange, p *params) (level string, wanted bool, bad *wire.Error) {
	if !x.stateless {
		if level = x.session.logLevel(); level == "" && s.cfg.Peers != nil {
			level = defaultPeerLevel
		}
		return level, true, nil
	}
	const key = mcp.MetaKeyLogLevel //nolint:staticcheck // deprecated, and in use
	level, bad = levelOf(wire.Member(p.meta, key), "_meta "+key)
	return level, level != "", bad
}

// forwardLog sends a log message of the source on, if the caller wants it.
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
