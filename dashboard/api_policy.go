package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/internal/nearest"
)

// NewMode is what a policy key is to mean.
type NewMode struct {
	Mode       action.Mode `json:"mode" enum:"allow,deny,require_approval" example:"require_approval"`
	Automation string      `json:"automation,omitempty" maxLength:"200" doc:"For sessions of this automation alone, by its id or name; absent: for the organization."`
}

// ModeView is one override.
type ModeView struct {
	Key        string      `json:"key" doc:"As it is stored, with the source's id." example:"connector:0199a3c4-5d6e-7f80-9123-456789abcdef:create_issue"`
	Name       string      `json:"name" doc:"As people write it." example:"github:create_issue"`
	Mode       action.Mode `json:"mode"`
	Automation string      `json:"automation_id,omitempty"`
	UpdatedBy  string      `json:"updated_by"`
	UpdatedAt  *time.Time  `json:"updated_at,omitempty" doc:"Absent in the answer to a change: it is now."`
	Warning    string      `json:"warning,omitempty" doc:"Only in the answer to a change: nobody could tell whether the connector has the action, with the nearest that it had."`
}

// Explanation is a decision that was made for nobody.
type Explanation struct {
	action.Decision
	Key       string      `json:"key"`
	Name      string      `json:"name"`
	Session   string      `json:"session_id" doc:"Empty: of none that there is."`
	Risk      action.Risk `json:"risk"`
	Available bool        `json:"listed" doc:"Agents see the action; a denied one is not listed."`
	Reason    string      `json:"reason" doc:"What the layer that decided says."`
	Refused   string      `json:"refused,omitempty" doc:"Why a call that would ask is refused without asking: repeated, often or too_many_pending; absent: a person is asked." example:"often"`
	Note      string      `json:"refused_note,omitempty" doc:"The same in a sentence."`
}

// Asked is the call that is explained.
type Asked struct {
	Session    string `query:"session" doc:"Id of a session. Absent: any that was minted plainly, or with the following."`
	Group      string `query:"group" maxLength:"200"`
	Task       string `query:"task" maxLength:"500"`
	Automation string `query:"automation" maxLength:"200" doc:"Id or name."`
	Action     string `query:"action" required:"true" doc:"A policy key that names one action." example:"github:create_issue"`
	Params     string `query:"params" maxLength:"32768" doc:"A JSON object that fits the action's schema."`
}

// ByPolicyKey is the parameter of a route about a policy key.
type ByPolicyKey struct {
	Key string `path:"key" maxLength:"300" example:"github:create_issue"`
}

const keyDoc = "The key is source:action, source:* or *; the source is an id, or a connector's slug or name, which is stored as its id; module:ID names a module where a connector is called so too. " +
	"The action is the one of its server, not the name that agents see; one that the connector or module is known to lack is refused, and a connector that was not asked yet is asked. Escape a / in it as %2F."

func (s *Server) policyRoutes() {
	register(s, route{
		method: "PUT", path: "/api/v1/policy/modes/{key}", tag: "policy", summary: "Set a mode", status: http.StatusOK,
		doc: keyDoc,
	}, func(ctx context.Context, p *Principal, in *struct {
		ByPolicyKey
		Body NewMode
	},
	) (*body[ModeView], error) {
		v, err := s.setMode(ctx, p, in.Key, in.Body)
		return bodyOf(v), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/policy/modes/{key}", tag: "policy", summary: "Take a mode back",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByPolicyKey
		Automation string `query:"automation" maxLength:"200" doc:"Id or name."`
	},
	) (*empty, error) {
		return nil, s.unsetMode(ctx, p, in.Key, in.Automation)
	})
	register(s, route{
		method: "GET", path: "/api/v1/policy/modes", tag: "policy", summary: "List the modes that people set",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[ModeView]], error) {
		views, err := s.modes(ctx, p.Organization)
		return listOf(views), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/policy/explain", tag: "policy", summary: "Say how a call would be decided",
		doc: "Runs, counts and writes nothing. Without params, grants are not looked at.", errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, p *Principal, in *Asked) (*body[Explanation], error) {
		e, err := s.explain(ctx, p, in)
		return bodyOf(e), err
	})
}

func (s *Server) setMode(ctx context.Context, p *Principal, text string, n NewMode) (ModeView, error) {
	key, all, err := s.knownKey(ctx, p.Organization, text)
	if err != nil {
		return ModeView{}, err
	}
	if n.Automation, err = s.automationID(ctx, p, n.Automation, "/automation"); err != nil {
		return ModeView{}, err
	}
	warning, err := s.unsure(ctx, key, all)
	if err != nil {
		return ModeView{}, err
	}
	o := action.Override{Organization: p.Organization, Automation: n.Automation, Key: key, Mode: n.Mode, UpdatedBy: p.By()}
	if err := s.Overrides.SetOverride(ctx, o); err != nil {
		return ModeView{}, err
	}
	s.changed(ctx, p, "policy set", "key", key.String(), "mode", n.Mode, "automation", n.Automation)
	v := viewMode(o, all)
	v.Warning = warning
	return v, nil
}

func (s *Server) unsetMode(ctx context.Context, p *Principal, text, automation string) error {
	key, err := s.storedKey(ctx, p.Organization, text)
	if err != nil {
		return err
	}
	if automation, err = s.automationID(ctx, p, automation, "/automation"); err != nil {
		return err
	}
	if err := s.Overrides.UnsetOverride(ctx, p.Organization, automation, key, p.By()); err != nil {
		return s.notSet(ctx, p.Organization, text, err)
	}
	s.changed(ctx, p, "policy unset", "key", key.String(), "automation", automation)
	return nil
}

