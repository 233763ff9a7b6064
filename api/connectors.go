package api

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
)

// Routes.
var (
	ListConnectors = Route[None, List[ConnectorView]]{Operation{
		Method: "GET", Path: "/api/v1/connectors", Who: Member, Tag: "connectors",
		Summary: "List connectors and their status",
	}}
	GetConnector = Route[ByRef, ConnectorView]{Operation{
		Method: "GET", Path: "/api/v1/connectors/{ref}", Who: Member, Tag: "connectors",
		Summary: "Get a connector with its tools",
	}}
	CreateConnector = Route[Body[NewConnector], ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors", Who: Decider, Tag: "connectors", Status: 201, Errors: []int{409},
		Summary: "Add a connector",
	}}
	UpdateConnector = Route[ByRefWith[ConnectorChange], ConnectorView]{Operation{
		Method: "PATCH", Path: "/api/v1/connectors/{ref}", Who: Decider, Tag: "connectors", Errors: []int{409},
		Summary: "Change a connector",
		Doc:     "Missing fields stay unchanged. The slug cannot change. The old secret is not sent to a new host: include secret_value. Tokens that are not valid for the new host, kind, client or issuer are revoked, as when the connector is deleted.",
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
		Summary: "Delete a connector",
		Doc:     "Its OAuth tokens are revoked at the service, if the service supports it and answers within five seconds.",
	}}
	ValidateConnector = Route[ByRef, ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/validate", Who: Decider, Tag: "connectors", Status: 200,
		Summary: "Test a connector and list its tools",
	}}
	TryConnector = Route[Body[TriedConnector], ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors/validate", Who: Decider, Tag: "connectors", Status: 200,
		Summary: "Test a connector before you add it",
		Doc:     "Requests the tools of the server and saves nothing.",
	}}
	SignInConnector = Route[ByRef, SignInLink]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/sign-in", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{429, 502},
		Summary: "Start a sign-in at the service of a connector",
		Doc:     "Its OAuth kind must be authorization_code. The same person finishes it on the page that the service redirects to.",
	}}
	SignOutConnector = Route[ByRef, None]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/sign-out", Who: Decider, Tag: "connectors",
		Summary: "Delete the tokens of a connector",
		Doc:     "The tokens are revoked if the service supports it. Calls fail until a person signs in again.",
	}}
	FinishOAuth = Route[Body[FinishedSignIn], Finished]{Operation{
		Method: "POST", Path: "/api/v1/oauth/finish", Who: Member, Tag: "connectors", Status: 200, Errors: []int{404, 409, 410, 502},
		Summary: "Finish a sign-in of a connector or integration",
		Doc:     "Send the query parameters of the redirect once, as the person who started it; unknown parameters are ignored. Only owners and admins sign in to connectors; a member can finish personal integrations.",
	}}
	ListPresets = Route[None, List[Preset]]{Operation{
		Method: "GET", Path: "/api/v1/connectors/presets", Who: Member, Tag: "connectors",
		Summary: "List known servers",
	}}
	OnboardTools = Route[ByRefWith[Onboarding], List[ReviewView]]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/onboard", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{409},
		Summary: "Set modes of tools and mark them as reviewed",
		Doc:     "In one transaction, with the hashes that you saw. If a tool changed, nothing changes (409).",
	}}
	SetProfile = Route[ByRefWith[ProfileChange], ConnectorView]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/profile", Who: Decider, Tag: "connectors", Status: 200,
		Summary: "Set the modes of a connector's tools",
		Doc:     "By a profile or to one mode; for all tools, by name or pattern, or for those that are denied. Modes are overrides of the organization; a tool whose mode follows from a wider rule or its risk has none. Nothing is marked as reviewed, so a new or changed tool still needs approval.",
	}}
	ListTools = Route[ListToolsInput, ReviewList]{Operation{
		Method: "GET", Path: "/api/v1/connectors/{ref}/tools", Who: Member, Tag: "connectors",
		Summary: "List the tools of a connector with their reviews",
	}}
	ReviewTools = Route[ByRefWith[NewReview], List[ReviewView]]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/review", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{409},
		Summary: "Mark tools as reviewed",
		Doc:     "With the hashes that you saw: if a tool changed, the whole request is refused.",
	}}
)

