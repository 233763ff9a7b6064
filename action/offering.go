package action

import "encoding/json"

// The actions by which a connector's resources are read and its prompts gotten.
// No tool can have these names.
const (
	ActionRead   = "resources/read"
	ActionPrompt = "prompts/get"
)

// Offering is a resource, a resource template or a prompt of a source. It is
// shared between callers: treat it as read-only.
type Offering struct {
	Source     string          // source id
	SourceName string          // what people call the source
	Name       string          // at its source: a URI, a URI template, or a prompt's name
	As         string          // as agents see it; unique among its kind in the organization
	Definition json.RawMessage // as its source listed it, with As in Name's place
}

// Offerings are all that an organization's sources offer beside actions, each
// list in a stable order.
type Offerings struct {
	Resources []Offering
	Templates []Offering
	Prompts   []Offering

	// What some source of the organization can do.
	Reads      bool // it has resources, if perhaps none just now
	Gets       bool // likewise prompts
	Completes  bool // completion/complete
	Logs       bool // it sends log messages
	Subscribes bool // it tells of changes of single resources

	// Versions change when the lists do, or when a source said that they did.
	ResourcesVersion string // of Resources and Templates
	PromptsVersion   string
}
