package sources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/outbound"
)

// Module is a service with built-in support: how to connect to it, and its
// actions. It is stateless (credential, URL and client come with each call) and
// immutable.
type Module struct {
	ID    string // source ID and prefix of its tools, [a-z0-9-]{1,16}
	Title string // name of the service, for people
	About string // one sentence for people
	Guide string // Markdown for agents, to read before the first call
	// BaseURL is the URL of the service's API if an integration sets none.
	// Empty: the module makes no requests.
	BaseURL string
	Needs   []Need // ways to connect, the preferred one first
	// Settings is the JSON Schema of an integration's settings, an object. Nil:
	// none.
	Settings json.RawMessage
	Actions  []ModuleAction
	// Account asks the service for the owner of the credential. It is called
	// before an integration is saved, and to check that one still works. Nil:
	// there is no credential.
	Account func(ctx context.Context, c *Conn) (Account, error)
	// Revoke revokes the credential. Nil: the service does not support it, or
	// the broker does it.
	Revoke func(ctx context.Context, c *Conn) error
	// Metadata returns data for forms, selected by the query: see the module.
	// Nil: none.
	Metadata func(ctx context.Context, c *Conn, q url.Values) (any, error)
	// Poll returns the events since the cursor of the previous poll. With a nil
	// or unreadable cursor it starts at the present. Errors are those of Run.
	// Nil: the service cannot be polled.
	Poll func(ctx context.Context, c *Conn, cursor json.RawMessage) (event.PollResult, error)
	// Hydrate completes an event whose delivery lacks data. It uses the IDs in
	// the delivery, never its URLs. If nothing is missing it returns false and
	// makes no request. Errors are those of Run. Nil: deliveries are complete.
	Hydrate func(ctx context.Context, c *Conn, e *event.Event) (changed bool, err error)
	// Workspace says that an account is a workspace shared by many people, so
	// that a user's own connection replaces the organization's only if both
	// belong to the same one. Otherwise an account is a person or an
	// installation.
	Workspace bool
	// Choose returns the index of the integration, out of several, that the
	// params refer to, or -1. Nil: a session is bound to one at a time.
	Choose func(params json.RawMessage, among []action.Integration) int
}

// Need is a way to connect to a service.
type Need struct {
	Kind action.IntegrationKind
	// Users can connect as themselves, in addition to the organization.
	Users bool
	// Preset names the OAuth endpoints in package credential. For KindOAuth2
	// and KindApp.
	Preset string
	Scopes []string // required by the actions, as the service names them
	Hint   string   // where to get the credential, and what triggers need in addition
}

// ModuleAction is one operation of a module.
type ModuleAction struct {
	Name        string
	Title       string
	Description string // for agents
	Risk        action.Risk
	Idempotent  bool // repeating it with the same params changes nothing
	// AsUser attributes the action to the creator of the session: it uses that
	// person's own connection if there is one.
	AsUser bool
	Input  json.RawMessage // JSON Schema of the params
	// Summarize describes in one line what a call with the params would do.
	Summarize func(params json.RawMessage) string
	Examples  []Example
	// Guard rejects params that the integration's settings do not permit,
	// before an approval is requested. It makes no request. Run rejects the
	// same params. Nil: no such check.
	Guard func(settings, params json.RawMessage) error
	// Production says why a call with params that Guard permits changes
	// production, as [action.Action.Production] does; empty: it does not. It
	// makes no request. Nil: no call does.
	Production func(settings, params json.RawMessage) string
	// Run executes the action and returns a JSON object. Params are valid
	// against Input. If the service refuses, the error is a [*Refusal]; other
	// errors are those of [outbound.Client.Do].
	Run func(ctx context.Context, c *Conn, params json.RawMessage) (json.RawMessage, error)

	closed bool // does not reach anything outside the gateway
}

// Example is an example call for guides.
type Example struct {
	Note   string
	Params json.RawMessage
}

// Conn is what a module uses for one call.
type Conn struct {
	Kind     action.IntegrationKind
	Token    string           // empty: none
	HTTP     *outbound.Client // for the integration's base URL
	Settings json.RawMessage  // of the integration; nil: none
	Account  string           // of the integration; empty while unknown
}

// Account is the owner of a credential.
type Account struct {
	ID     string   // stable, unique at the service
	Name   string   // as shown by the service
	Scopes []string // as granted; nil: unknown
	// Settings derived from the account. Settings of an admin override them.
	// Nil: none.
	Settings json.RawMessage
}