// NewConnector is a connector to add. The URL comes from it or from a preset.
type NewConnector struct {
	Name    string         `json:"name" minLength:"1" maxLength:"80" example:"GitHub"`
	Slug    *string        `json:"slug,omitempty" maxLength:"16" nullable:"false" doc:"Prefix of the tool names; it cannot change. Default: derived from the name. One connector may have the empty slug." example:"github"`
	Profile action.Profile `json:"profile,omitempty" enum:"ask,strict,read-only,trust-hints" doc:"How the modes of its tools are set from its first list: ask (default) allows reads and asks for everything else, strict denies destructive tools, read-only denies everything but reads, trust-hints also allows tools that are declared as not destructive."`
	FromPreset
	Upstream
}

// ProfileChange sets the modes of a connector's tools. It has either a profile or
// a mode.
type ProfileChange struct {
	Profile    action.Profile `json:"profile,omitempty" enum:"ask,strict,read-only,trust-hints" doc:"Sets each tool's mode by what its server declares."`
	Mode       action.Mode    `json:"mode,omitempty" enum:"allow,require_approval,deny" doc:"Sets the same mode for all of them."`
	Preset     string         `json:"preset,omitempty" maxLength:"40" doc:"Known server whose proposed modes the profiles ask and trust-hints prefer to hints; missing: that of the connector." example:"notion"`
	Tools      []string       `json:"tools,omitempty" maxItems:"200" nullable:"false" doc:"Names, or patterns with *, each of which must match; missing: all tools." example:"API-*"`
	OnlyDenied bool           `json:"only_denied,omitempty" doc:"Only tools that are denied now."`
}

// ModeCounts is the number of a connector's tools by mode.
type ModeCounts struct {
	_       struct{} `nullable:"true"`
	Allowed int      `json:"allow"`
	Asks    int      `json:"require_approval"`
	Denied  int      `json:"deny"`
}

// String returns the counts as a phrase, such as "25 tools: 7 allowed, 18 ask".
func (m ModeCounts) String() string {
	all := m.Allowed + m.Asks + m.Denied
	text := strconv.Itoa(all) + " tools"
	if all == 1 {
		text = "1 tool"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		word string
	}{{m.Allowed, "allowed"}, {m.Asks, "ask"}, {m.Denied, "denied"}} {
		if p.n > 0 {
			parts = append(parts, strconv.Itoa(p.n)+" "+p.word)
		}
	}
	if len(parts) == 0 {
		return text
	}
	return text + ": " + strings.Join(parts, ", ")
}

// TriedConnector is a connector that is not saved.
type TriedConnector struct {
	Name string `json:"name,omitempty" maxLength:"80"`
	FromPreset
	Upstream
}

// ConnectorChange changes a connector.
type ConnectorChange struct {
	Name *string `json:"name,omitempty" minLength:"1" maxLength:"80" nullable:"false"`
	Upstream
}

// ByRef is the parameter of a route about one connector.
type ByRef struct {
	Ref string `path:"ref" doc:"ID, slug or name." example:"github"`
}

// OAuthStatus is the status of a connector's tokens.
type OAuthStatus struct {
	_         struct{}   `nullable:"true"`
	Status    string     `json:"status" enum:"connected,reconnect_needed,not_connected" doc:"not_connected: a person must sign in for the first time, or the gateway has not fetched its first token yet."`
	Reason    string     `json:"reason,omitempty" doc:"Why a person must sign in again."`
	Issuer    string     `json:"issuer,omitempty"`
	Scope     string     `json:"scope,omitempty" doc:"Granted scopes, separated by spaces."`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Expiry of the current token; it is renewed earlier."`
	By        string     `json:"by,omitempty" doc:"Person who signed in."`
}

// SignInLink is where a person signs in.
type SignInLink struct {
	AuthorizeURL string `json:"authorize_url" doc:"Open it in the browser that is signed in here, within ten minutes."`
	Host         string `json:"host" doc:"Host of the URL. The connector's server chose it: show it to the person before you redirect." example:"auth.example.com"`
	Issuer       string `json:"issuer,omitempty" doc:"The authorization server, if it is on another host."`
	Known        bool   `json:"known" doc:"The settings of the connector name this server, or a person signed in there for the connector before."`
}

