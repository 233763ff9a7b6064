package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/ingest/event"
)

// pollSeconds is the least time between two looks where none is said.
const pollSeconds = 300

// eventProvider finds one by its id; field is where it was named, empty for the
// path.
func (s *Server) eventProvider(id, field string) (*api.EventProvider, error) {
	ids := make([]string, len(s.EventProviders))
	for i := range s.EventProviders {
		if ids[i] = s.EventProviders[i].ID; ids[i] == id {
			return &s.EventProviders[i], nil
		}
	}
	e := action.Errorf(action.ErrNotFound, "no_such_provider", "There are no events of %q; providers are %s.", plain(id), cmp.Or(strings.Join(ids, ", "), "none"))
	if e.Field = field; field != "" {
		e.Kind = action.ErrInvalid
	}
	return nil, e
}

// trigger makes one of what was said of it, and checks all that is known
// without the rows.
func (s *Server) trigger(ctx context.Context, p *Principal, n api.NewTrigger) (event.Trigger, error) {
	now := s.now()
	t := event.Trigger{
		ID: newID(), Organization: p.Organization, Enabled: true, Config: config(n.Config), CreatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	apply(&t, &n, "Automation", "Integration", "Config")
	t.Name = strings.TrimSpace(t.Name)
	provider, err := s.eventProvider(n.Provider, "/provider")
	if err != nil {
		return t, err
	}
	if t.Automation, err = s.automationID(ctx, p, n.Automation, "/automation"); err != nil {
		return t, err
	}
	if err := eventProviderChoose(provider, &t); err != nil {
		return t, err
	}
	if t.Integration, err = s.eventIntegration(ctx, p, t.Provider, n.Integration); err != nil {
		return t, err
	}
	if n.Secret != "" && t.Kind == event.Polling {
		return t, invalid("/secret", "A polling trigger has no secret; leave `secret` out, or set trigger_type to webhook.")
	}
	return t, checkTrigger(provider, &t)
}

// eventProviderChoose fills in what a new trigger leaves to the provider.
func eventProviderChoose(p *api.EventProvider, t *event.Trigger) error {
	if t.Type == "" && len(p.Types) == 1 {
		t.Type = p.Types[0].ID
	}
	if !slices.ContainsFunc(p.Types, func(o api.EventType) bool { return o.ID == t.Type }) {
		ids := make([]string, len(p.Types))
		for i, o := range p.Types {
			ids[i] = o.ID
		}
		return invalid("/event_type", fmt.Sprintf("event_type must be one of those of %s: %s.", p.Title, cmp.Or(strings.Join(ids, ", "), "there is none")))
	}
	if t.Kind == "" {
		t.Kind = event.Webhooks
		if t.PollSeconds > 0 || !p.Webhook {
			t.Kind = event.Polling
		}
	}
	if t.Kind == event.Polling && t.PollSeconds == 0 {
		t.PollSeconds = pollSeconds
	}
	t.Name = cmp.Or(t.Name, p.Title+" "+t.Type)
	return nil
}

// checkTrigger refuses what could not work.
func checkTrigger(p *api.EventProvider, t *event.Trigger) error {
	if err := checkTitle(t.Name); err != nil {
		return err
	}
	switch {
	case t.Kind == event.Webhooks && !p.Webhook:
		return invalid("/trigger_type", fmt.Sprintf("%s posts no events; set trigger_type to polling.", p.Title))
	case t.Kind == event.Polling && !p.Polling:
		return invalid("/trigger_type", fmt.Sprintf("The gateway cannot poll %s; set trigger_type to webhook.", p.Title))
	case t.Kind == event.Polling && t.Integration == "":
		return invalid("/integration_id", fmt.Sprintf("Set integration_id to the integration of %s whose credential polls for events; where there is none, connect one first (POST /api/v1/integrations).", p.Title))
	}
	if err := action.Fault(t.Check()); err != nil || p.CheckConfig == nil {
		return err
	}
	return p.CheckConfig(t.Type, t.Config)
}

// config is a trigger's, in which nothing said means no filters.
func config(said json.RawMessage) []byte {
	if said = settled(said); said == nil {
		return []byte("{}")
	}
	return said
}

// eventIntegration finds the integration that a trigger names by its id, or as
// the one of the provider, or by its name: one that everybody may see, as the
// trigger is everybody's.
func (s *Server) eventIntegration(ctx context.Context, p *Principal, provider, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if s.provider(provider) == nil {
		return "", invalid("/integration_id", "This provider has no integrations; leave integration_id out.")
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, "")
	if err != nil {
		return "", err
	}
	in, err := s.bind(name, those(all, func(in *action.Integration) bool { return in.Provider == provider }))
	if err == nil {
		return in.ID, nil
	}
	if other, elsewhere := s.bind(name, all); elsewhere == nil && other.Provider != provider {
		return "", invalid("/integration_id", fmt.Sprintf("This is an integration of %s; name one of %s.", other.Provider, provider))
	}
	return "", placed(err, "/integration_id")
}

func (s *Server) addTrigger(ctx context.Context, p *Principal, n api.NewTrigger) (api.MintedTrigger, error) {
	t, err := s.trigger(ctx, p, n)
	if err != nil {
		return api.MintedTrigger{}, err
	}
	secret, shown, err := s.firstSecret(&t, n.Secret)
	if err != nil {
		return api.MintedTrigger{}, err
	}
	if t, err = s.Inbound.CreateTrigger(ctx, t, secret); err != nil {
		return api.MintedTrigger{}, err
	}
	s.changed(ctx, p, "trigger made", "trigger", t.ID, "automation", t.Automation, "provider", t.Provider, "trigger_type", t.Kind)
	view, err := s.viewTrigger(ctx, p, t)
	if err != nil {
		return api.MintedTrigger{}, err
	}
	return api.MintedTrigger{TriggerView: view, Secret: shown}, nil
}

// firstSecret is that of a new trigger, and what is shown of it; nil: it needs
// none, or its service makes one that is not known yet.
func (s *Server) firstSecret(t *event.Trigger, said string) (secret *event.Secret, shown string, err error) {
	if t.Kind != event.Webhooks || s.givenSecret(t, said) != nil {
		return nil, "", nil
	}
	made, shown, err := s.newSecret(t.Organization, said, signsStandard(t.Provider, t.Config))
	return &made, shown, err
}

// givenSecret refuses to make a secret with which the service would not sign.
func (s *Server) givenSecret(t *event.Trigger, said string) error {
	provider, err := s.eventProvider(t.Provider, "")
	if err != nil || !provider.Gives || said != "" {
		return nil //nolint:nilerr // what is not known gives nothing
	}
	return invalid("/secret", strings.TrimSpace(provider.Secret+" Send it as `secret`."))
}

func (s *Server) changeTrigger(ctx context.Context, p *Principal, id string, change api.TriggerChange) (api.TriggerView, error) {
	t, err := s.Inbound.Trigger(ctx, p.Organization, id)
	if err != nil {
		return api.TriggerView{}, err
	}
	apply(&t, &change, "Integration", "Config")
	t.Name, t.UpdatedAt = strings.TrimSpace(t.Name), s.now()
	if settled(change.Config) != nil {
		t.Config = verifiedAs(t.Config, config(change.Config))
	}
	if change.Integration != nil {
		if t.Integration, err = s.eventIntegration(ctx, p, t.Provider, *change.Integration); err != nil {
			return api.TriggerView{}, err
		}
	}
	if err := s.checkTriggerChange(&t, change); err != nil {
		return api.TriggerView{}, err
	}
	if t, err = s.Inbound.UpdateTrigger(ctx, t, p.By()); err != nil {
		return api.TriggerView{}, err
	}
	s.changed(ctx, p, "trigger changed", "trigger", t.ID, "enabled", t.Enabled)
	return s.viewTrigger(ctx, p, t)
}

// verifiedAs is a changed config, in which senders are verified as before where
// nothing is said of that: with another scheme the trigger would refuse them.
func verifiedAs(was, is json.RawMessage) json.RawMessage {
	const verification = "verification"
	var before, after map[string]json.RawMessage
	if json.Unmarshal(was, &before) != nil || json.Unmarshal(is, &after) != nil || after == nil {
		return is // checked later
	}
	scheme, had := before[verification]
	if _, said := after[verification]; said || !had {
		return is
	}
	after[verification] = scheme
	whole, err := json.Marshal(after)
	if err != nil {
		return is
	}
	return whole
}

// checkTriggerChange lets one be named or disabled whose provider is gone.
func (s *Server) checkTriggerChange(t *event.Trigger, change api.TriggerChange) error {
	if change.Config == nil && change.Integration == nil && change.PollSeconds == nil && !t.Enabled {
		return checkTitle(t.Name)
	}
	provider, err := s.eventProvider(t.Provider, "/enabled")
	if err != nil {
		return err
	}
	return checkTrigger(provider, t)
}

func (s *Server) removeTrigger(ctx context.Context, p *Principal, id string) error {
	if err := s.Inbound.DeleteTrigger(ctx, p.Organization, id, p.By()); err != nil {
		return err
	}
	s.changed(ctx, p, "trigger removed", "trigger", id)
	return nil
}

// rotateTrigger replaces the secret of a webhook.
func (s *Server) rotateTrigger(ctx context.Context, p *Principal, id string, r *api.Rotation) (api.MintedSecret, error) {
	t, err := s.Inbound.Trigger(ctx, p.Organization, id)
	if err != nil {
		return api.MintedSecret{}, err
	}
	if t.Kind != event.Webhooks {
		return api.MintedSecret{}, action.NewError("no_secret")
	}
	if r == nil {
		r = &api.Rotation{}
	}
	if err := s.givenSecret(&t, r.Secret); err != nil {
		return api.MintedSecret{}, err
	}
	return s.rotate(ctx, p, t.ID, r, signsStandard(t.Provider, t.Config))
}
