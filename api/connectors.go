package api

import (
	"time"

	"sallyport/action"
)

// Routes.
var (
	ListConnectors = Route[None, List[ConnectorView]]{Operation{
		Method: "GET", Path: "/api/v1/connectors", Who: Member, Tag: "connectors",
		Summary: "List connectors and their state",
	}}
	GetConnector = Route[ByRef, ConnectorView]{Operation{
		Method: "GET", Path: "/api/v1/connectors/{ref}", Who: Member, Tag: "connectors",
		Summary: "Read a connector with its tools",
	}}
	CreateConnector = Route[Body[NewConnector], ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors", Who: Decider, Tag: "connectors", Status: 201, Errors: []int{409},
		Summary: "Add a connector",
	}}
	UpdateConnector = Route[ByRefWith[ConnectorChange], ConnectorView]{Operation{
		Method: "PATCH", Path: "/api/v1/connectors/{ref}", Who: Decider, Tag: "connectors", Errors: []int{409},
		Summary: "Change a connector",
		Doc:     "Fields that are absent stay. The slug is for good. A new host is not sent the secret of the old one: send secret_value too. Tokens that are not for the new host, kind, client or issuer are revoked, as when a connector is removed.",
	}}
	EnableConnector = Route[ByRef, ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/enable", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{409},
		Summary: "enable a connector",
	}}
	DisableConnector = Route[ByRef, ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/disable", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{409},
		Summary: "disable a connector",
	}}
	DeleteConnector = Route[ByRef, None]{Operation{
		Method: "DELETE", Path: "/api/v1/connectors/{ref}", Who: Decider, Tag: "connectors",
		Summary: "Remove a connector",
		Doc:     "Its tokens of OAuth are revoked at the service before, where it offers that and answers within five seconds.",
	}}
	ValidateConnector = Route[ByRef, ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/validate", Who: Decider, Tag: "connectors", Status: 200,
		Summary: "Ask a connector for its tools now",
	}}
	TryConnector = Route[Body[TriedConnector], ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors/validate", Who: Decider, Tag: "connectors", Status: 200,
		Summary: "Try a connector before it is added",
		Doc:     "Asks the server for its tools and saves nothing.",
	}}
	SignInConnector = Route[ByRef, SignInLink]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/sign-in", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{429, 502},
		Summary: "Begin a sign-in to a connector's service",
		Doc:     "Its OAuth must be of kind authorization_code. The same person finishes it, on the page that the service leads back to.",
	}}
	SignOutConnector = Route[ByRef, None]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/sign-out", Who: Decider, Tag: "connectors",
		Summary: "Forget a connector's tokens",
		Doc:     "They are revoked at the service, where it offers that. Calls fail until somebody signs in again.",
	}}
	FinishOAuth = Route[Body[FinishedSignIn], Finished]{Operation{
		Method: "POST", Path: "/api/v1/oauth/finish", Who: Member, Tag: "connectors", Status: 200, Errors: []int{404, 409, 410, 502},
		Summary: "Finish a sign-in to a connector's service, or a connection",
		Doc:     "With what the service put into the address that it led the browser back to, once, by the person who began it; what is not named here is ignored. Owners and admins alone sign in to connectors; a member finishes connections of his own.",
	}}
	ListPresets = Route[None, List[Preset]]{Operation{
		Method: "GET", Path: "/api/v1/connectors/presets", Who: Member, Tag: "connectors",
		Summary: "List known servers",
	}}
)

// NewConnector is a connector as it is added. It needs a URL, its own or a
// preset's.
type NewConnector struct {
	Name string  `json:"name" minLength:"1" maxLength:"80" example:"GitHub"`
	Slug *string `json:"slug,omitempty" maxLength:"16" nullable:"false" doc:"Prefix of its tools' names, for good; made of the name when absent. One connector may have the empty slug." example:"github"`
	FromPreset
	Upstream
}

// TriedConnector is a connector that is not saved.
type TriedConnector struct {
	Name string `json:"name,omitempty" maxLength:"80"`
	FromPreset
	Upstream
}

