package mcpserver

import (
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// severity orders the levels of log messages, the least severe first; -1 is for
// a name that is none.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// levelElsewhereUnknown is taken for the level of a session whose client may have
// said one to another instance, and not to this one.
const levelElsewhereUnknown = "info"

// setLevel answers logging/setLevel of the older era. The level is remembered
// with the MCP session, and told to the instances that know it.
func (s *Server) setLevel(x *exchange, p *params) {
	level, bad := levelOf(p.level, "level")
	if bad == nil && level == "" {
		bad = badLevel("level")
	}
	if bad != nil {
		x.fail(bad)
		return
	}
	x.mcp.setLevel(level)
	if s.cfg.Peers != nil && s.mayPost(x, SignalLevel) {
		s.tellPeers(x, SignalLevel, levelData{Level: level})
	}
	x.refuse(message{result: []byte("{}")})
}

// levelOf reads a level; empty when there is none.
func levelOf(raw []byte, field string) (string, *problem) {
	switch {
	case raw == nil:
		return "", nil
	case !isString(raw) || severity(decodeString(raw)) < 0:
		return "", badLevel(field)
	}
	return decodeString(raw), nil
}

func badLevel(field string) *problem {
	return invalidParams("%s must be one of debug, info, notice, warning, error, critical, alert and emergency.", field)
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

// levelElsewhere takes a level that the client said to another instance.
func (s *session) levelElsewhere(data json.RawMessage) {
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
func (s *Server) logLevel(x *exchange, p *params) (level string, wanted bool, bad *problem) {
	if !x.modern {
		if level = x.mcp.logLevel(); level == "" && s.cfg.Peers != nil {
			level = levelElsewhereUnknown
		}
		return level, true, nil
	}
	const key = mcp.MetaKeyLogLevel //nolint:staticcheck // deprecated, and in use
	level, bad = levelOf(member(p.meta, key), "_meta "+key)
	return level, level != "", bad
}

// logged sends a log message of the source on, if the caller wants it.
func (c *caller) logged(params []byte) {
	level := member(params, "level")
	if c.level != "" && isString(level) {
		if n := severity(decodeString(level)); n >= 0 && n < severity(c.level) {
			return
		}
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":`), params...)
	c.heard(c.reply.event(append(b, '}')))
}
