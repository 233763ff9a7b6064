package routes

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/view"
	"sallyport/ingest/event"
)

func (s *handlers) triggerRoutes() {
	dashboard.Handle(s.Server, api.ListEventProviders, func(context.Context, *dashboard.Principal, *api.None) (api.List[api.EventProvider], error) {
		return view.ListOf(s.EventProviders), nil
	})
	dashboard.Handle(s.Server, api.GetEventProvider, func(_ context.Context, _ *dashboard.Principal, in *api.GetEventProviderInput) (api.EventProvider, error) {
		provider, err := s.EventProvider(in.ID, "")
		if err != nil {
			return api.EventProvider{}, err
		}
		return *provider, nil
	})
	dashboard.Handle(s.Server, api.ListTriggers, func(ctx context.Context, p *dashboard.Principal, in *api.OfAutomation) (api.List[api.TriggerView], error) {
		views, err := s.Triggers(ctx, p, in.Automation)
		return view.ListOf(views), err
	})
	dashboard.Handle(s.Server, api.CreateTrigger, s.addTrigger)
	dashboard.Handle(s.Server, api.GetTrigger, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.TriggerView, error) {
		t, err := s.Inbound.Trigger(ctx, p.Organization, in.ID)
		if err != nil {
			return api.TriggerView{}, err
		}
		return s.ViewTrigger(ctx, p, t)
	})
	dashboard.Handle(s.Server, api.UpdateTrigger, s.changeTrigger)
	dashboard.HandleNone(s.Server, api.DeleteTrigger, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) error {
		if err := s.Inbound.DeleteTrigger(ctx, p.Organization, in.ID, p.By()); err != nil {
			return err
		}
		s.policyChanged(ctx, p, "trigger removed", "trigger", in.ID)
		return nil
	})
	dashboard.Handle(s.Server, api.ListTriggerSecrets, func(ctx context.Context, p *dashboard.Principal, in *api.ByID) (api.List[api.SigningSecret], error) {
		if _, err := s.Inbound.Trigger(ctx, p.Organization, in.ID); err != nil {
			return api.List[api.SigningSecret]{}, err
		}
		list, err := s.Inbound.SigningSecrets(ctx, p.Organization, in.ID)
		return view.ListOf(view.SigningSecrets(list)), err
	})
	dashboard.Handle(s.Server, api.RotateTrigger, s.rotateTrigger)
	dashboard.Handle(s.Server, api.ListPollGroups, listAll(s.PollGroups))
}

// pollSeconds is the default interval of polling.
const pollSeconds = 300