// FinishedSignIn has the parameters of a redirect. Services add others, which
// are ignored.
type FinishedSignIn struct {
	_        struct{} `additionalProperties:"true"`
	Provider string   `json:"provider,omitempty" maxLength:"40" doc:"ID of the provider in the redirect path /oauth/callback/{provider}; missing for connectors, /oauth/callback." example:"linear"`
	State    string   `json:"state" minLength:"1" maxLength:"1024"`
	Code     string   `json:"code,omitempty" maxLength:"4096" writeOnly:"true"`
	Iss      string   `json:"iss,omitempty" maxLength:"2048" doc:"The issuer, if the response has it."`
	Error    string   `json:"error,omitempty" maxLength:"1024" doc:"The error from the service, instead of code."`
	// Parameters of apps and brokers.
	Installation string `json:"installation_id,omitempty" maxLength:"100" doc:"Installation ID of a GitHub App; verified at GitHub."`
	Setup        string `json:"setup_action,omitempty" maxLength:"20" doc:"Setup action of a GitHub App; request: someone there must approve first."`
	Connection   string `json:"connection_id,omitempty" maxLength:"200" doc:"Connection ID from a broker, which shows it when its page is done. Required to finish a broker connection; verified there."`
}

// ConnectorView is a connector with its status.
type ConnectorView struct {
	action.Connector
	Source        string       `json:"source_id" example:"connector:0199a3c4-5d6e-7f80-9123-456789abcdef"`
	ToolCount     int          `json:"tool_count"`
	ResourceCount int          `json:"resource_count"`
	TemplateCount int          `json:"template_count"`
	PromptCount   int          `json:"prompt_count"`
	Protocol      string       `json:"protocol_version,omitempty" doc:"MCP version used with the server." example:"2025-11-25"`
	Error         string       `json:"error,omitempty" doc:"Why the tools cannot be listed."`
	Diagnosis     *Diagnosis   `json:"diagnosis,omitempty" doc:"The same error, classified."`
	RetryAt       *time.Time   `json:"retry_at,omitempty" doc:"Time of the next automatic attempt after a failure."`
	CircuitOpen   bool         `json:"circuit_open,omitempty" doc:"It failed repeatedly: calls fail at once until retry_at."`
	Steps         []StepView   `json:"steps,omitempty" nullable:"false" doc:"Result of the last request to the server."`
	Warnings      []string     `json:"warnings" nullable:"false"`
	SharedState   string       `json:"shared_state,omitempty" doc:"Why its agents should not share a session with the server; missing: nothing suggests it, or each has its own (per_agent)."`
	FetchedAt     *time.Time   `json:"fetched_at,omitempty" doc:"When its tools were last listed."`
	OAuthStatus   *OAuthStatus `json:"oauth_status,omitempty" doc:"Status of its tokens; missing without OAuth."`
	ReviewReset   bool         `json:"review_reset,omitempty" doc:"The change of the URL reset the review, because a different server may be behind it."`
	Modes         *ModeCounts  `json:"modes,omitempty" doc:"Number of tools by mode, in a session without a group or automation. Not in lists."`
	Recognized    string       `json:"recognized_preset,omitempty" doc:"Known server with these tools, if the connector was not created from its preset: it has modes to propose. Not in lists." example:"notion"`
	Tools         []ToolView   `json:"tools,omitempty" nullable:"false" doc:"Not in lists."`
	Beside        []ToolView   `json:"beside,omitempty" nullable:"false" doc:"How its resources are read and prompts are gotten: actions with policy, but not tools. Not in lists."`
}

// StepView is a step of a request to a server.
type StepView struct {
	Name   string  `json:"name" example:"handshake"`
	TookMS float64 `json:"took_ms" example:"12.5"`
	Detail string  `json:"detail,omitempty"`
	Failed bool    `json:"failed,omitempty" doc:"Steps of the last attempt that failed."`
}

