package coord

import (
	"encoding/json"
	"slices"

	"sallyport/action"
)

// packet is one message between instances: many hints in their order, or a
// heartbeat, which only its sender heeds.
type packet struct {
	From  string       `json:"f"`
	Beat  bool         `json:"b,omitempty"`
	Lost  bool         `json:"l,omitempty"` // hints before this packet were not sent
	Hints []packedHint `json:"h,omitempty"`
}

// packedHint is an [action.Hint] on its way. Its keys are short because
// approvals come in crowds.
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

// known tells whether this version knows what a kind means.
func known(k action.HintKind) bool {
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

// decode reads a packet; ok is false when it is none of ours. Hints of a kind
// that is not known here, as a newer instance may send, are left out.
func decode(text string) (p packet, ok bool) {
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.From == "" {
		return packet{}, false
	}
	p.Hints = slices.DeleteFunc(p.Hints, func(h packedHint) bool { return !known(h.Kind) })
	return p, true
}
