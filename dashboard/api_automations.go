package dashboard

import (
	"context"
	"net/http"

	"sallyport/ingest/event"
)

// NewAutomation is an automation as it is wished for.
type NewAutomation struct {
	Name         string `json:"name" minLength:"1" maxLength:"120" doc:"Of its own in the organization." example:"nightly-triage"`
	Instructions string `json:"instructions,omitempty" maxLength:"65536" doc:"For the agent that works on its runs."`
	Enabled      *bool  `json:"enabled,omitempty" nullable:"false" doc:"Default true. Events of a disabled one are kept, and start nothing."`
}

// AutomationChange is what may change of an automation.
type AutomationChange struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"120" nullable:"false"`
	Instructions *string `json:"instructions,omitempty" maxLength:"65536" nullable:"false"`
	Enabled      *bool   `json:"enabled,omitempty" nullable:"false"`
}

func (s *Server) automationRoutes() {
	register(s, route{
		method: "GET", path: "/api/v1/automations", tag: "automations", summary: "List automations",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[event.Automation]], error) {
		all, err := s.Automations.ListAutomations(ctx, p.Organization)
		return listOf(all), err
	})
	register(s, route{
		method: "POST", path: "/api/v1/automations", tag: "automations", summary: "Make an automation", status: http.StatusCreated,
		doc: "Triggers and schedules start its runs. What these may do is policy: overrides of the automation, and the integrations that it is bound to.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct{ Body NewAutomation }) (*body[event.Automation], error) {
		a, err := s.addAutomation(ctx, p, in.Body)
		return bodyOf(a), err
	})
	const one = "/api/v1/automations/{automation}"
	register(s, route{
		method: "GET", path: one, tag: "automations", summary: "Read an automation",
	}, func(ctx context.Context, p *Principal, in *ByAutomation) (*body[event.Automation], error) {
		a, err := s.automation(ctx, p, in.Automation, "")
		return bodyOf(a), err
	})
	register(s, route{
		method: "PATCH", path: one, tag: "automations", summary: "Change an automation",
		doc: "Fields that are absent stay.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *struct {
		ByAutomation
		Body AutomationChange
	},
	) (*body[event.Automation], error) {
		a, err := s.changeAutomation(ctx, p, in.Automation, in.Body)
		return bodyOf(a), err
	})
	register(s, route{
		method: "DELETE", path: one, tag: "automations", summary: "Remove an automation",
		doc: "With its triggers, schedules, overrides and bindings, and the runs that nobody has yet. Refused while a run is worked on; what happened stays on record.", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByAutomation) (*empty, error) {
		return nil, s.removeAutomation(ctx, p, in.Automation)
	})
}