// ToolView is one tool of a connector.
type ToolView struct {
	Name        string      `json:"name" doc:"Name at its server." example:"create_issue"`
	Tool        string      `json:"tool,omitempty" doc:"Name for agents; missing: it is not a tool." example:"github_create_issue"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty" doc:"Text from the server."`
	Risk        action.Risk `json:"risk"`
	Mode        action.Mode `json:"mode,omitempty" doc:"In a session without a group or automation."`
}

// Diagnosis is the classified error of a connector.
type Diagnosis struct {
	_       struct{} `nullable:"true"`
	Code    string   `json:"code" doc:"One of upstream_dns, upstream_unreachable, upstream_tls, upstream_blocked, upstream_timeout, upstream_auth, upstream_credential, upstream_reconnect, upstream_transport, upstream_protocol, upstream_too_large, upstream_rate_limited, upstream_refused, upstream_failed, upstream_config, upstream_circuit_open or tools_unrecorded." example:"upstream_auth"`
	Message string   `json:"message" doc:"What happened and what to do, in one or two sentences."`
	Field   string   `json:"field,omitempty" doc:"The setting that causes it, as a JSON Pointer; missing: none." example:"/secret_value"`
}

// FromPreset names the preset of a connector. Other fields override the
// preset.
type FromPreset struct {
	Preset  string `json:"preset,omitempty" maxLength:"40" doc:"Known server that sets url, header, prefix, headers and per_agent, unless they are given." example:"linear" kong:"placeholder='P',help='Known server to take the endpoint and headers from; see connector presets.'"`
	Variant string `json:"variant,omitempty" maxLength:"40" doc:"Variant of the preset: a region, or a read-only version." example:"read-only" kong:"placeholder='V',help='Region or part of the preset, such as a read-only one; needs --preset.'"`
}

// Preset has the settings of a public MCP server.
type Preset struct {
	Name         string                 `json:"name" doc:"Name to use as preset for a new connector." example:"linear"`
	Title        string                 `json:"title" example:"Linear"`
	URL          string                 `json:"url" doc:"Empty: you provide it." example:"https://mcp.linear.app/mcp"`
	Auth         []string               `json:"auth" nullable:"false" enum:"none,secret,oauth" doc:"Supported kinds, the recommended one first."`
	Header       string                 `json:"header,omitempty" doc:"Header that carries a secret; missing: Authorization."`
	Prefix       string                 `json:"prefix,omitempty" doc:"Text before a secret." example:"Bearer "`
	Registration string                 `json:"registration,omitempty" enum:"dynamic,static,allow_listed" doc:"How an OAuth client is registered: automatically, by a person at the service, or only by the service."`
	Headers      map[string]string      `json:"headers,omitempty" nullable:"false" doc:"Fixed headers."`
	PerAgent     bool                   `json:"per_agent,omitempty" doc:"The server keeps state per session."`
	Variants     []PresetVariant        `json:"variants" nullable:"false"`
	Modes        map[string]action.Mode `json:"modes,omitempty" nullable:"false" doc:"Modes that it proposes for its tools, by name or pattern."`
	Known        []string               `json:"-"` // names of tools by which it is recognized
	Servers      []string               `json:"-"` // names that its servers give themselves
	Hint         string                 `json:"hint" doc:"Where to get a credential."`
	Unsure       []string               `json:"unsure,omitempty" nullable:"false" doc:"Fields not confirmed by its documentation: check there."`
}

// PresetVariant is a variant of a preset, such as a region or a read-only
// version.
type PresetVariant struct {
	Name    string            `json:"name" example:"read-only"`
	Title   string            `json:"title"`
	Region  bool              `json:"region,omitempty"`
	URL     string            `json:"url,omitempty" doc:"Missing: the value of the preset."`
	Headers map[string]string `json:"headers,omitempty" nullable:"false" doc:"In addition to the preset."`
	Auth    []string          `json:"auth,omitempty" nullable:"false" doc:"Missing: the value of the preset."`
	Unsure  bool              `json:"unsure,omitempty"`
}