// ConnectorChange is what may change of a connector.
type ConnectorChange struct {
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"80" nullable:"false"`
	Upstream
}

// ByRef is the parameter of a route about one connector.
type ByRef struct {
	Ref string `path:"ref" doc:"Id, slug or name." example:"github"`
}

// OAuthStatus is what can be said of a connector's tokens.
type OAuthStatus struct {
	_         struct{}   `nullable:"true"`
	Status    string     `json:"status" enum:"connected,reconnect_needed,not_connected" doc:"not_connected: a person must sign in for the first time, or the gateway has not done so yet by itself."`
	Reason    string     `json:"reason,omitempty" doc:"Why a person must sign in again."`
	Issuer    string     `json:"issuer,omitempty"`
	Scope     string     `json:"scope,omitempty" doc:"As granted, with spaces between."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Of the token at hand; it is renewed before."`
	By        string     `json:"by,omitempty" doc:"Who signed in."`
}

// SignInLink is where a person signs in.
type SignInLink struct {
	AuthorizeURL string `json:"authorize_url" doc:"Open it in the browser that is signed in here, within ten minutes."`
	Host         string `json:"host" doc:"Of that address. The connector's server named it: show it to the person before he goes there." example:"auth.example.com"`
	Issuer       string `json:"issuer,omitempty" doc:"The authorization server, where its host is another."`
	Known        bool   `json:"known" doc:"The connector's settings name that server, or somebody signed in there for the connector before."`
}

// FinishedSignIn is what a browser comes back with from a sign-in. Services add
// more to it, which nobody here asked for and nothing is made of.
type FinishedSignIn struct {
	_        struct{} `additionalProperties:"true"`
	Provider string   `json:"provider,omitempty" maxLength:"40" doc:"Id of the provider to whose page the answer came, /oauth/callback/{provider}; absent: to that of connectors, /oauth/callback." example:"linear"`
	State    string   `json:"state" minLength:"1" maxLength:"1024"`
	Code     string   `json:"code,omitempty" maxLength:"4096" writeOnly:"true"`
	Iss      string   `json:"iss,omitempty" maxLength:"2048" doc:"The issuer, where it says so."`
	Error    string   `json:"error,omitempty" maxLength:"1024" doc:"Instead of code: what the service said."`
	// What apps and brokers lead back with.
	Installation string `json:"installation_id,omitempty" maxLength:"100" doc:"Of a GitHub App; it is asked for at GitHub before it counts."`
	Setup        string `json:"setup_action,omitempty" maxLength:"20" doc:"Of a GitHub App; request: somebody there must agree first."`
	Connection   string `json:"connection_id,omitempty" maxLength:"200" doc:"Of a broker, which shows it when its page is done; a broker's connection is finished with it alone. It is asked for there before it counts."`
}

// ConnectorView is a connector with what is known of it now.
type ConnectorView struct {
	action.Connector
	Source        string       `json:"source_id" example:"connector:0199a3c4-5d6e-7f80-9123-456789abcdef"`
	ToolCount     int          `json:"tool_count"`
	ResourceCount int          `json:"resource_count"`
	TemplateCount int          `json:"template_count"`
	PromptCount   int          `json:"prompt_count"`
	Protocol      string       `json:"protocol_version,omitempty" doc:"Of MCP, as it is spoken with the server." example:"2025-11-25"`
	Error         string       `json:"error,omitempty" doc:"Why its tools cannot be listed."`
	Diagnosis     *Diagnosis   `json:"diagnosis,omitempty" doc:"The same, classified."`
	RetryAt       *time.Time   `json:"retry_at,omitempty" doc:"It failed, and is asked again by itself then."`
	CircuitOpen   bool         `json:"circuit_open,omitempty" doc:"It failed again and again: its calls fail at once until retry_at."`
	Steps         []StepView   `json:"steps,omitempty" nullable:"false" doc:"Of the last time that it was asked."`
	Warnings      []string     `json:"warnings" nullable:"false"`
	FetchedAt     *time.Time   `json:"fetched_at,omitempty" doc:"When its tools were last listed."`
	OAuthStatus   *OAuthStatus `json:"oauth_status,omitempty" doc:"Of its tokens; absent without OAuth."`
	ReviewReset   bool         `json:"review_reset,omitempty" doc:"This change of the URL took back what was reviewed: behind another URL may be another server."`
	Tools         []ToolView   `json:"tools,omitempty" nullable:"false" doc:"Left out of lists."`
	Beside        []ToolView   `json:"beside,omitempty" nullable:"false" doc:"How its resources are read and its prompts gotten: actions under policy like tools, and no tools. Left out of lists."`
}

