package action

import (
	"encoding/json"
	"time"
)

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
