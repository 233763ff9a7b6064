package api

import (
	"encoding/json"

	"sallyport/action"
)

// Routes.
var (
	ListApps = Route[None, List[action.ProviderApp]]{Operation{
		Method: "GET", Path: "/api/v1/integrations/apps", Who: Decider, Tag: "integrations",
		Summary: "List registrations of the gateway at services",
		Doc:     "Secrets are listed by name.",
	}}
	PutApp = Route[ByProviderWith[NewApp], action.ProviderApp]{Operation{
		Method: "PUT", Path: "/api/v1/integrations/apps/{provider}", Who: Decider, Tag: "integrations", Status: 200, Errors: []int{409},
		Summary: "Register the gateway at a service",
		Doc:     "Enter what the service issued when you registered the gateway there. The redirect URL is /oauth/callback/{provider} of the public URL; it is also the Setup URL of a GitHub App. Replaces all settings and secrets.",
	}}
	DeleteApp = Route[ByProvider, None]{Operation{
		Method: "DELETE", Path: "/api/v1/integrations/apps/{provider}", Who: Decider, Tag: "integrations", Errors: []int{409},
		Summary: "Delete a registration",
		Doc:     "Refused while an integration uses it.",
	}}
	ConnectIntegration = Route[Body[NewConnection], ConnectLink]{Operation{
		Method: "POST", Path: "/api/v1/integrations/connect", Who: Member, Tag: "integrations", Status: 200, Errors: []int{409, 429, 502},
		Summary: "Start connecting a service in the browser",
		Doc:     "For kinds oauth2 and app_installation. The same person finishes it within five minutes, with the browser or API key that started it: the service redirects to /oauth/callback/{provider}, a page that sends the result to /api/v1/oauth/finish. A broker does not redirect: when its page is done, send the provider, the state and, as connection_id, the ID of the connection that the broker shows.",
	}}
	ListProviders = Route[None, List[Provider]]{Operation{
		Method: "GET", Path: "/api/v1/integrations/providers", Who: Member, Tag: "integrations",
		Summary: "List providers",
	}}
	ListIntegrations = Route[None, List[IntegrationView]]{Operation{
		Method: "GET", Path: "/api/v1/integrations", Who: Member, Tag: "integrations",
		Summary: "List integrations you can see",
		Doc:     "Those of the organization, and your own and private ones.",
	}}
	GetIntegration = Route[ByID, IntegrationView]{Operation{
		Method: "GET", Path: "/api/v1/integrations/{id}", Who: Member, Tag: "integrations",
		Summary: "Get an integration",
	}}
	GetIntegrationMetadata = Route[ByID, json.RawMessage]{Operation{
		Method: "GET", Path: "/api/v1/integrations/{id}/metadata", Who: Member, Tag: "integrations", Errors: []int{502},
		Summary: "List values for forms from the service",
		Doc:     "For example teams and projects, selected by the provider's own query parameters. The credential may see more than everyone here should. Private and personal integrations: only for their owner; others: for owners and admins.",
	}}
	CreateIntegration = Route[Body[NewIntegration], IntegrationView]{Operation{
		Method: "POST", Path: "/api/v1/integrations", Who: Member, Tag: "integrations", Status: 201, Errors: []int{409, 502},
		Summary: "Connect a service with a key or token",
		Doc:     "The credential is verified at the service first. If the account is already connected, its integration is updated, with status 200. Only owners and admins connect services for the organization.",
	}}
	UpdateIntegration = Route[ByIDWith[IntegrationChange], IntegrationView]{Operation{
		Method: "PATCH", Path: "/api/v1/integrations/{id}", Who: Member, Tag: "integrations", Errors: []int{409, 502},
		Summary: "Change an integration",
		Doc:     "Missing fields stay unchanged. Private and personal integrations: only for their owner; others: for owners and admins.",
	}}
	CheckIntegration = Route[ByID, IntegrationView]{Operation{
		Method: "POST", Path: "/api/v1/integrations/{id}/check", Who: Member, Tag: "integrations", Status: 200, Errors: []int{502},
		Summary: "Test the credential at the service",
		Doc:     "Stores the result. Private and personal integrations: only for their owner; others: for owners and admins.",
	}}
	DeleteIntegration = Route[ByID, Disconnected]{Operation{
		Method: "DELETE", Path: "/api/v1/integrations/{id}", Who: Member, Tag: "integrations", Status: 200,
		Summary: "Disconnect a service",
		Doc:     "The credential is revoked, if the service supports it, and deleted. Private and personal integrations: only for their owner; others: for owners and admins.",
	}}
)

