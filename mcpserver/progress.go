package mcpserver

import (
	"math"
	"strconv"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// progress tells a client that gave a token how its call fares: first how long
// it is held, then whatever its source reports.
type progress struct {
	token []byte // raw, as the client wrote it
	reply *reply

	mu      sync.Mutex
	told    float64 // the last value while held; zero: it never was
	shift   float64
	shifted bool
}

// held tells that the call waits for a person, or what came of the waiting. The
// values only count.
func (p *progress) held(inv *action.Invocation, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told++
	b := p.begin()
	b = strconv.AppendFloat(append(b, `,"progress":`...), p.told, 'f', -1, 64)
	b = jsonlex.Quote(append(b, `,"message":`...), heldText(inv, now))
	return p.reply.event(append(b, `}}`...))
}

// heldText says where a call stands that had to be approved.
func heldText(inv *action.Invocation, now time.Time) string {
	switch inv.Status {
	case action.StatusApproved:
		return nameOf(inv) + " was approved and is about to run"
	case action.StatusExecuting:
		return nameOf(inv) + " was approved and is being executed"
	}
	text := "Waiting for approval of " + nameOf(inv)
	if inv.ApprovalURL != "" {
		text += ": " + inv.ApprovalURL
	}
	if inv.ExpiresAt != nil {
		text += " (" + remaining(*inv.ExpiresAt, now) + " left)"
	}
	return text
}

// source passes a notification of the source on. Nothing of it changes but the
// token, unless hold progress was sent before: values must grow over the whole
// call, while the source's begin where it likes, often at zero. Then all of
// its values are moved up by the same amount, and its total with them, so that
// they grow as the source meant them to.
func (p *progress) source(params []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.begin()
	m := members{text: params}
	for m.next() {
		if string(m.key) == "progressToken" {
			continue
		}
		value := m.value
		if string(m.key) == "progress" || string(m.key) == "total" {
			value = p.moved(params, value)
		}
		b = jsonlex.Quote(append(b, ','), m.key)
		b = append(append(b, ':'), value...)
	}
	if m.err != nil {
		return nil // broken: not worth an answer
	}
	return p.reply.event(append(b, `}}`...))
}

// moved returns a raw value, moved up where hold progress came before it.
func (p *progress) moved(params, value []byte) []byte {
	if p.told == 0 || !isNumber(value) {
		return value
	}
	if !p.shifted {
		first, err := strconv.ParseFloat(string(member(params, "progress")), 64)
		if err != nil {
			return value
		}
		p.shift, p.shifted = p.told+1-math.Min(math.Floor(first), 0), true
	}
	v, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		return value
	}
	return strconv.AppendFloat(nil, v+p.shift, 'f', -1, 64)
}

func (p *progress) begin() []byte {
	b := make([]byte, 0, 256)
	b = append(b, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`...)
	return append(b, p.token...)
}
