package coord

import (
	"encoding/json"
	"slices"

	"sallyport/action"
)

// packet is one message between instances: a batch of hints in order, or a
// heartbeat, which only its sender reads.
type packet struct {
	From  string       `json:"f"`
	Beat  bool         `json:"b,omitempty"`
	Lost  bool         `json:"l,omitempty"` // hints before this packet were not sent
	Hints []packedHint `json:"h,omitempty"`
}

// packedHint is an [action.Hint] in a packet. Its keys are short because many
// approvals can arrive at once.
type packedHint struct {
	Kind         action.HintKind `json:"k"`
	Organization string          `json:"o,omitempty"`
	Session      string          `json:"s,omitempty"`
	Invocation   string          `json:"i,omitempty"`
	Run          string          `json:"r,omitempty"`
	Status       action.Status   `json:"t,omitempty"`
	Asking       bool            `json:"a,omitempty"`
	Resource     string          `json:"u,omitempty"`
	Source       string          `json:"c,omitempty"`
}

func pack(h action.Hint) packedHint { return packedHint(h) }

func (h packedHint) unpack() action.Hint { return action.Hint(h) }

// knownKind reports whether this version handles a kind of hint.
func knownKind(k action.HintKind) bool {
	switch k {
	case action.HintInvocation, action.HintCatalog, action.HintPolicy, action.HintSession, action.HintSignal, action.HintResource, action.HintRun, action.HintLogin, action.HintReload:
		return true
	}
	return false
}

func (p packet) encode() (string, error) {
	text, err := json.Marshal(p)
	return string(text), err
}

// decode reads a packet; ok is false for any other message. Hints of unknown kinds,
// which a newer instance may send, are dropped.
func decode(text string) (p packet, ok bool) {
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.From == "" {
		return packet{}, false
	}
	p.Hints = slices.DeleteFunc(p.Hints, func(h packedHint) bool { return !knownKind(h.Kind) })
	return p, true
}