// NewApp is the gateway's registration at a service or broker. It replaces
// the previous one.
type NewApp struct {
	ClientID     string            `json:"client_id,omitempty" maxLength:"1024" doc:"OAuth client ID issued by the service." kong:"env='-',placeholder='ID',help='OAuth client ID issued by the service.'"`
	ClientSecret string            `json:"client_secret,omitempty" maxLength:"4096" writeOnly:"true" kong:"-"`
	AppID        string            `json:"app_id,omitempty" maxLength:"100" doc:"ID of a GitHub App." example:"123456" kong:"name='app-id',env='-',placeholder='N',help='ID of the GitHub App.'"`
	Slug         string            `json:"slug,omitempty" maxLength:"100" doc:"Slug of a GitHub App in its installation URL." example:"acme-gate" kong:"env='-',placeholder='NAME',help='Slug of the GitHub App in its installation URL.'"`
	PrivateKey   string            `json:"private_key,omitempty" maxLength:"16384" writeOnly:"true" doc:"Private key of a GitHub App: an RSA key in PEM." kong:"-"`
	APIKey       string            `json:"api_key,omitempty" maxLength:"4096" writeOnly:"true" doc:"Key of the environment at a broker." kong:"-"`
	BaseURL      string            `json:"base_url,omitempty" maxLength:"2048" doc:"Base URL of a self-hosted service; https, or http on this machine. The secrets are sent only to its host." example:"https://github.example.com/api/v3" kong:"env='-',placeholder='URL',help='Base URL of a self-hosted service; the secrets are sent only to its host.'"`
	Keys         map[string]string `json:"keys,omitempty" nullable:"false" doc:"Names of providers at a broker (Nango: provider_config_key), by provider; missing: the ID of the provider." kong:"name='key',mapsep='none',env='-',placeholder='PROVIDER=NAME',help='Name of a provider in Nango; repeat for more (default: the same name as here).'"`
}

// ByProvider is the parameter of a route about a provider.
type ByProvider struct {
	Provider string `path:"provider" maxLength:"40" doc:"ID of a provider, or nango." example:"linear" kong:"arg,help='Provider, or nango.'"`
}

// ConnectLink is the URL where a person continues to connect a service.
type ConnectLink struct {
	action.ConnectStep
	Host string `json:"host" doc:"Host of the URL: show it to the person before you redirect." example:"linear.app"`
}

// Finished is the result of a redirect: a connector, whose fields are
// inlined, or an integration.
type Finished struct {
	Of string `json:"of" enum:"connector,integration"`
	*ConnectorView
	Integration *IntegrationView `json:"integration,omitempty" doc:"The integration that is now connected; fields of a connector are then missing."`
}

// NewIntegration connects a service with a credential.
type NewIntegration struct {
	Connecting
	Secret string `json:"secret,omitempty" maxLength:"16384" writeOnly:"true" doc:"The key or token; kind none has none. It is stored encrypted, sent only to the host of the service, and cannot be read back." kong:"-"`
}

// NewConnection connects a service in a browser.
type NewConnection struct {
	Connecting
	Scopes []string `json:"scopes,omitempty" maxItems:"50" nullable:"false" doc:"OAuth scopes; missing: those that the actions need."`
}

// Connecting has the settings of a new connection.
type Connecting struct {
	Provider   string                 `json:"provider" minLength:"1" maxLength:"40" doc:"ID of a provider." example:"linear" kong:"arg,help='Provider; see integration providers.'"`
	Kind       action.IntegrationKind `json:"kind,omitempty" enum:"api_key,bot_token,oauth2,app_installation,none" doc:"Missing: the best kind of the provider that this route supports." kong:"enum='api_key,bot_token,oauth2,app_installation,none,',default='',placeholder='KIND',help='Credential type: api_key, bot_token, none, or in the browser oauth2 or app_installation (default: the first that needs no browser).'"`
	Broker     action.Broker          `json:"broker,omitempty" enum:"nango" doc:"Who stores the tokens of kind oauth2; missing: the gateway." kong:"-"`
	Name       string                 `json:"name,omitempty" maxLength:"120" doc:"Display name; missing: service and account." kong:"placeholder='NAME',help='Display name (default: provider and account).'"`
	Own        bool                   `json:"own,omitempty" doc:"A personal connection, used for actions that show your name. Members can create only these." kong:"env='-',help='Connect for yourself only, for actions that show your name.'"`
	Visibility action.Visibility      `json:"visibility,omitempty" enum:"organization,private" doc:"Who can see and use it; private: only you, as with every personal connection." kong:"-"`
	BaseURL    string                 `json:"base_url,omitempty" maxLength:"2048" doc:"Base URL of the API, if it is not the provider's; https, or http on this machine. The credential is sent only to its host." example:"https://sentry.example.com" kong:"env='-',placeholder='URL',help='Base URL of the API; the credential is sent only to its host.'"`
	Settings   json.RawMessage        `json:"settings,omitempty" doc:"An object that matches settings_schema of the provider." kong:"env='-',placeholder='JSON',help='Settings of the provider as a JSON object.'"`
	Timeout    int                    `json:"timeout_seconds,omitempty" minimum:"0" maximum:"120" doc:"Timeout of one call; 0: the gateway's." kong:"type='calltime',placeholder='D',help='Timeout of one call, 1s to 2m; 0 for the gateway timeout (default: 0).'"`
}

