package action

// Layer is the part of policy that made a decision (mode_source).
type Layer string

// The layers that decide today, in the order in which they are asked.
const (
	LayerAutomation   Layer = "automation"
	LayerOrganization Layer = "organization"
	LayerInferred     Layer = "inferred"
)

// Step is what one layer said while a decision was made.
type Step struct {
	Layer Layer  `json:"layer"`
	Key   string `json:"key,omitempty"`  // the policy key that matched
	Mode  Mode   `json:"mode,omitempty"` // empty: the layer had nothing to say
	Note  string `json:"note"`           // one sentence for a person
}

// Decision is what policy says of one call, and how it came to say it.
type Decision struct {
	Mode   Mode   `json:"mode"`
	Source Layer  `json:"mode_source"`
	Steps  []Step `json:"steps"` // every layer asked, in order
	// Version is the policy version that the decision rests on. A row is
	// written only while it is still the organization's.
	Version int64 `json:"policy_version"`
}

// Override is one row of policy: what a key means for an organization, or for
// one of its automations.
type Override struct {
	Organization string `json:"-"`
	Automation   string `json:"automation_id,omitempty"` // empty: the organization's own
	Key          Key    `json:"-"`
	Mode         Mode   `json:"mode"`
	UpdatedBy    string `json:"updated_by"`
}
