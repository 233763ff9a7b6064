package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/action"
)

// NewIntegration is a connection to a service that a credential makes.
type NewIntegration struct {
	Connecting
	Secret string `json:"secret,omitempty" maxLength:"16384" writeOnly:"true" doc:"The key or token; kind none has none. It is sealed, sent to the host of the service alone, and never read back."`
}

// NewConnection is a connection to a service that a person's browser finishes.
type NewConnection struct {
	Connecting
	Scopes []string `json:"scopes,omitempty" maxItems:"50" nullable:"false" doc:"Of OAuth; absent: those that the actions need."`
}

// Connecting is what may be said of a connection as it is made.
type Connecting struct {
	Provider   string                 `json:"provider" minLength:"1" maxLength:"40" doc:"Id of a provider." example:"linear"`
	Kind       action.IntegrationKind `json:"kind,omitempty" enum:"api_key,bot_token,oauth2,app_installation,none" doc:"Absent: the best that the provider has of those that this route takes."`
	Broker     action.Broker          `json:"broker,omitempty" enum:"nango" doc:"Who keeps the tokens of kind oauth2; absent: the gateway itself."`
	Name       string                 `json:"name,omitempty" maxLength:"120" doc:"What people here call it; absent: made of the service and the account."`
	Own        bool                   `json:"own,omitempty" doc:"Your own connection, used where an action asks for your name on what it does. A member makes no others."`
	Visibility action.Visibility      `json:"visibility,omitempty" enum:"organization,private" doc:"Who may see and use it; private: you alone, as every connection of your own is."`
	BaseURL    string                 `json:"base_url,omitempty" maxLength:"2048" doc:"Of the service's API, where it is not the provider's; https, or http on this machine. The credential is sent to its host alone." example:"https://sentry.example.com"`
	Settings   raw                    `json:"settings,omitempty" doc:"An object that fits the provider's settings_schema."`
	Timeout    int                    `json:"timeout_seconds,omitempty" minimum:"0" maximum:"120" doc:"Of one call; 0: the gateway's."`
}

// IntegrationChange is what may change of an integration.
type IntegrationChange struct {
	Name       *string            `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false"`
	Visibility *action.Visibility `json:"visibility,omitempty" enum:"organization,private" nullable:"false" doc:"private: only who made it."`
	Settings   raw                `json:"settings,omitempty" doc:"An object that fits the provider's settings_schema; replaces all of it."`
	Timeout    *int               `json:"timeout_seconds,omitempty" minimum:"0" maximum:"120" nullable:"false" doc:"Of one call; 0: the gateway's."`
	Secret     string             `json:"secret,omitempty" maxLength:"16384" writeOnly:"true" doc:"Another key or token of the same account, of kinds api_key and bot_token. It is verified at the service before anything changes."`
}

// Disconnected tells how an integration ended.
type Disconnected struct {
	Revoked bool `json:"revoked" doc:"The service took the credential back. Otherwise it knows no such thing, or could not be reached: remove the credential there."`
}

// MetadataQuery is the query of a metadata route, whose parameters are the
// provider's own.
type MetadataQuery struct {
	ByID
	query url.Values
}

// Resolve keeps the whole query, which no description can list.
func (q *MetadataQuery) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	q.query = u.Query()
	return nil
}

// saved is an integration that is new, or was connected again.
type saved struct {
	Status int
	Body   IntegrationView
}

func (s *Server) integrationRoutes() {
	s.integrationReads()
	s.integrationChanges()
	s.connectRoutes()
	s.providerAppRoutes()
	s.bindingRoutes()
}

func (s *Server) integrationReads() {
	register(s, route{
		method: "GET", path: "/api/v1/integrations/providers", tag: "integrations", summary: "List the services that can be connected",
	}, func(context.Context, *Principal, *none) (*body[List[Provider]], error) {
		return listOf(s.Providers), nil
	})
	register(s, route{
		method: "GET", path: "/api/v1/integrations", tag: "integrations", summary: "List the integrations that you may see",
		doc: "Those of the organization, and your own and private ones.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[IntegrationView]], error) {
		views, err := s.integrations(ctx, p)
		return listOf(views), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/integrations/{id}", tag: "integrations", summary: "Read an integration",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[IntegrationView], error) {
		i, err := s.Integrations.Integration(ctx, p.Organization, in.ID, p.viewer())
		return bodyOf(s.viewIntegration(i)), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/integrations/{id}/metadata", tag: "integrations", summary: "Ask the service what forms need",
		doc:    "Such as its teams and projects; which, the query says in the provider's own parameters. The credential may see more of them than everybody here may know of. " + managersDoc,
		errors: []int{http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *MetadataQuery) (*body[json.RawMessage], error) {
		i, err := s.managed(ctx, p, in.ID)
		if err != nil {
			return nil, err
		}
		data, err := s.Connections.Metadata(ctx, i, in.query)
		return bodyOf(data), inQuery(err)
	})
}

func (s *Server) integrationChanges() {
	register(s, route{
		method: "POST", path: "/api/v1/integrations", tag: "integrations", summary: "Connect a service with a key or token", status: http.StatusCreated,
		doc:    "The credential is verified at the service first. An account that is connected already is renewed, and answered with 200. Only owners and admins connect for the organization.",
		errors: []int{http.StatusConflict, http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewIntegration }) (*saved, error) {
		return s.connect(ctx, p, in.Body)
	})
	register(s, route{
		method: "PATCH", path: "/api/v1/integrations/{id}", tag: "integrations", summary: "Change an integration",
		doc: "Fields that are absent stay. " + managersDoc, errors: []int{http.StatusConflict, http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body IntegrationChange
	},
	) (*body[IntegrationView], error) {
		i, err := s.changeIntegration(ctx, p, in.ID, in.Body)
		return bodyOf(s.viewIntegration(i)), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/integrations/{id}/check", tag: "integrations", summary: "Ask the service whether the credential is good", status: http.StatusOK,
		doc: "Keeps what the service says. " + managersDoc, errors: []int{http.StatusBadGateway},
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[IntegrationView], error) {
		i, err := s.checkIntegration(ctx, p, in.ID)
		return bodyOf(s.viewIntegration(i)), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/integrations/{id}", tag: "integrations", summary: "Disconnect a service", status: http.StatusOK,
		doc: "Its credential is given back, where the service takes it, and wiped. " + managersDoc,
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[Disconnected], error) {
		revoked, err := s.disconnect(ctx, p, in.ID)
		return bodyOf(Disconnected{revoked}), err
	})
}

// managersDoc says who manages what; see manages.
const managersDoc = "A private or own one is its owner's alone; others are for owners and admins."

// inQuery says of what is wrong with a query that it is no field of a body.
func inQuery(err error) error {
	e := action.Public(err)
	if e.Kind == nil || e.Field == "" {
		return err
	}
	return placed(err, "/query"+e.Field)
}
