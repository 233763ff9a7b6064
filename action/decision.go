package action

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Layer is the part of policy that made a decision (mode_source).
type Layer string

// The layers in the order of evaluation. Ceilings only deny; of the next
// four, the first match wins; drift only tightens; grants turn a required
// approval into an allow; guardrails only deny.
const (
	LayerCeiling      Layer = "ceiling"
	LayerAutomation   Layer = "automation"
	LayerOrganization Layer = "organization"
	LayerCapability   Layer = "capability"
	LayerInferred     Layer = "inferred"
	LayerDrift        Layer = "drift"
	LayerGrant        Layer = "grant"
	LayerGuardrail    Layer = "guardrail" // a setting of the integration
)

// Step is the result of one layer of a decision.
type Step struct {
	Layer Layer  `json:"layer"`
	Key   string `json:"key,omitempty"`  // the policy key that matched
	Mode  Mode   `json:"mode,omitempty"` // empty: the layer did not decide
	Note  string `json:"note"`           // one sentence for a person
	// Alert marks what an approver must know: an unreviewed change of the tool,
	// or a call that changes production.
	Alert bool `json:"alert,omitempty"`
}

// Alerts returns the steps that an approver must know.
func Alerts(steps []Step) []Step {
	var alerts []Step
	for i := range steps {
		if steps[i].Alert {
			alerts = append(alerts, steps[i])
		}
	}
	return alerts
}

// Unreviewed returns how the tool of a decision differs from its review; empty
// if it does not.
func Unreviewed(steps []Step) string {
	for i := range steps {
		if steps[i].Alert && steps[i].Layer == LayerDrift {
			return steps[i].Note
		}
	}
	return ""
}

// Decision is a policy decision about a call, with its reasons.
type Decision struct {
	Mode   Mode   `json:"mode"`
	Source Layer  `json:"mode_source"`
	Steps  []Step `json:"steps"` // every evaluated layer, in order
	// Version is the policy version of the decision. A row is written only
	// while it is current.
	Version int64 `json:"policy_version"`
	// Limits are the rates that the call counts against before it is
	// accepted.
	Limits []Limit `json:"limits,omitempty"`
	// Grants are the grants that cover the call, in order of use, if a grant
	// decided. Deciding uses up nothing.
	Grants []string `json:"grants,omitempty"`
	// DenialLimit is the organization's; see [Settings].
	DenialLimit int `json:"-"`
}

// Why returns the note of the deciding layer.
func (d *Decision) Why() string {
	for i := len(d.Steps) - 1; i >= 0; i-- {
		if d.Steps[i].Layer == d.Source {
			return d.Steps[i].Note
		}
	}
	return ""
}

// Override is the mode of a policy key, for the organization or one of its
// automations.
type Override struct {
	Organization string `json:"-" bun:"organization_id,pk"`
	Automation   string `json:"automation_id,omitempty" bun:"automation_id,pk"` // empty: the organization's own
	Key          Key    `json:"-" bun:"embed:"`
	Mode         Mode   `json:"mode"`
	UpdatedBy    string `json:"updated_by"`
	// UpdatedAt is only for display; no decision depends on it.
	UpdatedAt time.Time `json:"-"`
}

// Rules are an organization's policy at one version, except for grants, which
// are loaded when a call needs one.
type Rules struct {
	Version      int64
	Settings     Settings
	Overrides    []Override
	Capabilities []Capability // not revoked; may include expired ones
	Gates        []GateApproval
	Quotas       []Quota
	// Integrations are those that are not deleted, without credentials. A
	// change that affects decisions increments the version.
	Integrations []Integration
	// Reviewed are the reviewed hashes by source and tool.
	Reviewed map[Key]ToolHashes
	// Risks are the risks of the tools when they were reviewed. A changed
	// tool counts with the higher of the reviewed and current risk.
	Risks map[Key]Risk
}