// StepView is a part of reaching a server.
type StepView struct {
	Name   string  `json:"name" example:"handshake"`
	TookMS float64 `json:"took_ms" example:"12.5"`
	Detail string  `json:"detail,omitempty"`
	Failed bool    `json:"failed,omitempty" doc:"What was tried in it was not had."`
}

// ToolView is one tool of a connector.
type ToolView struct {
	Name        string      `json:"name" doc:"At its server." example:"create_issue"`
	Tool        string      `json:"tool,omitempty" doc:"As agents see it; absent: it is no tool." example:"github_create_issue"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty" doc:"The server's own words."`
	Risk        action.Risk `json:"risk"`
	Mode        action.Mode `json:"mode,omitempty" doc:"In a plain session."`
}

// Diagnosis is what is wrong with a connector.
type Diagnosis struct {
	_       struct{} `nullable:"true"`
	Code    string   `json:"code" doc:"Which it is: upstream_dns, upstream_unreachable, upstream_tls, upstream_blocked, upstream_timeout, upstream_auth, upstream_credential, upstream_reconnect, upstream_transport, upstream_protocol, upstream_too_large, upstream_rate_limited, upstream_refused, upstream_failed, upstream_config, upstream_circuit_open or tools_unrecorded." example:"upstream_auth"`
	Message string   `json:"message" doc:"What it is and what to do, in a sentence or two."`
	Field   string   `json:"field,omitempty" doc:"What of the connector it concerns, as a JSON Pointer; absent: nothing that is set here." example:"/secret_value"`
}

// FromPreset says from which preset a connector is made. What is said beside
// it goes before what the preset says.
type FromPreset struct {
	Preset  string `json:"preset,omitempty" maxLength:"40" doc:"Gives url, header, prefix, headers and per_agent, where they are not said here." example:"linear" kong:"placeholder='P',help='Known server to take the endpoint and headers from; see connector presets.'"`
	Variant string `json:"variant,omitempty" maxLength:"40" doc:"Of the preset: a region, or what only reads." example:"read-only" kong:"placeholder='V',help='Region or part of the preset, such as a read-only one; needs --preset.'"`
}

// Preset is what is known of a public MCP server, so that nobody has to look
// it up.
type Preset struct {
	Name         string            `json:"name" doc:"Name it as preset when a connector is added." example:"linear"`
	Title        string            `json:"title" example:"Linear"`
	URL          string            `json:"url" doc:"Empty: yours to give." example:"https://mcp.linear.app/mcp"`
	Auth         []string          `json:"auth" nullable:"false" enum:"none,secret,oauth" doc:"What it takes; the first is the one to choose."`
	Header       string            `json:"header,omitempty" doc:"That carries a secret; absent: Authorization."`
	Prefix       string            `json:"prefix,omitempty" doc:"Before a secret." example:"Bearer "`
	Registration string            `json:"registration,omitempty" enum:"dynamic,static,allow_listed" doc:"How a client of its OAuth comes to be: by itself, by a person at the service, or by the service alone."`
	Headers      map[string]string `json:"headers,omitempty" nullable:"false" doc:"Sent along as they are."`
	PerAgent     bool              `json:"per_agent,omitempty" doc:"It keeps state of a session."`
	Variants     []PresetVariant   `json:"variants" nullable:"false"`
	Hint         string            `json:"hint" doc:"Where its credential comes from."`
	Unsure       []string          `json:"unsure,omitempty" nullable:"false" doc:"Fields that its own documentation was not seen to say: look there."`
}

// PresetVariant is a preset with a difference: another region, or only what
// reads.
type PresetVariant struct {
	Name    string            `json:"name" example:"read-only"`
	Title   string            `json:"title"`
	Region  bool              `json:"region,omitempty"`
	URL     string            `json:"url,omitempty" doc:"Absent: the preset's."`
	Headers map[string]string `json:"headers,omitempty" nullable:"false" doc:"Beside the preset's."`
	Auth    []string          `json:"auth,omitempty" nullable:"false" doc:"Absent: the preset's."`
	Unsure  bool              `json:"unsure,omitempty"`
}

