package action

import (
	"context"
	"encoding/json"
)

// Platform is the id of the source that is the gateway itself: its tools have no
// prefix, and what they do happens here.
const Platform = "platform"

// Own is what distinguishes an action of [Platform] from all others.
type Own struct {
	// Types of session that may use it. Nil: every one.
	Types []SessionType
	// OfRun tells that it is for the sessions of an automation's runs alone.
	OfRun bool
	// Answered returns the reply to the same call if it was made before: nothing
	// is decided, counted or written then. Otherwise its error, an [*Error],
	// refuses what is not to be done, before it is decided: ErrConflict when the
	// id was another call's, ErrTooMany when the session's quota is used up. The
	// key is the call's of idempotency; empty: it has none.
	Answered func(ctx context.Context, s *Session, key string, params json.RawMessage) (*ToolReply, error)
}

// ToolCall is one call of a tool of [Platform].
type ToolCall struct {
	Organization string
	Session      string
	Tool         string
	// ID of the call, that its agent gave it: unique in the session and tool.
	// Empty: that which the invocation was called with, or else the invocation's.
	ID         string
	Invocation string
	ParamsHash string
	Quota      Rate // of the session's calls of the tool; zero: none
}

// ToolReply is what such a tool answers.
type ToolReply struct {
	Invocation string          // that it answered first
	Failed     bool            // the tool did not do it, and would not for a repeat
	Text       string          // for the agent
	Data       json.RawMessage // an object for programs; nil: none
}

// Result returns the reply as a result of tools/call.
func (r *ToolReply) Result() Result {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	body, err := json.Marshal(struct {
		Content    []content       `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError,omitempty"`
	}{[]content{{"text", r.Text}}, r.Data, r.Failed})
	if err != nil { // Data is none of JSON
		body = json.RawMessage(`{"content":[],"isError":true}`)
	}
	return Result{Body: body, IsError: r.Failed}
}