// Upstream has the settings of a connector's server; missing ones stay
// unchanged or get their default.
type Upstream struct {
	URL            *string            `json:"url,omitempty" minLength:"1" maxLength:"2048" nullable:"false" doc:"URL of the MCP endpoint, http or https. A new one resets the review." example:"https://mcp.example.com/mcp" kong:"-"`
	Header         *string            `json:"header,omitempty" maxLength:"64" nullable:"false" doc:"Header that carries the secret; default Authorization." example:"Authorization" kong:"placeholder='H',help='Header that carries the secret (default: Authorization).'"`
	Prefix         *string            `json:"prefix,omitempty" maxLength:"64" nullable:"false" doc:"Text before the secret; default \"Bearer \" in Authorization, nothing elsewhere." example:"Bearer " kong:"placeholder='P',help='Text before the secret in the header, such as \\'Bearer \\'.'"`
	Secret         *string            `json:"secret,omitempty" maxLength:"64" nullable:"false" doc:"Name of a secret that is bound to the host of the URL; empty: no credential." example:"github" kong:"placeholder='KEY',help='Name of the secret to send; see secret set.'"`
	SecretValue    string             `json:"secret_value,omitempty" maxLength:"16384" writeOnly:"true" doc:"Also sets the secret, bound to the host of the URL, in the same transaction. Without secret its name is the connector's, or its slug. It cannot be read back." kong:"-"`
	Headers        *map[string]string `json:"headers,omitempty" nullable:"false" doc:"Fixed headers, visible to members; at most 10, without credentials. Replaces all." kong:"-"`
	OAuth          *NewOAuth          `json:"oauth,omitempty" doc:"OAuth settings, used instead of a secret; replaces all." kong:"-"`
	MayAsk         *[]action.AskKind  `json:"may_ask,omitempty" nullable:"false" enum:"elicitation,url_elicitation,sampling,roots" doc:"Questions that the server may ask the caller during a call; default none. A hostile server could use them for phishing, and the caller's model pays for sampling." kong:"-"`
	PerAgent       *bool              `json:"per_agent,omitempty" nullable:"false" doc:"Open a separate upstream session per agent session; for servers with state." kong:"placeholder='BOOL',help='Open one upstream session per agent session; --per-agent=false to share one (default: shared, unless the server may ask questions).'"`
	PinnedProtocol *string            `json:"protocol,omitempty" maxLength:"10" nullable:"false" doc:"The only version of MCP to speak with the server: 2025-03-26, 2025-06-18, 2025-11-25 (with sessions) or 2026-07-28 (without); empty: as agreed with it. A server that may ask questions or has per_agent is spoken to with sessions, if it can." example:"2025-11-25" kong:"name='protocol',placeholder='VERSION',help='Only this MCP version: 2025-03-26, 2025-06-18, 2025-11-25 (with sessions) or 2026-07-28 (without); --protocol= to agree on one (default: agreed, with sessions if the server may ask questions or has --per-agent).'"`
	DefaultRisk    *action.Risk       `json:"default_risk,omitempty" enum:"read,write,danger" nullable:"false" doc:"Risk of tools without hints; default write." kong:"name='risk',enum='',placeholder='RISK',help='Risk of tools without hints: read, write or danger (default: write).'"`
	Timeout        *int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"120" nullable:"false" doc:"Timeout of one call; 0: the gateway's." kong:"type='calltime',placeholder='D',help='Timeout of one call, 1s to 2m; 0 for the gateway timeout (default: 0).'"`
	ToolRules
}

// ToolRules are the risks and review rule of a connector's tools.
type ToolRules struct {
	Risks  *map[string]action.Risk `json:"tool_risks,omitempty" nullable:"false" doc:"Risk of single tools, overriding hints; replaces all." kong:"-"`
	Review *action.ReviewRule      `json:"review,omitempty" enum:"trust,strict,required" nullable:"false" doc:"Review rule: trust accepts the first list as reviewed, strict also counts changed texts as drift, required denies unreviewed tools. Default trust." kong:"-"`
}

// NewOAuth is the OAuth settings of a connector.
type NewOAuth struct {
	Kind         string   `json:"kind" enum:"authorization_code,client_credentials,none" doc:"authorization_code: an owner or admin signs in once; client_credentials: the gateway fetches tokens itself; none: no OAuth."`
	ClientID     string   `json:"client_id,omitempty" maxLength:"1024" doc:"ID of a manually registered client; missing: the gateway registers itself if possible."`
	ClientSecret string   `json:"client_secret,omitempty" maxLength:"64" doc:"Name of the secret with the client secret, bound to the host of the token endpoint."`
	Scopes       []string `json:"scopes,omitempty" maxItems:"50" nullable:"false" doc:"Unique, at most 200 characters each; missing: what the server requests."`
	Issuer       string   `json:"issuer,omitempty" maxLength:"2048" doc:"The only authorization server to use; missing: the one that the server names, fixed at the first sign-in." example:"https://auth.example.com"`
}

// Onboarding has a person's decisions about a connector's tools.
type Onboarding struct {
	Tools []OnboardedTool `json:"tools" minItems:"1" maxItems:"10000" nullable:"false"`
}

// OnboardedTool is a reviewed tool with its new mode. The actions
// resources/read and prompts/get have no hashes.
type OnboardedTool struct {
	SeenTool
	Mode action.Mode `json:"mode,omitempty" enum:"allow,require_approval,deny" doc:"Mode for the organization; missing: unchanged."`
}

// ReviewView is the review of a tool.
type ReviewView struct {
	Tool       string             `json:"tool" doc:"Name at its server." example:"create_issue"`
	State      action.ReviewState `json:"state" enum:"new,reviewed,changed,removed"`
	Risk       action.Risk        `json:"risk,omitempty" doc:"Missing if it is not listed."`
	Mode       action.Mode        `json:"mode,omitempty" doc:"In a plain session; missing if it is not listed."`
	ModeSource action.Layer       `json:"mode_source,omitempty"`
	Reviewed   *Definition        `json:"reviewed" doc:"Null: never reviewed, or not since the connector changed."`
	Current    *Definition        `json:"current" doc:"Null: not listed."`
	ReviewedBy string             `json:"reviewed_by,omitempty" doc:"A user, or \"first list\" if no person reviewed it."`
	ReviewedAt *time.Time         `json:"reviewed_at,omitempty"`
	SeenAt     time.Time          `json:"seen_at" doc:"First listed in this version."`
	Changes    []Change           `json:"changes" nullable:"false" doc:"From the reviewed definition to the current one."`
}

// Definition is a tool as a connector listed it.
type Definition struct {
	_ struct{} `nullable:"true"`
	action.ToolHashes
	Definition json.RawMessage `json:"definition" doc:"Text from the server."`
}

// SeenTool is a tool with the hashes that a person saw.
type SeenTool struct {
	Tool      string `json:"tool" minLength:"1" maxLength:"200" example:"create_issue"`
	Behaviour string `json:"behaviour_hash,omitempty" maxLength:"200" doc:"Missing, with text_hash: it is no longer listed, and is removed."`
	Text      string `json:"text_hash,omitempty" maxLength:"200"`
}

// ReviewList has the reviews of a connector's tools.
type ReviewList struct {
	List[ReviewView]
	FetchedAt *time.Time `json:"fetched_at,omitempty" doc:"When the tools were last listed; missing: never."`
	Error     string     `json:"error,omitempty" doc:"Why the last request to the server failed; the list is older."`
}

// NewReview marks tools as reviewed.
type NewReview struct {
	Tools []SeenTool `json:"tools,omitempty" minItems:"1" maxItems:"10000" nullable:"false"`
	All   bool       `json:"all,omitempty" doc:"Instead of tools: every tool in its current version; removed tools are deleted."`
}

// Change is one difference between two definitions of a tool.
type Change struct {
	Path   string          `json:"path" doc:"JSON Pointer; empty: the whole definition." example:"/inputSchema/properties/force"`
	Kind   string          `json:"kind" enum:"behaviour,text" doc:"behaviour: what the tool takes, returns or declares about its effects; text: what people and models read."`
	Before json.RawMessage `json:"before,omitempty" doc:"Missing: it did not exist. Truncated if it is long."`
	After  json.RawMessage `json:"after,omitempty" doc:"Missing: it no longer exists. Truncated if it is long."`
}

// ListToolsInput is the input of [ListTools].
type ListToolsInput struct {
	ByRef
	Fresh bool `query:"fresh" doc:"Ask the server first; owners and admins only."`
}