// IntegrationChange changes an integration.
type IntegrationChange struct {
	Name       *string            `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false" kong:"placeholder='NAME',help='Display name.'"`
	Visibility *action.Visibility `json:"visibility,omitempty" enum:"organization,private" nullable:"false" doc:"private: only its creator." kong:"-"`
	Settings   json.RawMessage    `json:"settings,omitempty" doc:"An object that matches settings_schema of the provider; replaces all settings." kong:"env='-',placeholder='JSON',help='Settings of the provider as a JSON object; replaces all settings.'"`
	Timeout    *int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"120" nullable:"false" doc:"Timeout of one call; 0: the gateway's." kong:"type='calltime',placeholder='D',help='Timeout of one call, 1s to 2m; 0 for the gateway timeout.'"`
	Secret     string             `json:"secret,omitempty" maxLength:"16384" writeOnly:"true" doc:"A new key or token of the same account, for kinds api_key and bot_token. It is verified at the service before anything changes." kong:"-"`
}

// Disconnected is the result of disconnecting a service.
type Disconnected struct {
	Revoked bool `json:"revoked" doc:"The service revoked the credential. Otherwise it does not support that or could not be reached: remove the credential there."`
}

// IntegrationView is an integration with its status.
type IntegrationView struct {
	action.Integration
	Title  string `json:"provider_title" example:"Linear"`
	Usable bool   `json:"usable" doc:"Sessions with this integration can call its actions."`
	Why    string `json:"unusable_reason,omitempty" doc:"Why they cannot, and what to do."`
}

// Provider is a service that the gateway has a module for.
type Provider struct {
	ID       string           `json:"id" example:"linear"`
	Title    string           `json:"title" example:"Linear"`
	About    string           `json:"about"`
	Guide    string           `json:"guide" doc:"Markdown, for agents."`
	BaseURL  string           `json:"base_url,omitempty" doc:"Base URL of the API, unless an integration sets one."`
	Needs    []ProviderNeed   `json:"needs" doc:"Ways to connect, the recommended one first."`
	Settings json.RawMessage  `json:"settings_schema,omitempty" doc:"JSON Schema of the settings of an integration."`
	Actions  []ProviderAction `json:"actions"`
	Metadata bool             `json:"metadata" doc:"Whether there are values for forms."`
	Many     bool             `json:"many" doc:"Whether one session can have several integrations of it."`

	// CheckSettings validates settings against the schema. It returns
	// ErrInvalid with a field below /settings. Nil: settings are not
	// validated.
	CheckSettings func(settings json.RawMessage) error `json:"-"`
}

// ProviderNeed is a way to connect to a service.
type ProviderNeed struct {
	Kind   action.IntegrationKind `json:"kind" enum:"api_key,bot_token,oauth2,app_installation,none"`
	Users  bool                   `json:"users" doc:"Whether people can connect personal accounts."`
	App    bool                   `json:"app" doc:"Whether the gateway must be registered at the service first."`
	Scopes []string               `json:"scopes,omitempty"`
	Hint   string                 `json:"hint,omitempty"`
}

// ProviderAction is one action of a module.
type ProviderAction struct {
	Name        string          `json:"name" example:"create_issue"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Risk        action.Risk     `json:"risk" enum:"read,write,danger"`
	Level       action.Level    `json:"level"`
	Idempotent  bool            `json:"idempotent"`
	Input       json.RawMessage `json:"input_schema"`
}
