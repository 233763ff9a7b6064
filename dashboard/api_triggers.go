package dashboard

import (
	"context"
	"net/http"

	"sallyport/ingest/event"
)

// NewTrigger is a rule by which events start runs, as it is wished for.
type NewTrigger struct {
	Automation  string            `json:"automation" minLength:"1" maxLength:"200" doc:"Id or name." example:"nightly-triage"`
	Provider    string            `json:"provider" minLength:"1" maxLength:"40" doc:"Id of a provider." example:"github"`
	Type        string            `json:"event_type,omitempty" maxLength:"80" doc:"Of the provider's types; may be absent where there is one." example:"issue"`
	Kind        event.TriggerKind `json:"trigger_type,omitempty" enum:"webhook,polling" doc:"Absent: webhook where the provider posts its events and interval_seconds is absent."`
	Name        string            `json:"name,omitempty" maxLength:"120" doc:"Absent: made of provider and type."`
	Config      raw               `json:"config,omitempty" doc:"Filters; an object that fits the type's config_schema. Absent: every event of the type."`
	Integration string            `json:"integration_id,omitempty" maxLength:"200" doc:"Whose events are meant, and whose credential polls and completes them: id, name, or id of a provider of which there is one. Absent: any of the organization's, and none polls."`
	PollSeconds int               `json:"interval_seconds,omitempty" minimum:"30" maximum:"86400" doc:"The least time between two looks; default 300."`
	Enabled     *bool             `json:"enabled,omitempty" nullable:"false" doc:"Default true."`
	Secret      string            `json:"secret,omitempty" minLength:"16" maxLength:"512" writeOnly:"true" doc:"Of a webhook whose secret the service makes (gives_secret); it may be given later, by rotate. Absent otherwise: one is made and answered."`
}

// TriggerChange is what may change of a trigger.
type TriggerChange struct {
	Name        *string `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false"`
	Config      raw     `json:"config,omitempty" doc:"Replaces all of it, but for verification, which stays where it is absent."`
	Integration *string `json:"integration_id,omitempty" maxLength:"200" nullable:"false" doc:"Empty: any of the organization's; of a webhook alone."`
	PollSeconds *int    `json:"interval_seconds,omitempty" minimum:"30" maximum:"86400" nullable:"false"`
	Enabled     *bool   `json:"enabled,omitempty" nullable:"false"`
}

// MintedTrigger is a new trigger, with its secret.
type MintedTrigger struct {
	TriggerView
	Secret string `json:"secret,omitempty" doc:"Shown once, to be entered at the service; absent where it was sent, or nothing is posted." example:"9f86d081884c7d65…"`
}

// OfAutomation is the query of a list of what an automation has.
type OfAutomation struct {
	Automation string `query:"automation" maxLength:"200" doc:"Id or name; absent: of all."`
}

func (s *Server) triggerRoutes() {
	s.eventProviderRoutes()
	register(s, route{
		method: "GET", path: "/api/v1/triggers", tag: "triggers", summary: "List triggers",
	}, func(ctx context.Context, p *Principal, in *OfAutomation) (*body[List[TriggerView]], error) {
		views, err := s.triggers(ctx, p, in.Automation)
		return listOf(views), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/triggers", tag: "triggers", summary: "Make a trigger", status: http.StatusCreated,
		doc: "Events of the provider that pass its filters start runs of the automation. Answers the URL and the secret to enter at the service.", errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewTrigger }) (*body[MintedTrigger], error) {
		t, err := s.addTrigger(ctx, p, in.Body)
		return bodyOf(t), err
	})
	s.triggerOneRoutes("/api/v1/triggers/{id}")
	s.triggerSecretRoutes("/api/v1/triggers/{id}")
	register(s, route{
		method: "GET", path: "/api/v1/poll-groups", tag: "triggers", summary: "Say how polling goes",
		doc: "All polling triggers of one integration are one group, which is looked at as often as the most impatient of them asks.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[PollGroupView]], error) {
		views, err := s.pollGroups(ctx, p.Organization)
		return listOf(views), err
	})
}

func (s *Server) triggerOneRoutes(one string) {
	register(s, route{
		method: "GET", path: one, tag: "triggers", summary: "Read a trigger",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[TriggerView], error) {
		t, err := s.Triggers.Trigger(ctx, p.Organization, in.ID)
		if err != nil {
			return nil, err
		}
		v, err := s.viewTrigger(ctx, p, t)
		return bodyOf(v), err
	})
	register(s, route{
		method: "PATCH", path: one, tag: "triggers", summary: "Change a trigger", doc: "Fields that are absent stay.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body TriggerChange
	},
	) (*body[TriggerView], error) {
		v, err := s.changeTrigger(ctx, p, in.ID, in.Body)
		return bodyOf(v), err
	})
	register(s, route{
		method: "DELETE", path: one, tag: "triggers", summary: "Remove a trigger", doc: "With its secrets. Its events and runs stay.",
	}, func(ctx context.Context, p *Principal, in *ByID) (*empty, error) {
		return nil, s.removeTrigger(ctx, p, in.ID)
	})
}

func (s *Server) triggerSecretRoutes(one string) {
	register(s, route{
		method: "GET", path: one + "/secrets", tag: "triggers", summary: "List the secrets of a trigger, without their values",
	}, func(ctx context.Context, p *Principal, in *ByID) (*body[List[SigningSecret]], error) {
		if _, err := s.Triggers.Trigger(ctx, p.Organization, in.ID); err != nil {
			return nil, err
		}
		list, err := s.Triggers.SigningSecrets(ctx, p.Organization, in.ID)
		return listOf(signingSecrets(list)), err
	})
	register(s, route{
		method: "POST", path: one + "/rotate", tag: "triggers", summary: "Replace the secret of a trigger", status: http.StatusOK,
		doc: "Those before stay good for a while, in which the service gets the new one.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByID
		Body *Rotation
	},
	) (*body[MintedSecret], error) {
		secret, err := s.rotateTrigger(ctx, p, in.ID, in.Body)
		return bodyOf(secret), err
	})
}

func (s *Server) eventProviderRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/providers", tag: "triggers", summary: "List the services whose events can start runs",
	}, func(context.Context, *Principal, *none) (*body[List[EventProvider]], error) {
		return listOf(s.EventProviders), nil
	})
	register(s, route{
		method: "GET", path: "/api/v1/providers/{id}", tag: "triggers", summary: "Read what a service tells of",
	}, func(_ context.Context, _ *Principal, in *struct {
		ID string `path:"id" maxLength:"40" example:"github"`
	},
	) (*body[EventProvider], error) {
		provider, err := s.eventProvider(in.ID, "")
		if err != nil {
			return nil, err
		}
		return bodyOf(*provider), nil
	})
}
