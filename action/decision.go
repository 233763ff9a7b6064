package action

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Layer is the part of policy that made a decision (mode_source).
type Layer string

// The layers, in the order in which they are asked. Ceilings only deny; the
// next four are a cascade, whose first hit wins; drift only tightens what came
// out; grants turn a required approval into an allow.
const (
	LayerCeiling      Layer = "ceiling"
	LayerAutomation   Layer = "automation"
	LayerOrganization Layer = "organization"
	LayerCapability   Layer = "capability"
	LayerInferred     Layer = "inferred"
	LayerDrift        Layer = "drift"
	LayerGrant        Layer = "grant"
)

// Step is what one layer said while a decision was made.
type Step struct {
	Layer Layer  `json:"layer"`
	Key   string `json:"key,omitempty"`  // the policy key that matched
	Mode  Mode   `json:"mode,omitempty"` // empty: the layer had nothing to say
	Note  string `json:"note"`           // one sentence for a person
	// Alert marks what a person must know before he approves: that the tool is
	// not the one that was reviewed.
	Alert bool `json:"alert,omitempty"`
}

// Alerts are the notes of the steps that a person must know before he approves.
func Alerts(steps []Step) []string {
	var notes []string
	for _, s := range steps {
		if s.Alert {
			notes = append(notes, s.Note)
		}
	}
	return notes
}

// Decision is what policy says of one call, and how it came to say it.
type Decision struct {
	Mode   Mode   `json:"mode"`
	Source Layer  `json:"mode_source"`
	Steps  []Step `json:"steps"` // every layer asked, in order
	// Version is the policy version that the decision rests on. A row is
	// written only while it is still the organization's.
	Version int64 `json:"policy_version"`
	// Limits are what the call counts against before it is taken.
	Limits []Limit `json:"limits,omitempty"`
	// Grants are those that cover the call, of a decision by a grant, in the
	// order in which they are used up. Nothing is used up by deciding.
	Grants []string `json:"grants,omitempty"`
	// DenialLimit is the organization's; see [Settings].
	DenialLimit int `json:"-"`
}

// Why returns what the layer that decided says of it.
func (d *Decision) Why() string {
	for i := len(d.Steps) - 1; i >= 0; i-- {
		if d.Steps[i].Layer == d.Source {
			return d.Steps[i].Note
		}
	}
	return ""
}

// Override is one row of policy: what a key means for an organization, or for
// one of its automations.
type Override struct {
	Organization string `json:"-" bun:"organization_id,pk"`
	Automation   string `json:"automation_id,omitempty" bun:"automation_id,pk"` // empty: the organization's own
	Key          Key    `json:"-" bun:"embed:"`
	Mode         Mode   `json:"mode"`
	UpdatedBy    string `json:"updated_by"`
	// UpdatedAt is told by lists for people; no decision rests on it.
	UpdatedAt time.Time `json:"-"`
}

// Rules are all of an organization's policy at one version, but for grants,
// which are asked for when a call needs one.
type Rules struct {
	Version      int64
	Settings     Settings
	Overrides    []Override
	Capabilities []Capability // that are not revoked; expired ones may be among them
	Gates        []GateApproval
	Quotas       []Quota
	// Integrations are those that are not deleted, without their credentials. A
	// change of one that matters to a decision moves the version.
	Integrations []Integration
	// Reviewed are the hashes that were reviewed, by source and tool.
	Reviewed map[Key]ToolHashes
	// Risks are those that the reviewed tools had then. A changed tool counts
	// with the worse of that one and its own.
	Risks map[Key]Risk
}

// Settings are an organization's choices.
type Settings struct {
	// SelfApproval lets the creator of a session approve its calls, and make
	// grants that cover them.
	SelfApproval bool `json:"self_approval"`
	// DenialLimit is how many denials of an action in a session deny it there
	// for good; zero: none do.
	DenialLimit int `json:"denial_limit"`
	// UnverifiedEvents lets events start runs that a broker forwards without
	// having verified who sent them.
	UnverifiedEvents bool `json:"unverified_events"`
}

// DefaultSettings are those of an organization that chose nothing.
func DefaultSettings() Settings { return Settings{SelfApproval: true, DenialLimit: 3} }

