package sources

import (
	"context"
	"encoding/json"
	"time"

	"sallyport/action"
)

// Source is an origin of actions. One that implements io.Closer is closed when
// it is no longer needed; Close waits for running calls.
type Source interface {
	// ID returns the source ID, such as "connector:<uuid>".
	ID() string
	// List lists the tools and everything else that the source offers. Without
	// the tools it fails; other lists can be Missing. Its error is an
	// [action.Error] whose code is one of the Fault constants if the cause is
	// known, and whose RetryAfter is the delay that the source asks for.
	List(ctx context.Context) (Listing, error)
	// Call runs a tool. See [action.Run].
	Call(ctx context.Context, tool string, params json.RawMessage, caller action.Caller) (action.Result, error)
	// Do sends resources/read, prompts/get or completion/complete with params.
	// See [action.Run]. The caller can be nil.
	Do(ctx context.Context, method string, params json.RawMessage, caller action.Caller) (action.Result, error)
	// Subscribe starts (on) or stops notifications about changes of a resource.
	// Calls are counted: the subscription ends with the last stop.
	Subscribe(ctx context.Context, uri string, on bool) error
	// Listen calls heard for each notice, one at a time, until ctx ends or
	// there is no notification stream, which is no error. It reconnects after a
	// broken stream.
	Listen(ctx context.Context, heard func(Notice)) error
	// Circuit reports whether calls fail immediately because of repeated
	// failures of the server, and until when.
	Circuit() (open bool, until time.Time)
	// Steps returns the duration of each step of the last handshake and list.
	Steps() []Step
}

// Notice is a notification of a source.
type Notice struct {
	Kind NoticeKind
	URI  string // of a NoticeUpdated
}

// NoticeKind is the method of a notification.
type NoticeKind string

// Kinds of notices.
const (
	NoticeTools     NoticeKind = "notifications/tools/list_changed"
	NoticeResources NoticeKind = "notifications/resources/list_changed"
	NoticePrompts   NoticeKind = "notifications/prompts/list_changed"
	NoticeUpdated   NoticeKind = "notifications/resources/updated"
)

// Listing is the result of List.
type Listing struct {
	Tools    []json.RawMessage // each definition exactly as listed
	Warnings []string          // one sentence each, for people
	Protocol string            // protocol version in use
	Server   string            // name that the server gives itself; untrusted

	// What it has beside tools, each exactly as it was listed.
	Resources    []json.RawMessage
	Templates    []json.RawMessage
	Prompts      []json.RawMessage
	Capabilities Capabilities
	// Instructions of the server for models: untrusted, bounded. Empty: none.
	Instructions string
	// Missing lists could not be fetched although the tools could. Their
	// previous content stays, with a warning.
	Missing Missing
}

// Missing names the lists of a [Listing] that could not be fetched.
type Missing struct {
	Resources bool
	Templates bool
	Prompts   bool
}

// Capabilities are the features of a source other than tools.
type Capabilities struct {
	Resources   bool `json:"resources"`
	Subscribe   bool `json:"subscribe"` // notifies about changes of single resources
	Prompts     bool `json:"prompts"`
	Completions bool `json:"completions"`
	Logging     bool `json:"logging"`
	Tasks       bool `json:"-"` // tools can be called as tasks of 2025-11-25; later versions leave that to the server
}

// Error codes of sources, each with a known remedy.
const (
	FaultDNS         = "upstream_dns"          // the host name does not resolve
	FaultUnreachable = "upstream_unreachable"  // the connection fails
	FaultTLS         = "upstream_tls"          // the certificate is not valid
	FaultBlocked     = "upstream_blocked"      // the address is not permitted
	FaultTimeout     = "upstream_timeout"      // no answer in time
	FaultAuth        = "upstream_auth"         // the server refused the credential
	FaultCredential  = "upstream_credential"   // the stored credential cannot be used
	FaultTransport   = "upstream_transport"    // not MCP over streamable HTTP
	FaultProtocol    = "upstream_protocol"     // protocol violation
	FaultTooLarge    = "upstream_too_large"    // the answer is too large
	FaultRefused     = "upstream_refused"      // the server refused the request
	FaultRateLimited = "upstream_rate_limited" // too many requests
	FaultFailed      = "upstream_failed"       // the server failed
	FaultConfig      = "upstream_config"       // the configuration cannot be used
	FaultReconnect   = "upstream_reconnect"    // a person must sign in again
	FaultOpen        = "upstream_circuit_open" // repeated failures; calls fail immediately for a while
	FaultUnrecorded  = "tools_unrecorded"      // the gateway could not record the tools
)

// Step is one step of connecting to a server.
type Step struct {
	Name   string        `json:"name"`             // dns, connect, tls, handshake, tools and so on
	Took   time.Duration `json:"took_ns"`          // zero: skipped, such as dns for an IP address
	Detail string        `json:"detail,omitempty"` // such as the TLS version; may be empty
	Failed bool          `json:"failed,omitempty"` // the last step reached
}
