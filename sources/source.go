package sources

import (
	"context"
	"encoding/json"

	"sallyport/action"
)

// Source is an origin of actions. One that is also an io.Closer is closed
// when it is not needed any more; Close waits for what still runs.
type Source interface {
	// ID returns the source id, such as "connector:<uuid>".
	ID() string
	// List asks for the tools. Its error is an [action.Error] whose code is
	// one of the Fault constants wherever the cause is known.
	List(ctx context.Context) (Listing, error)
	// Call runs a tool, as [action.Run] says.
	Call(ctx context.Context, tool string, params json.RawMessage, progress func(json.RawMessage)) (action.Result, error)
}

// Listing is what a source answered to List.
type Listing struct {
	Tools    []json.RawMessage // each definition exactly as it was listed
	Warnings []string          // one sentence each, for people
	Protocol string            // the protocol version that is spoken
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
	FaultUnrecorded  = "tools_unrecorded"      // it answered, and the gateway could not write its tools down
)