// PolicyEvent records one change of policy. Events are only ever appended.
type PolicyEvent struct {
	ID           string          `json:"id"`
	Organization string          `json:"organization_id"`
	Kind         string          `json:"kind"`    // one of the Event constants
	Subject      string          `json:"subject"` // what changed: a key, a group and provider, an id
	By           string          `json:"by"`
	At           time.Time       `json:"at"`
	Before       json.RawMessage `json:"before"` // null: there was nothing
	After        json.RawMessage `json:"after"`  // null: there is nothing any more
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
	// EventIntegration tells of an integration that was connected, changed in
	// what a call would do, changed in its status, or disconnected.
	EventIntegration = "integration"
	EventApp         = "provider_app" // the gateway's registration at a service
	EventBinding     = "connections"  // of an automation
	EventMasterKey   = "master_key"   // replaced; the subject is the name of the new one
	// What starts runs, where they go, and what people did to them by hand.
	EventAutomation = "automation"
	EventTrigger    = "trigger"
	EventSchedule   = "schedule"
	EventEndpoint   = "run_endpoint"
	EventRun        = "run"
	EventDelivery   = "delivery"
	EventPerson     = "person"      // added, given another role, cut off, removed, or let in again
	EventNotify     = "notify"      // where people hear of held calls elsewhere
	EventEnv        = "env_request" // environment variables that a person gave to a session, or did not; never their values
)

// EventKinds are all kinds of policy events.
func EventKinds() []string {
	return []string{
		EventMode, EventCapability, EventGate, EventGrant, EventRequest, EventEnv, EventQuota, EventSettings, EventReview, EventConnector,
		EventIntegration, EventApp, EventBinding, EventMasterKey, EventAutomation, EventTrigger, EventSchedule, EventEndpoint,
		EventRun, EventDelivery, EventPerson, EventNotify,
	}
}

// AfterCompletion is what a decision comes to in a session that said that it is done:
// it hears again what its last word was answered with, and begins nothing.
func (d Decision) AfterCompletion(a *Action) Decision {
	if d.Mode == ModeDeny || a.Platform != nil && a.Platform.RunsOnly {
		return d
	}
	said := Step{Layer: LayerCeiling, Mode: ModeDeny, Note: "The run of this session is complete, so the session accepts no more calls."}
	return Decision{Mode: ModeDeny, Source: LayerCeiling, Version: d.Version, Steps: append(slices.Clip(d.Steps), said)}
}

// Check refuses a mode, or a key, that does not exist.
func (o *Override) Check() error {
	if !o.Mode.Valid() {
		return invalid("/mode", "A mode is allow, deny or require_approval.")
	}
	return firstError(checkOptional("/automation_id", "automation", o.Automation), o.Key.check("/key"))
}

// check refuses a key that is not the one that its text means.
func (k Key) check(field string) error {
	parsed, err := parseKeyField(field, k.String())
	if err == nil && parsed != k {
		err = invalid(field, "The action of a policy key cannot have a colon, because the key is split at its last one.")
	}
	return err
}

// parseKeyField reads a policy key that somebody wrote into a field.
func parseKeyField(field, text string) (Key, error) {
	key, err := ParseKey(text)
	if err != nil {
		there := *Public(err)
		there.Field = field
		return key, &there
	}
	every := func(part string) bool { return part == "*" } // ParseKey checks where one may stand
	if len(key.Source) > maxName || len(key.Action) > maxActionName || !every(key.Source) && !isLiteral(key.Source) || !every(key.Action) && !isLiteral(key.Action) {
		return key, invalid(field, fmt.Sprintf(
			"The source of a policy key has at most %d bytes, its action %d, and neither has control characters.", maxName, maxActionName))
	}
	return key, nil
}

// check refuses a rate that lets nothing through, or has no window.
func (r Rate) check(at string) error {
	switch {
	case r.Calls < 1:
		return invalid(at+"/calls", "A rate must allow at least one call.")
	case r.Seconds < 1 || r.Seconds > 86_400:
		return invalid(at+"/seconds", "The window of a rate must be 1 to 86400 seconds.")
	}
	return nil
}

// Check refuses a quota that counts nothing.
func (q *Quota) Check() error {
	if !q.Per.Valid() {
		return invalid("/per", "per must be session, group, creator or organization.")
	}
	return firstError(q.Key.check("/key"), q.Rate.check(""))
}

// Check refuses a capability that could not be used.
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

// Check refuses an approval that opens nothing, and returns the keys of its
// actions; none: all that are behind the gate.
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

// Check refuses settings that do not exist.
func (s *Settings) Check() error {
	if s.DenialLimit < 0 {
		return invalid("/denial_limit", "denial_limit must be at least 1, or 0 for no limit.")
	}
	return nil
}
