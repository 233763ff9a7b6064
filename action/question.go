package action

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// AskKind is a kind of question from a source to the caller of a running
// call.
type AskKind string

// The kinds of question, as connectors allow them.
const (
	AskElicitation AskKind = "elicitation"     // a form that the client shows
	AskURL         AskKind = "url_elicitation" // a link that the client opens
	AskSampling    AskKind = "sampling"        // a completion by the client's model
	AskRoots       AskKind = "roots"           // the folders that the client works in
)

// AskKinds returns all kinds of question.
func AskKinds() []AskKind { return []AskKind{AskElicitation, AskURL, AskSampling, AskRoots} }

// Valid reports whether k is one of the kinds.
func (k AskKind) Valid() bool { return slices.Contains(AskKinds(), k) }

// ClientFeatures is the set of requests that an MCP client supports.
type ClientFeatures uint16

// The features, as clients declare them.
const (
	ClientElicitsForm    ClientFeatures = 1 << iota // elicitation.form, or elicitation alone
	ClientElicitsURL                                // elicitation.url
	ClientSamples                                   // sampling
	ClientSamplesTools                              // sampling.tools
	ClientSamplesContext                            // sampling.context
	ClientListsRoots                                // roots
)

// Has reports whether all of the other features are in f.
func (f ClientFeatures) Has(other ClientFeatures) bool { return f&other == other }

// AskFeatures returns the features that questions of these kinds may use.
func AskFeatures(kinds []AskKind) (f ClientFeatures) {
	for _, k := range kinds {
		switch k {
		case AskElicitation:
			f |= ClientElicitsForm
		case AskURL:
			f |= ClientElicitsURL
		case AskSampling:
			f |= ClientSamples | ClientSamplesTools | ClientSamplesContext
		case AskRoots:
			f |= ClientListsRoots
		}
	}
	return f
}

// Question is a request of a source to its caller.
type Question struct {
	Key    string          `json:"key"`    // unique in its round
	Method string          `json:"method"` // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage `json:"params"` // as sent by the source, except for the injected credential; nil: none
}

// Needs returns the kind of the question and the features that a client needs
// for it. ok is false for unknown methods, and for params that parsers may
// read differently, such as Mode for mode.
func (q *Question) Needs() (kind AskKind, f ClientFeatures, ok bool) {
	if q.Method == "roots/list" {
		return AskRoots, ClientListsRoots, true
	}
	p, ok := exactMembers(q.Params, "mode", "url", "tools", "includeContext", "requestedSchema", "message")
	if !ok {
		return "", 0, false
	}
	switch q.Method {
	case "elicitation/create":
		return elicitationKind(p["mode"])
	case "sampling/createMessage":
		f = ClientSamples
		var tools []json.RawMessage
		if json.Unmarshal(p["tools"], &tools) != nil && p["tools"] != nil || len(tools) > 0 {
			f |= ClientSamplesTools
		}
		return AskSampling, f, true
	}
	return "", 0, false
}

func elicitationKind(mode json.RawMessage) (AskKind, ClientFeatures, bool) {
	form := "form"
	if mode != nil && (json.Unmarshal(mode, &form) != nil || string(mode) == "null") {
		return "", 0, false
	}
	switch form {
	case "url":
		return AskURL, ClientElicitsURL, true
	case "form":
		return AskElicitation, ClientElicitsForm, true
	}
	return "", 0, false
}

// exactMembers returns the members of an object by exact name. It returns
// false if the value is not an object, or if one of the names occurs twice or
// in another case.
func exactMembers(object json.RawMessage, names ...string) (map[string]json.RawMessage, bool) {
	members := map[string]json.RawMessage{}
	if len(object) == 0 {
		return members, true
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') || !json.Valid(object) {
		return nil, false
	}
	for d.More() {
		token, err := d.Token()
		name, _ := token.(string)
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, false
		}
		like := slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
		if _, twice := members[name]; like && (twice || !slices.Contains(names, name)) {
			return nil, false
		}
		members[name] = value
	}
	return members, true
}

// Reply is a client's reply to a [Question]: a result or a JSON-RPC error,
// unchanged.
type Reply struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Problem json.RawMessage `json:"error,omitempty"`
}

// Round is a set of questions that a source asks together. One waiting caller
// receives it, answers with Gate.Reply and then waits with Gate.Wait.
type Round struct {
	ID         string
	Invocation string
	Source     string // the source that asks
	SourceName string
	Questions  []Question
	Until      time.Time // the source waits until then
}

// Caller represents the callers of an execution to its source: none, one, or
// several that joined, on any instance. It is safe for concurrent use and
// does nothing after Run returned.
type Caller interface {
	// Session returns the ID of the session of the call.
	Session() string
	// Invocation returns the ID of the running invocation.
	Invocation() string
	// Integration returns the ID of the integration that a person approved
	// the call for; empty: no approval.
	Integration() string
	// Production reports whether the call was decided as one that changes
	// production.
	Production() bool
	// Features returns the features of the current callers, as far as this
	// instance knows them.
	Features() ClientFeatures
	// LogLevel returns the minimum level of log messages that a current
	// caller wants, in MCP's terms; empty: not set.
	LogLevel() string
	// Progress forwards the params of a progress notification, without its
	// token.
	Progress(params json.RawMessage)
	// Log forwards the params of a log message (notifications/message).
	Log(params json.RawMessage)
	// Ask sends questions to a caller with the needed features and waits for
	// the replies, by key. A key is missing if the client left it open.
	// Errors: ErrForbidden if no caller can be asked, ErrTooMany and
	// ErrTooLarge for too many questions, and ErrUnavailable if nobody
	// answered in time.
	Ask(ctx context.Context, questions []Question) (map[string]Reply, error)
}

// AskedRound is the row of a round.
type AskedRound struct {
	ID           string
	Organization string
	Invocation   string
	Session      string
	Needs        ClientFeatures
	Keys         []string
	Sealed       []byte // the [Round], sealed for the row's column "sealed"
	AskedAt      time.Time
	Until        time.Time
	TakenAt      *time.Time        // a caller took it
	AnsweredAt   *time.Time        // the caller's replies are complete
	ClosedAt     *time.Time        // the source no longer waits
	Replies      map[string][]byte // by key, each a [Reply] sealed for the column "reply/<key>"
}

// The actions that read a connector's resources and get its prompts. No tool
// can have these names.
const (
	ActionRead   = "resources/read"
	ActionPrompt = "prompts/get"
)

// Offering is a resource, resource template or prompt of a source. It is
// shared between callers and must not be modified.
type Offering struct {
	Source     string          // source id
	SourceName string          // display name of the source
	Name       string          // at its source: a URI, a URI template, or a prompt's name
	AgentName  string          // name for agents; unique among its kind in the organization
	Definition json.RawMessage // definition from the source, with AgentName as its name
}

// Offerings are the resources, templates and prompts of an organization's
// sources, in stable order.
type Offerings struct {
	Resources []Offering
	Templates []Offering
	Prompts   []Offering

	// Features that at least one source has.
	HasResources          bool // resources, even if the list is empty now
	HasPrompts            bool // the same for prompts
	SupportsCompletion    bool // completion/complete
	SupportsLogs          bool // log messages
	SupportsSubscriptions bool // subscriptions to single resources

	// Versions change with the lists, or when a source reports a change.
	ResourcesVersion string // of Resources and Templates
	PromptsVersion   string
}
