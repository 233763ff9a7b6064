package action

import "time"

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