// Upstream is what may be said of a connector's server; what is absent stays as
// it is, or is the usual.
type Upstream struct {
	URL         *string            `json:"url,omitempty" minLength:"1" maxLength:"2048" nullable:"false" doc:"Of its MCP endpoint, http or https. A new one resets the review." example:"https://mcp.example.com/mcp" kong:"-"`
	Header      *string            `json:"header,omitempty" maxLength:"64" nullable:"false" doc:"Header that carries the secret; default Authorization." example:"Authorization" kong:"placeholder='H',help='Header that carries the secret (default: Authorization).'"`
	Prefix      *string            `json:"prefix,omitempty" maxLength:"64" nullable:"false" doc:"Stands before the secret; default \"Bearer \" in Authorization, nothing elsewhere." example:"Bearer " kong:"placeholder='P',help='Text before the secret in the header, such as \\'Bearer \\'.'"`
	Secret      *string            `json:"secret,omitempty" maxLength:"64" nullable:"false" doc:"Key of a secret that is bound to the host of the URL; empty: no credential." example:"github" kong:"placeholder='KEY',help='Name of the secret to send; see secret set.'"`
	SecretValue string             `json:"secret_value,omitempty" maxLength:"16384" writeOnly:"true" doc:"Sets that secret too, bound to the host of the URL, in one step: both or neither. Without secret its key is the connector's, or its slug. It is never read back." kong:"-"`
	Headers     *map[string]string `json:"headers,omitempty" nullable:"false" doc:"Sent along as they are, and shown; at most 10. No credentials; replaces them all." kong:"-"`
	OAuth       *NewOAuth          `json:"oauth,omitempty" doc:"How tokens are had that are sent instead of a secret; replaces all of it." kong:"-"`
	MayAsk      *[]action.AskKind  `json:"may_ask,omitempty" nullable:"false" enum:"elicitation,url_elicitation,sampling,roots" doc:"What the server may ask of the caller of a call that runs; none unless said. A hostile server would phish with it, and sampling is paid for by the caller's model." kong:"-"`
	PerAgent    *bool              `json:"per_agent,omitempty" nullable:"false" doc:"Give each agent's session a session of its own at the server, which keeps state." kong:"placeholder='BOOL',help='Open one upstream session per agent session; --per-agent=false to share one (default: shared, unless the server may ask questions).'"`
	DefaultRisk *action.Risk       `json:"default_risk,omitempty" enum:"read,write,danger" nullable:"false" doc:"Of tools that say nothing of themselves; default write." kong:"name='risk',enum='',placeholder='RISK',help='Risk of tools without hints: read, write or danger (default: write).'"`
	Timeout     *int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"120" nullable:"false" doc:"Of one call; 0: the gateway's." kong:"type='calltime',placeholder='D',help='Timeout of one call, 1s to 2m; 0 for the gateway timeout (default: 0).'"`
	ToolRules
}

// ToolRules say what is thought of a connector's tools.
type ToolRules struct {
	Risks  *map[string]action.Risk `json:"tool_risks,omitempty" nullable:"false" doc:"Of single tools, whatever the server says; replaces them all." kong:"-"`
	Review *action.ReviewRule      `json:"review,omitempty" enum:"trust,strict,required" nullable:"false" doc:"What a person must have looked at: trust takes the first list as reviewed, strict also holds a changed text against a tool, required denies what nobody reviewed. Default trust." kong:"-"`
}

// NewOAuth is how tokens of a connector are had.
type NewOAuth struct {
	Kind         string   `json:"kind" enum:"authorization_code,client_credentials,none" doc:"authorization_code: an owner or admin signs in once; client_credentials: the gateway does by itself; none: there is no OAuth."`
	ClientID     string   `json:"client_id,omitempty" maxLength:"1024" doc:"Of a client that was registered by hand; absent: the gateway registers itself, where it may."`
	ClientSecret string   `json:"client_secret,omitempty" maxLength:"64" doc:"Key of the secret that holds the client's, bound to the host of the token endpoint."`
	Scopes       []string `json:"scopes,omitempty" maxItems:"50" nullable:"false" doc:"Each once, of at most 200 characters; absent: what the server asks for."`
	Issuer       string   `json:"issuer,omitempty" maxLength:"2048" doc:"The one authorization server to use; absent: the one that the server names, kept from the first sign-in on." example:"https://auth.example.com"`
}