// Settings are the approval settings of an organization.
type Settings struct {
	// SelfApproval lets the creator of a session approve its calls and create
	// grants for them.
	SelfApproval bool `json:"self_approval"`
	// DenialLimit is after how many denials of an action in a session it is
	// denied there; zero: never.
	DenialLimit int `json:"denial_limit"`
	// UnverifiedEvents lets events start runs that a broker forwarded without
	// verification.
	UnverifiedEvents bool `json:"unverified_events"`
	// DefaultGroup is the group of sessions that are created without one, and
	// without an automation that has one. Empty: none, so no ceilings apply.
	DefaultGroup string `json:"default_group,omitempty" doc:"Group of sessions that are created without one; missing: none."`
}

// DefaultSettings returns the settings of an organization without its own.
func DefaultSettings() Settings { return Settings{SelfApproval: true, DenialLimit: 3} }

// PolicyEvent records a policy change. Events are append-only.
type PolicyEvent struct {
	ID           string          `json:"id"`
	Organization string          `json:"organization_id"`
	Kind         string          `json:"kind"`    // one of the Event constants
	Subject      string          `json:"subject"` // what changed: a key, a group and provider, an id
	By           string          `json:"by"`
	At           time.Time       `json:"at"`
	Before       json.RawMessage `json:"before"` // null: it did not exist
	After        json.RawMessage `json:"after"`  // null: it no longer exists
}

// PolicyEventFilter selects changes of policy. Empty fields match all.
type PolicyEventFilter struct {
	Organization string
	Kind         string // one of the Event constants
	Subject      string
	By           string    // the user who made the change
	From, To     time.Time // From is included, To is not; zero: open
	Limit        int       // zero: 50; at most 500
	Cursor       string    // of the page before; empty: the newest
}

// The kinds of policy events.
const (
	EventMode       = "mode"
	EventCapability = "capability"
	EventGate       = "gate"
	EventGrant      = "grant"
	EventRequest    = "grant_request"
	EventQuota      = "quota"
	EventSettings   = "settings"
	EventReview     = "review"
	EventConnector  = "connector" // added, removed, or changed in what a call would do
	// EventIntegration records that an integration was connected, changed in
	// effect or status, or disconnected.
	EventIntegration = "integration"
	EventApp         = "provider_app" // the gateway's registration at a service
	EventBinding     = "connections"  // of an automation
	EventMasterKey   = "master_key"   // replaced; the subject is the name of the new one
	// Automations and what belongs to them, and manual changes of runs and
	// deliveries.
	EventAutomation = "automation"
	EventTrigger    = "trigger"
	EventSchedule   = "schedule"
	EventEndpoint   = "run_endpoint"
	EventRun        = "run"
	EventDelivery   = "delivery"
	EventPerson     = "person"      // added, changed role, signed out, removed or readmitted
	EventNotify     = "notify"      // notification channels
	EventEnv        = "env_request" // environment variables that a person entered or refused; never their values
	EventWorkspace  = "workspace"
	EventRepository = "repository" // added by a person, or removed
	EventVariable   = "variable"   // entered or deleted, and given to a session; never its value
)

// EventKinds returns all kinds of policy events.
func EventKinds() []string {
	return []string{
		EventMode, EventCapability, EventGate, EventGrant, EventRequest, EventEnv, EventQuota, EventSettings, EventReview, EventConnector,
		EventIntegration, EventApp, EventBinding, EventMasterKey, EventAutomation, EventTrigger, EventSchedule, EventEndpoint,
		EventRun, EventDelivery, EventPerson, EventNotify, EventWorkspace, EventRepository, EventVariable,
	}
}

// AfterCompletion returns the decision for a session whose run is complete:
// only the tools of its run stay allowed, which then repeat their last reply.
func (d Decision) AfterCompletion(a *Action) Decision {
	if d.Mode == ModeDeny || a.Platform != nil && a.Platform.RunsOnly {
		return d
	}
	said := Step{Layer: LayerCeiling, Mode: ModeDeny, Note: "The run of this session is complete, so the session accepts no more calls."}
	return Decision{Mode: ModeDeny, Source: LayerCeiling, Version: d.Version, Steps: append(slices.Clip(d.Steps), said)}
}

// Forbidden returns the denial of a call that the settings of its integration
// forbid.
func (d Decision) Forbidden(note string) Decision {
	forbids := Step{Layer: LayerGuardrail, Mode: ModeDeny, Note: note}
	return Decision{Mode: ModeDeny, Source: LayerGuardrail, Version: d.Version, Steps: append(slices.Clip(d.Steps), forbids)}
}