// Refusal is a service's rejection of a request. Its text is shown to agents:
// one sentence that says what to change, without any credential.
type Refusal struct {
	Code    string // the service's error code; empty: the HTTP status
	Status  int    // of the HTTP answer
	Message string // such as "There is no issue X; list the issues to see their IDs."
	// Credential says that the service refused the credential and did nothing.
	Credential bool
	// Detail is the service's own text, untrusted: for people, in the log.
	Detail string
}

// Error implements error. It includes foreign text: for logs only.
func (r *Refusal) Error() string {
	return strings.TrimSpace(fmt.Sprintf("refused (%s, %d): %s %s", r.Code, r.Status, r.Message, r.Detail))
}

// service is a compiled module: its actions are tools like any others, with the
// gateway as the server.
type service struct {
	*Module
	catalog *Catalog
	tools   []*tool
	actions map[string]*ModuleAction // by name
	about   *action.About
}

// Modules returns the modules. Callers must not modify them.
func (c *Catalog) Modules() []*Module { return c.Config.Modules }

// newServices compiles modules. An error names a module that is broken, which
// is a bug in the gateway rather than in its configuration.
func newServices(c *Catalog) ([]*service, error) {
	list := make([]*service, 0, len(c.Config.Modules))
	for _, m := range c.Config.Modules {
		s, err := newService(m, c.Budget)
		if err == nil && slices.ContainsFunc(list, func(other *service) bool { return other.ID == m.ID }) {
			err = errors.New("it is defined twice")
		}
		if err != nil {
			return nil, fmt.Errorf("sources: module %.40q: %w", m.ID, err)
		}
		s.catalog = c
		list = append(list, s)
	}
	return list, nil
}

func newService(m *Module, budget time.Duration) (*service, error) {
	if err := m.check(budget); err != nil {
		return nil, err
	}
	s := &service{
		Module: m, actions: make(map[string]*ModuleAction, len(m.Actions)),
		about: &action.About{Title: m.Title, Text: m.About, Guide: m.Guide},
	}
	for i := range m.Actions {
		act := &m.Actions[i]
		t, err := act.compile(budget)
		if err == nil && s.actions[act.Name] != nil {
			err = errors.New("it is defined twice")
		}
		if err != nil {
			return nil, fmt.Errorf("action %.40q: %w", act.Name, err)
		}
		s.tools, s.actions[act.Name] = append(s.tools, t), act
	}
	return s, nil
}

// check validates a module except for its actions.
func (m *Module) check(budget time.Duration) error {
	if m.ID == "" || len(m.ID) > 16 || strings.Trim(m.ID, slugChars) != "" || m.Title == "" {
		return errors.New("a module has a title, and an id of 1 to 16 of a-z, 0-9 and -")
	}
	if len(m.Needs) == 0 {
		return errors.New("it has no way to connect")
	}
	for _, n := range m.Needs {
		if !n.Kind.Valid() {
			return fmt.Errorf("unknown kind %.40q of integration", n.Kind)
		}
		if n.Kind == action.KindOAuth2 && (n.Preset == "" || len(n.Scopes) == 0) {
			return errors.New("its OAuth has no preset, or no scopes")
		}
	}
	if m.Settings == nil {
		return nil
	}
	if _, notes, err := newChecker(m.Settings, budget); err != nil || len(notes) > 0 {
		return fmt.Errorf("its settings schema cannot be used: %w", err)
	}
	return nil
}

// slugChars are the characters of slugs and of the IDs of modules.
const slugChars = "abcdefghijklmnopqrstuvwxyz0123456789-"

// compile compiles an action like a tool that a server lists, and validates its
// examples, which agents copy.
func (a *ModuleAction) compile(budget time.Duration) (*tool, error) {
	if !a.Risk.Valid() || a.Run == nil {
		return nil, errors.New("it has no risk or no Run function")
	}
	raw, err := a.definition()
	if err != nil {
		return nil, err
	}
	t, err := compile(raw, budget)
	if err != nil {
		return nil, err
	}
	if len(t.notes) > 0 {
		return nil, fmt.Errorf("it %s", t.notes[0])
	}
	for i, e := range a.Examples {
		if err := t.checker.Check(e.Params); err != nil {
			return nil, fmt.Errorf("example %d: %w", i, err)
		}
	}
	return t, nil
}

