package action

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// About is what a source says of itself to agents. It is shared between its
// actions: treat it as read-only.
type About struct {
	Title string // of the service; may be empty
	Text  string // one sentence; may be empty
	Guide string // what to know before the first call; Markdown; may be empty
	// Untrusted tells that Text and Guide are a server's own words, and no ones of
	// the gateway.
	Untrusted bool
}

// Example is a call of an action that makes sense.
type Example struct {
	Note   string
	Params json.RawMessage // they fit the action's schema
}

// Risk is what an action may do at its service.
type Risk string

// The risks, mildest first.
const (
	RiskRead   Risk = "read"
	RiskWrite  Risk = "write"
	RiskDanger Risk = "danger"
)

// Valid reports whether r is one of the three risks.
func (r Risk) Valid() bool { return r == RiskRead || r == RiskWrite || r == RiskDanger }

// Mode is what policy says of an invocation.
type Mode string

// The modes.
const (
	ModeAllow           Mode = "allow"
	ModeDeny            Mode = "deny"
	ModeRequireApproval Mode = "require_approval"
)

// Valid reports whether m is one of the three modes.
func (m Mode) Valid() bool { return m == ModeAllow || m == ModeDeny || m == ModeRequireApproval }

// Action is one operation of a source, as the catalog compiled it. It is
// shared between callers: treat it as read-only.
type Action struct {
	Source       string          // source id: "linear" or "connector:<uuid>"
	SourceName   string          // what people call the source
	Name         string          // the action's name at its source
	Tool         string          // the name agents see; unique in the organization; empty: it is no tool
	Title        string          // the source's own title; may be empty
	Description  string          // the source's own text; foreign, untrusted
	Risk         Risk            // after overrides and annotations
	Definition   json.RawMessage // the tool as its source listed it, with the name replaced by Tool
	InputSchema  json.RawMessage // JSON Schema of the params
	OutputSchema json.RawMessage // JSON Schema of structured results; nil when there is none
	Hash         string          // what approvals, grants and reviews are for: the behaviour's hash, with the text's where that counts
	Hashes       ToolHashes      // of a connector's tool
	Review       ReviewRule      // of a connector's tool; empty: the action is the gateway's own code
	Revision     string          // changes when the source's configuration changes
	Timeout      time.Duration   // of one execution; zero: the Gate's default
	MayAsk       []AskKind       // what its source may ask of callers
	// Provider is the module whose action it is: a session must be bound to an
	// integration of it. Empty: the action is no module's.
	Provider string
	// OneConnection tells that the module cannot tell by the params which of
	// several integrations is meant: a session must be bound to just one.
	OneConnection bool
	About         *About    // of its source, for guides; nil: it says nothing
	Examples      []Example // for guides; the best first

	// Platform is set of an action of [Platform], and of no other.
	Platform *PlatformTool

	// Summarize says in a line what a call with the params would do. Nil: the
	// params themselves are shown. Its answer is redacted.
	Summarize func(params json.RawMessage) string
	// Check tells whether params fit InputSchema. Its error is an [*Error] of
	// kind ErrInvalid that names the offending field.
	Check func(params json.RawMessage) error
	// Bind says for which of a session's integrations a call with the params would
	// run, so that a person approves that one and no other, and refuses what
	// could not run in any case: then its error is an [*Error]. Nil: the action
	// has no integration.
	Bind func(ctx context.Context, s *Session, params json.RawMessage) (Binding, error)
	// Run executes the action. See [Run].
	Run Run

	// Complete answers completion/complete about the action's arguments: its
	// params and its answer are those of MCP, unchanged. Nil: it is not
	// offered.
	Complete func(ctx context.Context, params json.RawMessage) (Result, error)
	// Subscribe has the source tell of changes of one resource, by its name at
	// the source, or no more. As many calls with on as without end it. Nil: it
	// is not offered.
	Subscribe func(ctx context.Context, uri string, on bool) error
}

// Binding is the integration that a call is for.
type Binding struct {
	Integration string // its id
	Revision    string // changes when the call would go elsewhere
}

// Bound is the revision of what a call with the binding would do.
func (a *Action) Bound(b Binding) string { return a.Revision + "/" + b.Revision }

// Key returns the action's policy key.
func (a *Action) Key() Key { return Key{Source: a.Source, Action: a.Name} }

// Run executes an action with canonical params and returns what the source
// answered. The caller, never nil, is told and asked what the source says
// meanwhile.
//
// An answer of the source, good or bad, is a [Result] and no error. An error
// wraps ErrOutcomeUnknown when the source may have received the request, and
// ErrUnavailable when it certainly has not; it is an [*Error] when its message
// may be shown.
type Run func(ctx context.Context, params json.RawMessage, caller Caller) (Result, error)

// Result is what a source answered.
type Result struct {
	// Body is the result object of MCP (of tools/call for a tool), byte for
	// byte as the source sent it, but for the injected credential. Nil when
	// Problem is set.
	Body json.RawMessage
	// Problem is the source's JSON-RPC error object, when it answered so.
	Problem json.RawMessage
	// IsError tells that Body says so of itself.
	IsError bool
	// Integration is the id of that for which a module ran; empty: none.
	Integration string
	// Secrets are the credentials that were used, so that what is kept can be
	// cleaned of them. Never stored.
	Secrets []string
}

// Key names an action, or several, in policy: `source:action`. Either part
// may be "*", an action of any source only as "*:*", written "*".
type Key struct {
	Source string `bun:"source_id,pk"`
	Action string `bun:"action,pk"`
}

// ParseKey splits s at its last colon. "*" alone means everything.
func ParseKey(s string) (Key, error) {
	if s == "*" {
		return Key{"*", "*"}, nil
	}
	i := strings.LastIndexByte(s, ':')
	if i <= 0 || i == len(s)-1 {
		return Key{}, Errorf(ErrInvalid, "invalid_key", "A policy key is source:action, source:* or *; for example linear:create_issue.").WithField("/key")
	}
	k := Key{Source: s[:i], Action: s[i+1:]}
	if strings.Contains(k.Source, "*") || (k.Action != "*" && strings.Contains(k.Action, "*")) {
		return Key{}, Errorf(ErrInvalid, "invalid_key", "A * stands only for the whole action (source:*) or alone for everything.").WithField("/key")
	}
	return k, nil
}

func (k Key) String() string {
	if k.Source == "*" && k.Action == "*" {
		return "*"
	}
	return k.Source + ":" + k.Action
}

// Level is how far the sessions of a group may go at a provider. The levels
// are those of an action's risk.
type Level int

// The levels, each of which includes those before it.
const (
	LevelNone       Level = iota // nothing
	LevelRead                    // actions that only read
	LevelWrite                   // and those that write
	LevelProduction              // and dangerous ones, each behind the required gate
)

// Valid reports whether l is one of the four levels.
func (l Level) Valid() bool { return LevelNone <= l && l <= LevelProduction }

// String returns the level's name.
func (l Level) String() string {
	switch l {
	case LevelNone:
		return "none"
	case LevelRead:
		return "read"
	case LevelWrite:
		return "write"
	case LevelProduction:
		return "production"
	}
	return "unknown"
}

// Level returns the level that an action of this risk needs. A risk that
// nobody knows needs the highest.
func (r Risk) Level() Level {
	switch r {
	case RiskRead:
		return LevelRead
	case RiskWrite:
		return LevelWrite
	case RiskDanger:
	}
	return LevelProduction
}
