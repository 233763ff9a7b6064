package action

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// AskKind is a kind of question that a source may put to the caller of a call
// that runs.
type AskKind string

// The kinds of question, as connectors allow them.
const (
	AskElicitation AskKind = "elicitation"     // a form that the client shows
	AskURL         AskKind = "url_elicitation" // a link that the client opens
	AskSampling    AskKind = "sampling"        // a completion by the client's model
	AskRoots       AskKind = "roots"           // the folders that the client works in
)

// AskKinds are all of them.
func AskKinds() []AskKind { return []AskKind{AskElicitation, AskURL, AskSampling, AskRoots} }

// Valid reports whether k is one of the kinds.
func (k AskKind) Valid() bool { return slices.Contains(AskKinds(), k) }

// ClientFeatures is a set of what an MCP client lets servers ask of it.
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

// Question is one request that a source makes of its caller.
type Question struct {
	Key    string          `json:"key"`    // unique in its round
	Method string          `json:"method"` // elicitation/create, sampling/createMessage or roots/list
	Params json.RawMessage `json:"params"` // as the source sent them, but for the injected credential; nil: none
}

// Needs returns the kind of the question and what a client must offer for it.
// ok is false for a method that no client is asked, and for params that not
// everyone reads alike: clients may take Mode for mode.
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

// exactMembers returns the members of an object, by their exact names. It reports
// false for what is no object, and where one of the names is there twice, or in
// other letters of upper and lower case.
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

// Reply is what a client answered to a [Question]: a result or a JSON-RPC
// error, as it sent them.
type Reply struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Problem json.RawMessage `json:"error,omitempty"`
}

// Round is what a source asks at one time and waits for. One caller in flight
// is given it, which answers with Gate.Reply and then waits on with
// Gate.Wait.
type Round struct {
	ID         string
	Invocation string
	Source     string // whose question it is
	SourceName string
	Questions  []Question
	Until      time.Time // the source is waiting no longer than this
}

// Caller is whoever waits for an execution, as its source sees him: none, one,
// or several that joined, on this instance or another. Its methods may be
// called at once from many goroutines, and do nothing after Run returned.
type Caller interface {
	// Session is the id of the gateway session that the action runs for.
	Session() string
	// Invocation is the id of the invocation that runs.
	Invocation() string
	// Integration is the id of the integration that a person approved the call
	// for; empty: he was not asked.
	Integration() string
	// Features are what the callers who wait now offer, as far as they are
	// known on this instance.
	Features() ClientFeatures
	// LogLevel is the least severe level of log messages that a caller who
	// waits now wants, as MCP names levels; empty: nobody said.
	LogLevel() string
	// Progress tells the params object of a progress notification of the
	// source, unchanged but for its token, which is absent.
	Progress(params json.RawMessage)
	// Log tells the params object of a log message (notifications/message).
	Log(params json.RawMessage)
	// Ask puts questions to one caller who offers all that they need, and
	// waits for the replies, by key. A key may be missing: the client left it
	// open. Errors are of kind ErrForbidden when no caller can be asked,
	// ErrTooMany and ErrTooLarge when the source asked too much, and
	// ErrUnavailable when nobody answered in time; none of them reached a
	// person's answer.
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
	TakenAt      *time.Time        // a caller was given it
	AnsweredAt   *time.Time        // the caller replied all that it will
	ClosedAt     *time.Time        // the source waits no more
	Replies      map[string][]byte // by key, each a [Reply] sealed for the column "reply/<key>"
}

// The actions by which a connector's resources are read and its prompts gotten.
// No tool can have these names.
const (
	ActionRead   = "resources/read"
	ActionPrompt = "prompts/get"
)

// Offering is a resource, a resource template or a prompt of a source. It is
// shared between callers: treat it as read-only.
type Offering struct {
	Source     string          // source id
	SourceName string          // what people call the source
	Name       string          // at its source: a URI, a URI template, or a prompt's name
	AgentName  string          // as agents see it; unique among its kind in the organization
	Definition json.RawMessage // as its source listed it, with As in Name's place
}

// Offerings are all that an organization's sources offer beside actions, each
// list in a stable order.
type Offerings struct {
	Resources []Offering
	Templates []Offering
	Prompts   []Offering

	// What some source of the organization can do.
	HasResources          bool // it has resources, if perhaps none just now
	HasPrompts            bool // likewise prompts
	SupportsCompletion    bool // completion/complete
	SupportsLogs          bool // it sends log messages
	SupportsSubscriptions bool // it tells of changes of single resources

	// Versions change when the lists do, or when a source said that they did.
	ResourcesVersion string // of Resources and Templates
	PromptsVersion   string
}