// buildTrigger builds a trigger from a request and validates it, as far as this is
// possible without the database.
func (s *handlers) buildTrigger(ctx context.Context, p *dashboard.Principal, n api.NewTrigger) (event.Trigger, error) {
	now := s.Now()
	t := event.Trigger{
		ID: dashboard.NewID(), Organization: p.Organization, Enabled: true, Config: triggerConfig(n.Config), CreatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	applyChange(&t, &n, "Automation", "Integration", "Config")
	t.Name = strings.TrimSpace(t.Name)
	provider, err := s.EventProvider(n.Provider, "/provider")
	if err != nil {
		return t, err
	}
	if t.Automation, err = s.AutomationID(ctx, p, n.Automation, "/automation"); err != nil {
		return t, err
	}
	if err := completeTrigger(provider, &t); err != nil {
		return t, err
	}
	if t.Integration, err = s.eventIntegration(ctx, p, t.Provider, n.Integration); err != nil {
		return t, err
	}
	if n.Secret != "" && t.Kind == event.Polling {
		return t, dashboard.Invalid("/secret", "A polling trigger has no secret; leave `secret` out, or set trigger_type to webhook.")
	}
	return t, checkTrigger(provider, &t)
}

// completeTrigger sets the provider's defaults on a new trigger.
func completeTrigger(p *api.EventProvider, t *event.Trigger) error {
	if t.Type == "" && len(p.Types) == 1 {
		t.Type = p.Types[0].ID
	}
	if !slices.ContainsFunc(p.Types, func(o api.EventType) bool { return o.ID == t.Type }) {
		ids := make([]string, len(p.Types))
		for i, o := range p.Types {
			ids[i] = o.ID
		}
		return dashboard.Invalid("/event_type", fmt.Sprintf("event_type must be an event type of %s: %s.", p.Title, cmp.Or(strings.Join(ids, ", "), "none")))
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

// checkTrigger refuses a trigger that could not work.
func checkTrigger(p *api.EventProvider, t *event.Trigger) error {
	if err := checkTitle(t.Name); err != nil {
		return err
	}
	switch {
	case t.Kind == event.Webhooks && !p.Webhook:
		return dashboard.Invalid("/trigger_type", fmt.Sprintf("%s has no webhooks. Set trigger_type to polling.", p.Title))
	case t.Kind == event.Polling && !p.Polling:
		return dashboard.Invalid("/trigger_type", fmt.Sprintf("The gateway cannot poll %s; set trigger_type to webhook.", p.Title))
	case t.Kind == event.Polling && t.Integration == "":
		return dashboard.Invalid("/integration_id", fmt.Sprintf("Set integration_id to the integration of %s whose credential polls for events. If there is none, connect one first (POST /api/v1/integrations).", p.Title))
	}
	if err := action.FromEventCheck(t.Check()); err != nil || p.CheckConfig == nil {
		return err
	}
	return p.CheckConfig(t.Type, t.Config)
}

// triggerConfig returns a trigger's config. A missing config means no filters.
func triggerConfig(config json.RawMessage) []byte {
	if config = normalizeSettings(config); config == nil {
		return []byte("{}")
	}
	return config
}

// eventIntegration finds the integration of a trigger by its ID, its name or
// its provider. Only shared integrations qualify, because triggers are shared.
func (s *handlers) eventIntegration(ctx context.Context, p *dashboard.Principal, provider, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	if s.Provider(provider) == nil {
		return "", dashboard.Invalid("/integration_id", "This provider has no integrations; leave integration_id out.")
	}
	all, err := s.Sources.ListIntegrations(ctx, p.Organization, "")
	if err != nil {
		return "", err
	}
	in, err := s.resolveConnection(name, filterIntegrations(all, func(in *action.Integration) bool { return in.Provider == provider }))
	if err == nil {
		return in.ID, nil
	}
	if other, elsewhere := s.resolveConnection(name, all); elsewhere == nil && other.Provider != provider {
		return "", dashboard.Invalid("/integration_id", fmt.Sprintf("This is an integration of %s; name one of %s.", other.Provider, provider))
	}
	return "", view.AtField(err, "/integration_id")
}

func (s *handlers) addTrigger(ctx context.Context, p *dashboard.Principal, in *api.Body[api.NewTrigger]) (api.MintedTrigger, error) {
	t, err := s.buildTrigger(ctx, p, in.Body)
	if err != nil {
		return api.MintedTrigger{}, err
	}
	var secret *event.Secret // none for polling, or as long as the service has not issued one
	shown := ""
	if t.Kind == event.Webhooks && s.requireGivenSecret(&t, in.Body.Secret) == nil {
		var first event.Secret
		if first, shown, err = s.newSecret(t.Organization, in.Body.Secret, usesStandardWebhooks(t.Provider, t.Config)); err != nil {
			return api.MintedTrigger{}, err
		}
		secret = &first
	}
	if t, err = s.Inbound.CreateTrigger(ctx, t, secret); err != nil {
		return api.MintedTrigger{}, err
	}
	s.policyChanged(ctx, p, "trigger created", "trigger", t.ID, "automation", t.Automation, "provider", t.Provider, "trigger_type", t.Kind)
	view, err := s.ViewTrigger(ctx, p, t)
	if err != nil {
		return api.MintedTrigger{}, err
	}
	return api.MintedTrigger{TriggerView: view, Secret: shown}, nil
}

// requireGivenSecret requires the caller to send the secret if the service creates it,
// since a generated one would not match.
func (s *handlers) requireGivenSecret(t *event.Trigger, given string) error {
	provider, err := s.EventProvider(t.Provider, "")
	if err != nil || !provider.Gives || given != "" {
		return nil //nolint:nilerr // an unknown provider requires nothing
	}
	return dashboard.Invalid("/secret", strings.TrimSpace(provider.Secret+" Send it as `secret`."))
}

func (s *handlers) changeTrigger(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[api.TriggerChange]) (api.TriggerView, error) {
	change := in.Body
	t, err := s.Inbound.Trigger(ctx, p.Organization, in.ID)
	if err != nil {
		return api.TriggerView{}, err
	}
	applyChange(&t, &change, "Integration", "Config")
	t.Name, t.UpdatedAt = strings.TrimSpace(t.Name), s.Now()
	if normalizeSettings(change.Config) != nil {
		t.Config = keepVerification(t.Config, triggerConfig(change.Config))
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
	s.policyChanged(ctx, p, "trigger changed", "trigger", t.ID, "enabled", t.Enabled)
	return s.ViewTrigger(ctx, p, t)
}

// keepVerification keeps the verification scheme in a changed config that does
// not mention it. Another scheme would make the trigger refuse its senders.
func keepVerification(was, is json.RawMessage) json.RawMessage {
	const verification = "verification"
	var before, after map[string]json.RawMessage
	if json.Unmarshal(was, &before) != nil || json.Unmarshal(is, &after) != nil || after == nil {
		return is // checked later
	}
	scheme, had := before[verification]
	if _, changed := after[verification]; changed || !had {
		return is
	}
	after[verification] = scheme
	whole, err := json.Marshal(after)
	if err != nil {
		return is
	}
	return whole
}

// checkTriggerChange validates a changed trigger. Renaming and disabling also
// work after its provider was removed.
func (s *handlers) checkTriggerChange(t *event.Trigger, change api.TriggerChange) error {
	if change.Config == nil && change.Integration == nil && change.PollSeconds == nil && !t.Enabled {
		return checkTitle(t.Name)
	}
	provider, err := s.EventProvider(t.Provider, "/enabled")
	if err != nil {
		return err
	}
	return checkTrigger(provider, t)
}

// rotateTrigger replaces the signing secret of a webhook trigger.
func (s *handlers) rotateTrigger(ctx context.Context, p *dashboard.Principal, in *api.ByIDWith[*api.Rotation]) (api.MintedSecret, error) {
	r := in.Body
	t, err := s.Inbound.Trigger(ctx, p.Organization, in.ID)
	if err != nil {
		return api.MintedSecret{}, err
	}
	if t.Kind != event.Webhooks {
		return api.MintedSecret{}, action.NewError("no_secret")
	}
	if r == nil {
		r = &api.Rotation{}
	}
	if err := s.requireGivenSecret(&t, r.Secret); err != nil {
		return api.MintedSecret{}, err
	}
	return s.rotate(ctx, p, t.ID, r, usesStandardWebhooks(t.Provider, t.Config))
}