// definition returns the action as an MCP tool.
func (a *ModuleAction) definition() (json.RawMessage, error) {
	type annotations struct {
		ReadOnly    bool `json:"readOnlyHint"`
		Destructive bool `json:"destructiveHint"`
		Idempotent  bool `json:"idempotentHint"`
		OpenWorld   bool `json:"openWorldHint"`
	}
	return Encode(struct {
		Name        string          `json:"name"`
		Title       string          `json:"title,omitempty"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"inputSchema"`
		Annotations annotations     `json:"annotations"`
	}{a.Name, a.Title, a.Description, a.Input, annotations{
		ReadOnly: a.Risk == action.RiskRead, Destructive: a.Risk == action.RiskDanger, Idempotent: a.Idempotent, OpenWorld: !a.closed,
	}})
}

// moduleView is a module as one organization sees it. Equal values result in
// the same actions.
type moduleView struct {
	*service
	title    string
	created  time.Time // of the oldest remaining integration
	revision string
	timeout  time.Duration // zero: the Gate's default
}

// maxAccountName bounds the account name in a module's display name, in
// characters.
const maxAccountName = 60

// presentModules returns the modules as an organization with these integrations
// sees them.
func (t *tenant) presentModules(all []action.Integration) []moduleView {
	list := make([]moduleView, 0, len(t.services))
	for _, s := range t.services {
		var mine []action.Integration
		for _, in := range all {
			if in.Provider == s.ID && in.Status != action.IntegrationDeleted {
				mine = append(mine, in)
			}
		}
		list = append(list, moduleView{
			service: s, title: s.displayName(mine), created: firstCreated(mine), revision: integrationsRevision(mine), timeout: t.longestTimeout(mine),
		})
	}
	return list
}

// displayName includes the account if there is exactly one integration that
// everybody can see. The names of private ones stay hidden.
func (s *service) displayName(mine []action.Integration) string {
	seen := slices.DeleteFunc(slices.Clone(mine), func(in action.Integration) bool { return in.Owner() != "" })
	if len(seen) != 1 || seen[0].AccountName == "" {
		return s.Title
	}
	return s.Title + " (" + Printable(seen[0].AccountName, maxAccountName) + ")"
}

func firstCreated(mine []action.Integration) time.Time {
	first := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) // without an integration: its tools are named last
	for _, in := range mine {
		if in.CreatedAt.Before(first) {
			first = in.CreatedAt
		}
	}
	return first.UTC().Round(0)
}

// integrationsRevision changes if an integration of the organization is added,
// removed, changed in what a call would do, or changes between active and
// inactive. In all these cases a call may go elsewhere, so that earlier
// approvals no longer apply. A user's own connection counts through the binding
// of the call.
func integrationsRevision(mine []action.Integration) string {
	lines := make([]string, 0, len(mine))
	for _, in := range mine {
		if in.Owner() != "" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%q %d %t", in.ID, in.Revision, in.Status == action.IntegrationActive))
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

// longestTimeout returns the longest timeout of the integrations: the one that
// a call uses is known only when it runs.
func (t *tenant) longestTimeout(mine []action.Integration) (longest time.Duration) {
	named := false
	for _, in := range mine {
		named = named || in.TimeoutSeconds > 0
		longest = max(longest, t.callTimeout(in))
	}
	if !named {
		return 0
	}
	return longest
}

// callTimeout returns the timeout of one call for an integration.
func (c *Catalog) callTimeout(in action.Integration) time.Duration {
	if in.TimeoutSeconds <= 0 {
		return c.Call
	}
	return min(time.Duration(in.TimeoutSeconds)*time.Second, action.MaxTimeout)
}

// action implements [actionBuilder].
func (p moduleView) action(t *tool, name string) *action.Action {
	act := p.actions[t.name]
	examples := make([]action.Example, len(act.Examples)) // for guides
	for i, e := range act.Examples {
		examples[i] = action.Example(e)
	}
	return &action.Action{
		Source:        p.ID,
		SourceName:    p.title,
		Name:          t.name,
		Tool:          name,
		Title:         t.title,
		Description:   t.description,
		Risk:          act.Risk,
		InputSchema:   t.input,
		Hash:          t.hashes.Behaviour,
		Revision:      p.revision,
		Timeout:       p.timeout,
		Provider:      p.ID,
		OneConnection: p.Choose == nil,
		About:         p.about,
		Examples:      examples,
		Summarize:     act.Summarize,
		Check:         t.checker.Check,
		Bind:          p.bindFunc(act),
		Run:           p.run(act),
	}
}
