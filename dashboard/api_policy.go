package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/api"
	"sallyport/internal/nearest"
)

func (s *Server) policyRoutes() {
	handle(s, api.PutMode, func(ctx context.Context, p *Principal, in *api.ByPolicyKeyWith[api.NewMode]) (api.ModeView, error) {
		return s.setMode(ctx, p, in.Key, in.Body)
	})
	handleNone(s, api.DeleteMode, func(ctx context.Context, p *Principal, in *api.DeleteModeInput) error {
		return s.unsetMode(ctx, p, in.Key, in.Automation)
	})
	handle(s, api.ListModes, func(ctx context.Context, p *Principal, _ *api.None) (api.List[api.ModeView], error) {
		views, err := s.modes(ctx, p.Organization)
		return listOf(views), err
	})
	handle(s, api.ExplainPolicy, func(ctx context.Context, p *Principal, in *api.Asked) (api.Explanation, error) {
		return s.explain(ctx, p, in)
	})
}

func (s *Server) setMode(ctx context.Context, p *Principal, text string, n api.NewMode) (api.ModeView, error) {
	key, all, err := s.knownKey(ctx, p.Organization, text)
	if err != nil {
		return api.ModeView{}, err
	}
	if n.Automation, err = s.automationID(ctx, p, n.Automation, "/automation"); err != nil {
		return api.ModeView{}, err
	}
	warning, err := s.unsure(ctx, key, all)
	if err != nil {
		return api.ModeView{}, err
	}
	o := action.Override{Organization: p.Organization, Automation: n.Automation, Key: key, Mode: n.Mode, UpdatedBy: p.By()}
	if err := s.Policy.SetOverride(ctx, o); err != nil {
		return api.ModeView{}, err
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
	if err := s.Policy.UnsetOverride(ctx, p.Organization, automation, key, p.By()); err != nil {
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
	e := action.NewError("override_not_found", plain(text))
	e.Message += plain(nearest.Sentence(text, names))
	return e
}

// changed logs a change of policy and tells the rest of the gateway.
func (s *Server) changed(ctx context.Context, p *Principal, what string, args ...any) {
	s.Log.InfoContext(ctx, what, append(args, "by", p.By())...)
	s.hint(action.HintPolicy, p.Organization, "")
}

func (s *Server) modes(ctx context.Context, organization string) ([]api.ModeView, error) {
	list, _, err := s.Policy.Overrides(ctx, organization)
	if err != nil {
		return nil, err
	}
	all, err := s.Sources.ListConnectors(ctx, organization)
	if err != nil {
		return nil, err
	}
	views := make([]api.ModeView, len(list))
	for i, o := range list {
		views[i] = viewMode(o, all)
	}
	return views, nil
}

// imagined is a session of which only that is known, or the one that is named.
func (s *Server) imagined(ctx context.Context, p *Principal, in *api.Asked) (action.Session, error) {
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

func (s *Server) explain(ctx context.Context, p *Principal, in *api.Asked) (api.Explanation, error) {
	row, err := s.imagined(ctx, p, in)
	if err != nil {
		return api.Explanation{}, err
	}
	params := json.RawMessage(in.Params)
	key, all, err := s.resolveKey(ctx, p.Organization, in.Action)
	if err != nil {
		return api.Explanation{}, placed(err, "/action")
	}
	if key.Action == "*" {
		return api.Explanation{}, invalid("/action", "Name one action; a pattern is not decided.")
	}
	if len(params) == 0 {
		params = nil
	}
	e, err := s.Gate.Explain(ctx, &row, key.Source, key.Action, params)
	if err != nil {
		return api.Explanation{}, inBody(err)
	}
	d := e.Decision
	d.Steps = nonNil(d.Steps)
	return api.Explanation{
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
	all, err := s.Sources.ListConnectors(ctx, organization)
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

func viewMode(o action.Override, all []action.Connector) api.ModeView {
	v := api.ModeView{Key: o.Key.String(), Name: keyName(o.Key, all), Mode: o.Mode, Automation: o.Automation, UpdatedBy: o.UpdatedBy}
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
			return cmp.Or(c.Slug, c.Name)
		}
	}
	return id
}