// Check validates the mode and key of the override.
func (o *Override) Check() error {
	if !o.Mode.Valid() {
		return invalid("/mode", "A mode is allow, deny or require_approval.")
	}
	return firstError(checkOptional("/automation_id", "automation", o.Automation), o.Key.check("/key"))
}

// check refuses a key that does not survive formatting and parsing.
func (k Key) check(field string) error {
	parsed, err := parseKeyField(field, k.String())
	if err == nil && parsed != k {
		err = invalid(field, "The action of a policy key cannot have a colon, because the key is split at its last one.")
	}
	return err
}

// parseKeyField parses a policy key in a field of a request.
func parseKeyField(field, text string) (Key, error) {
	key, err := ParseKey(text)
	if err != nil {
		there := *Public(err)
		there.Field = field
		return key, &there
	}
	every := func(part string) bool { return part == "*" } // ParseKey checks the position of *
	if len(key.Source) > maxName || len(key.Action) > maxActionName || !every(key.Source) && !isLiteral(key.Source) || !every(key.Action) && !isLiteral(key.Action) {
		return key, invalid(field, fmt.Sprintf(
			"The source of a policy key has at most %d bytes, its action %d, and neither has control characters.", maxName, maxActionName))
	}
	return key, nil
}

// check validates the rate.
func (r Rate) check(at string) error {
	switch {
	case r.Calls < 1:
		return invalid(at+"/calls", "A rate must allow at least one call.")
	case r.Seconds < 1 || r.Seconds > 86_400:
		return invalid(at+"/seconds", "The window of a rate must be 1 to 86400 seconds.")
	}
	return nil
}

// Check validates the quota.
func (q *Quota) Check() error {
	if !q.Per.Valid() {
		return invalid("/per", "per must be session, group, creator or organization.")
	}
	return firstError(q.Key.check("/key"), q.Rate.check(""))
}

// Check validates the capability.
func (c *Capability) Check(now time.Time) error {
	switch {
	case !c.Level.Valid():
		return invalid("/level", "A level is 0 (none), 1 (read), 2 (write) or 3 (production).")
	case c.Level == LevelProduction && c.Gate == "":
		return invalid("/required_gate", "Level 3 (production) needs a gate that a person approves for each task. Name one, such as Security.")
	}
	err := firstError(
		CheckName("/group", "group", c.Group), CheckName("/provider", "provider", c.Provider),
		checkActions("/allowed_actions", c.AllowedActions), checkActions("/denied_actions", c.DeniedActions),
		checkFuture(c.ExpiresAt, now), checkOptional("/required_gate", "gate", c.Gate),
	)
	if err != nil || c.Rate == nil {
		return err
	}
	return c.Rate.check("/rate")
}

// Check validates the approval and returns the keys of its actions; none:
// every action behind the gate.
func (a *GateApproval) Check(now time.Time) (keys []Key, err error) {
	err = firstError(
		CheckName("/group", "group", a.Group), CheckName("/task", "task", a.Task), CheckName("/gate", "gate", a.Gate),
		checkFuture(a.ExpiresAt, now),
	)
	switch {
	case err != nil:
		return nil, err
	case a.Actions != nil && len(a.Actions) == 0:
		return nil, invalid("/actions", "Name the actions, or leave the list out for every action behind the gate.")
	case len(a.Actions) > maxActions:
		return nil, invalid("/actions", fmt.Sprintf("An approval can name at most %d actions. Create several.", maxActions))
	}
	for i, text := range a.Actions {
		field := fmt.Sprintf("/actions/%d", i)
		if text == "*" {
			return nil, invalidField(field, "Name source:action or source:*; leave actions out for every action behind the gate.")
		}
		key, err := parseKeyField(field, text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Check validates the settings.
func (s *Settings) Check() error {
	if s.DenialLimit < 0 {
		return invalid("/denial_limit", "denial_limit must be at least 1, or 0 for no limit.")
	}
	return CheckGroup("/default_group", s.DefaultGroup)
}
