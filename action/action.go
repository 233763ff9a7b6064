// Package action has the types of outbound work: actions, calls, sessions,
// decisions, invocations, grants, errors, and their validation. Package gate
// runs calls.
//
// It imports only the standard library.
package action

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// About describes a source to agents. It is shared between actions and must
// not be modified.
type About struct {
	Title string // name of the service; may be empty
	Text  string // one sentence; may be empty
	Guide string // Markdown to read before the first call; may be empty
	// Untrusted reports that Text and Guide come from a remote server.
	Untrusted bool
}

// Example is a sample call of an action.
type Example struct {
	Note   string
	Params json.RawMessage // valid for the action's schema
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

// Mode is the result of a policy decision.
type Mode string

// The modes.
const (
	ModeAllow           Mode = "allow"
	ModeDeny            Mode = "deny"
	ModeRequireApproval Mode = "require_approval"
)

// Valid reports whether m is one of the three modes.
func (m Mode) Valid() bool { return m == ModeAllow || m == ModeDeny || m == ModeRequireApproval }

// Action is one operation of a source, compiled by the catalog. It is shared
// between callers and must not be modified.
type Action struct {
	Source       string          // source id: "linear" or "connector:<uuid>"
	SourceName   string          // display name of the source
	Name         string          // the action's name at its source
	Tool         string          // name for agents; unique in the organization; empty: not a tool
	Title        string          // the source's own title; may be empty
	Description  string          // from the source; untrusted
	Risk         Risk            // after overrides and annotations
	Definition   json.RawMessage // definition from the source, with Tool as its name
	InputSchema  json.RawMessage // JSON Schema of the params
	OutputSchema json.RawMessage // JSON Schema of structured results; nil when there is none
	Hash         string          // identifies the version that approvals, grants and reviews apply to: the behaviour hash, and the text hash where the review rule counts texts
	Hashes       ToolHashes      // of a connector's tool
	Review       ReviewRule      // of a connector's tool; empty: the action is the gateway's own code
	Revision     string          // changes when the source's configuration changes
	Timeout      time.Duration   // of one execution; zero: the Gate's default
	MayAsk       []AskKind       // questions that its source may ask callers
	// Provider is the ID of the action's module; the session must have an
	// integration of it. Empty: the action belongs to no module.
	Provider string
	// Production says why a call needs level production whatever the action's
	// risk, as "'live' is a production branch"; see [Action.InProduction].
	// Empty: the risk decides.
	Production string
	// Danger says why a call with some params is destructive although the action is
	// not, as "it overwrites refs/heads/main". No mode or grant allows such a call
	// without approval. Empty: the risk decides.
	Danger string
	// Allowed says why a call with some params is allowed if no mode says
	// otherwise. Empty: the risk decides.
	Allowed string
	// NoGrant says why no grant covers a call with some params. Empty: grants may.
	NoGrant string
	// PinPatterns are params, as JSON Pointers, that grants can pin to a pattern
	// with *: their values never contain one.
	PinPatterns []string
	// OneConnection reports that the params cannot identify one of several
	// integrations, so the session must have exactly one.
	OneConnection bool
	About         *About    // of its source, for guides; nil: none
	Examples      []Example // for guides; the best first

	// Platform is set for actions of the source [Platform], and nil for
	// others.
	Platform *PlatformTool

	// Summarize describes a call with the params in one line, redacted. Nil:
	// the params are shown instead.
	Summarize func(params json.RawMessage) string
	// Check validates params against InputSchema. It returns an [*Error] of
	// kind ErrInvalid that names the offending field.
	Check func(params json.RawMessage) error
	// Bind returns the integration that a call with the params would use, so
	// that a person approves that one only. It returns an [*Error] for calls
	// that cannot run, of kind ErrForbidden if the settings of the integration
	// forbid the call. Nil: the action has no integration.
	Bind func(ctx context.Context, s *Session, params json.RawMessage) (Binding, error)
	// Run executes the action. See [Run].
	Run Run
	// Here reports whether this instance can execute an approved call whose caller
	// left. Nil: every instance can.
	Here func(inv *Invocation) bool

	// Complete answers completion/complete for the action's arguments, with
	// the params and result of MCP unchanged. Nil: not supported.
	Complete func(ctx context.Context, params json.RawMessage) (Result, error)
	// Subscribe starts or ends notifications about a resource, by its name at
	// the source. Each call with on needs one without. Nil: not supported.
	Subscribe func(ctx context.Context, uri string, on bool) error
}

// Binding is the integration that a call uses.
type Binding struct {
	Integration string // its id
	Revision    string // changes when the call would have another target
	// Production says why the params change production, as in
	// [Action.Production]; empty: they do not.
	Production string
	// Danger, Allowed and NoGrant are those of the action for the params.
	Danger, Allowed, NoGrant string
}

// InProduction returns the action as policy decides it for params that change
// production: with the highest risk, and only in sessions of a group with level
// production.
func (a *Action) InProduction(why string) *Action {
	raised := *a
	raised.Risk, raised.Production = RiskDanger, why
	return &raised
}

// For returns the action as policy decides it for params with the binding.
func (a *Action) For(b Binding) *Action {
	if b.Production == "" && b.Danger == "" && b.Allowed == "" && b.NoGrant == "" {
		return a
	}
	changed := *a
	if b.Danger != "" {
		changed.Risk = RiskDanger
	}
	if b.Production != "" {
		changed = *a.InProduction(b.Production)
	}
	changed.Danger, changed.Allowed, changed.NoGrant = b.Danger, b.Allowed, b.NoGrant
	return &changed
}

// Bound returns the revision of a call with the binding.
func (a *Action) Bound(b Binding) string { return a.Revision + "/" + b.Revision }

// Key returns the action's policy key.
func (a *Action) Key() Key { return Key{Source: a.Source, Action: a.Name} }

// Run executes an action with canonical params and returns the response of
// the source. The caller is never nil; it receives progress, logs and
// questions.
//
// Every response of the source, success or failure, is a [Result] without an
// error. An error wraps ErrOutcomeUnknown if the source may have received the
// request, and ErrUnavailable if it certainly did not. It is an [*Error] if
// its message may be shown.
type Run func(ctx context.Context, params json.RawMessage, caller Caller) (Result, error)

// Result is the response of a source.
type Result struct {
	// Body is the MCP result object (of tools/call for a tool), byte for byte
	// as the source sent it, except for the injected credential. Nil if
	// Problem is set.
	Body json.RawMessage
	// Problem is the JSON-RPC error object of the source, if it returned one.
	Problem json.RawMessage
	// IsError is isError of Body.
	IsError bool
	// Fault is the code of the cause of an error result, if the gateway knows
	// it; empty: only Body tells.
	Fault string
	// Integration is the ID of the integration that a module used; empty:
	// none.
	Integration string
	// Secrets are the credentials used, to redact them from stored data. They
	// are never stored.
	Secrets []string
}

// Key is a policy key: `source:action`. Action may be "*" for all actions of
// the source. "*:*", written "*", covers everything.
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

// Level limits the actions of a group's sessions at a provider by their risk.
type Level int

// The levels, each of which includes those before it.
const (
	LevelNone       Level = iota // nothing
	LevelRead                    // reads
	LevelWrite                   // and writes
	LevelProduction              // and dangerous actions, after the required gate is approved
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

// Level returns the level that an action of this risk needs. An unknown risk
// needs the highest.
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