// notSet says of a mode that is not there which ones are nearest to what was
// asked for.
func (s *Server) notSet(ctx context.Context, organization, text string, err error) error {
	modes, failed := s.modes(ctx, organization)
	if !errors.Is(err, action.ErrNotFound) || failed != nil {
		return err
	}
	names := make([]string, len(modes))
	for i, m := range modes {
		names[i] = m.Name
	}
	return action.Errorf(action.ErrNotFound, "override_not_found", "%s", plain(fmt.Sprintf(
		"No mode is set for %s.%s GET /api/v1/policy/modes lists those that are.", text, nearest.Sentence(text, names))))
}

// changed logs a change of policy and tells the rest of the gateway.
func (s *Server) changed(ctx context.Context, p *Principal, what string, args ...any) {
	s.log.InfoContext(ctx, what, append(args, "by", p.By())...)
	s.hint(action.HintPolicy, p.Organization, "")
}

func (s *Server) modes(ctx context.Context, organization string) ([]ModeView, error) {
	list, _, err := s.Overrides.Overrides(ctx, organization)
	if err != nil {
		return nil, err
	}
	all, err := s.Connectors.ListConnectors(ctx, organization)
	if err != nil {
		return nil, err
	}
	views := make([]ModeView, len(list))
	for i, o := range list {
		views[i] = viewMode(o, all)
	}
	return views, nil
}

// imagined is a session of which only that is known, or the one that is named.
func (s *Server) imagined(ctx context.Context, p *Principal, in *Asked) (action.Session, error) {
	if in.Session != "" {
		if in.Group+in.Task+in.Automation != "" {
			return action.Session{}, invalid("/session", "A session has its own group, task and automation; name it, or them, not both.")
		}
		return s.session(ctx, p.Organization, in.Session)
	}
	row := action.Session{Organization: p.Organization, Kind: action.Interactive, Type: action.TypeCoding, Group: in.Group, Task: in.Task}
	var err error
	if row.Automation, err = s.automationID(ctx, p, in.Automation, "/automation"); row.Automation != "" {
		row.Kind, row.Type = action.Unattended, action.TypeAutomation
	}
	return row, err
}

func (s *Server) explain(ctx context.Context, p *Principal, in *Asked) (Explanation, error) {
	row, err := s.imagined(ctx, p, in)
	if err != nil {
		return Explanation{}, err
	}
	params := raw(in.Params)
	key, all, err := s.resolveKey(ctx, p.Organization, in.Action)
	if err != nil {
		return Explanation{}, placed(err, "/action")
	}
	if key.Action == "*" {
		return Explanation{}, invalid("/action", "Name one action; a pattern is not decided.")
	}
	if len(params) == 0 {
		params = nil
	}
	e, err := s.Gate.Explain(ctx, &row, key.Source, key.Action, params)
	if err != nil {
		return Explanation{}, inBody(err)
	}
	d := e.Decision
	d.Steps = nonNil(d.Steps)
	return Explanation{
		Decision: d, Key: key.String(), Name: keyName(key, all), Session: row.ID, Risk: e.Risk,
		Available: d.Mode != action.ModeDeny, Reason: d.Why(), Refused: e.Refused, Note: e.Note,
	}, nil
}

// knownKey resolves a key that policy is to say something of.
func (s *Server) knownKey(ctx context.Context, organization, text string) (action.Key, []action.Connector, error) {
	key, all, err := s.resolveKey(ctx, organization, text)
	if err != nil {
		return key, nil, err
	}
	return key, all, s.checkAction(ctx, key, all)
}

// storedKey resolves a key to take back what is said of it. That outlives its
// connector, so the key as it is stored always does.
func (s *Server) storedKey(ctx context.Context, organization, text string) (action.Key, error) {
	key, _, err := s.resolveKey(ctx, organization, text)
	if err != nil {
		return action.ParseKey(text)
	}
	return key, nil
}

// resolveKey parses a policy key and replaces a connector's slug or name by
// its id. A source that nobody knows is refused: a denial with a typo in it
// would deny nothing.
func (s *Server) resolveKey(ctx context.Context, organization, text string) (action.Key, []action.Connector, error) {
	key, err := action.ParseKey(text)
	if err != nil {
		return key, nil, err
	}
	all, err := s.Connectors.ListConnectors(ctx, organization)
	if err != nil {
		return key, nil, err
	}
	if key.Source == "*" {
		return key, all, nil
	}
	key.Source, err = s.sourceID(ctx, organization, key.Source, all)
	return key, all, err
}

// placed says of an error's field where it stands in this request.
func placed(err error, field string) error {
	var e *action.Error
	if !errors.As(err, &e) || e.Field == "" {
		return err
	}
	out := *e
	out.Field = field
	return &out
}

func viewMode(o action.Override, all []action.Connector) ModeView {
	v := ModeView{Key: o.Key.String(), Name: keyName(o.Key, all), Mode: o.Mode, Automation: o.Automation, UpdatedBy: o.UpdatedBy}
	if !o.UpdatedAt.IsZero() {
		v.UpdatedAt = &o.UpdatedAt
	}
	return v
}

// keyName writes a key as people do: with the slug, or else the name.
func keyName(key action.Key, all []action.Connector) string {
	key.Source = sourceName(key.Source, all)
	return key.String()
}

func sourceName(id string, all []action.Connector) string {
	for _, c := range all {
		if c.Source() == id {
			return or(c.Slug, c.Name)
		}
	}
	return id
}
