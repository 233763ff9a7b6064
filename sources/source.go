package sources

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
)

// Source is an origin of actions. One that is also an io.Closer is closed
// when it is not needed any more; Close waits for what still runs.
type Source interface {
	// ID returns the source id, such as "connector:<uuid>".
	ID() string
	// List asks for the tools and for what else it lists. Without the tools it is
	// an error; other lists may be Missing. What could not be listed stays as it
	// was. Its error is an [action.Error] whose code is one of
	// the Fault constants wherever the cause is known, and whose RetryAfter says
	// how long the source wants to be left alone.
	List(ctx context.Context) (Listing, error)
	// Call runs a tool, as [action.Run] says.
	Call(ctx context.Context, tool string, params json.RawMessage, caller action.Caller) (action.Result, error)
	// Do sends resources/read, prompts/get or completion/complete with params,
	// as [action.Run] says. The caller may be nil.
	Do(ctx context.Context, method string, params json.RawMessage, caller action.Caller) (action.Result, error)
	// Subscribe has the source tell of changes of a resource, or no more. It
	// ends with as many calls without on as there were with it.
	Subscribe(ctx context.Context, uri string, on bool) error
	// Listen calls heard for each notice, one at a time, until ctx ends or
	// there is nothing to listen to; then its error is nil. It begins anew by
	// itself where a stream breaks.
	Listen(ctx context.Context, heard func(Notice)) error
	// Circuit reports whether calls fail at once now, because the server failed
	// again and again, and until when.
	Circuit() (open bool, until time.Time)
	// Steps tells how long each step of the last handshake and list took.
	Steps() []Step
}

// Notice is a word of a source about itself.
type Notice struct {
	Kind NoticeKind
	URI  string // of a NoticeUpdated
}

// NoticeKind is what a source said.
type NoticeKind string

// The kinds of notice, by their methods.
const (
	NoticeTools     NoticeKind = "notifications/tools/list_changed"
	NoticeResources NoticeKind = "notifications/resources/list_changed"
	NoticePrompts   NoticeKind = "notifications/prompts/list_changed"
	NoticeUpdated   NoticeKind = "notifications/resources/updated"
)

// Listing is what a source answered to List.
type Listing struct {
	Tools    []json.RawMessage // each definition exactly as it was listed
	Warnings []string          // one sentence each, for people
	Protocol string            // the protocol version that is spoken

	// What it has beside tools, each exactly as it was listed.
	Resources    []json.RawMessage
	Templates    []json.RawMessage
	Prompts      []json.RawMessage
	Capabilities Capabilities
	// Says are the server's instructions to models: foreign, bounded. Empty: it
	// gives none.
	Instructions string
	// Missing are the lists that could not be had, while the tools could: what
	// they were before stays, with a warning.
	Missing Missing
}

// Missing says which lists of a [Listing] could not be had.
type Missing struct {
	Resources bool
	Templates bool
	Prompts   bool
}

// Capabilities says what a source has beside tools.
type Capabilities struct {
	Resources   bool `json:"resources"`
	Subscribe   bool `json:"subscribe"` // it tells of changes of single resources
	Prompts     bool `json:"prompts"`
	Completions bool `json:"completions"`
	Logging     bool `json:"logging"`
	Tasks       bool `json:"-"` // tools may be called as tasks of 2025-11-25; later versions leave that to the server
}

// The codes with which a source says what is wrong, so that people can be
// told what to do about it.
const (
	FaultDNS         = "upstream_dns"          // its name does not resolve
	FaultUnreachable = "upstream_unreachable"  // nobody answers there
	FaultTLS         = "upstream_tls"          // its certificate is not good
	FaultBlocked     = "upstream_blocked"      // its address may not be dialled
	FaultTimeout     = "upstream_timeout"      // it did not answer in time
	FaultAuth        = "upstream_auth"         // it refused the credential
	FaultCredential  = "upstream_credential"   // our credential cannot be used
	FaultTransport   = "upstream_transport"    // it does not speak MCP over streamable HTTP
	FaultProtocol    = "upstream_protocol"     // it broke the protocol
	FaultTooLarge    = "upstream_too_large"    // it answered too much
	FaultRefused     = "upstream_refused"      // it refused the request
	FaultRateLimited = "upstream_rate_limited" // it wants fewer requests
	FaultFailed      = "upstream_failed"       // it failed by itself
	FaultConfig      = "upstream_config"       // its configuration cannot be used
	FaultReconnect   = "upstream_reconnect"    // a person must sign in to it
	FaultOpen        = "upstream_circuit_open" // it failed again and again, and is left alone for a moment
	FaultUnrecorded  = "tools_unrecorded"      // it answered, and the gateway could not write its tools down
)

// Step is a part of reaching a server.
type Step struct {
	Name   string        `json:"name"`             // dns, connect, tls, handshake, tools and so on
	Took   time.Duration `json:"took_ns"`          // zero: it was not needed, such as dns for an address
	Detail string        `json:"detail,omitempty"` // such as the version of TLS; may be empty
	Failed bool          `json:"failed,omitempty"` // it got no further
}
