package dashboard

// Preset is what is known of a public MCP server, so that nobody has to look
// it up.
type Preset struct {
	Name         string            `json:"name" doc:"Name it as preset when a connector is added." example:"linear"`
	Title        string            `json:"title" example:"Linear"`
	URL          string            `json:"url" doc:"Empty: yours to give." example:"https://mcp.linear.app/mcp"`
	Auth         []string          `json:"auth" nullable:"false" enum:"none,secret,oauth" doc:"What it takes; the first is the one to choose."`
	Header       string            `json:"header,omitempty" doc:"That carries a secret; absent: Authorization."`
	Prefix       string            `json:"prefix,omitempty" doc:"Before a secret." example:"Bearer "`
	Registration string            `json:"registration,omitempty" enum:"dynamic,static,allow_listed" doc:"How a client of its OAuth comes to be: by itself, by a person at the service, or by the service alone."`
	Headers      map[string]string `json:"headers,omitempty" nullable:"false" doc:"Sent along as they are."`
	PerAgent     bool              `json:"per_agent,omitempty" doc:"It keeps state of a session."`
	Variants     []PresetVariant   `json:"variants" nullable:"false"`
	Hint         string            `json:"hint" doc:"Where its credential comes from."`
	Unsure       []string          `json:"unsure,omitempty" nullable:"false" doc:"Fields that its own documentation was not seen to say: look there."`
}

// PresetVariant is a preset with a difference: another region, or only what
// reads.
type PresetVariant struct {
	Name    string            `json:"name" example:"read-only"`
	Title   string            `json:"title"`
	Region  bool              `json:"region,omitempty"`
	URL     string            `json:"url,omitempty" doc:"Absent: the preset's."`
	Headers map[string]string `json:"headers,omitempty" nullable:"false" doc:"Beside the preset's."`
	Auth    []string          `json:"auth,omitempty" nullable:"false" doc:"Absent: the preset's."`
	Unsure  bool              `json:"unsure,omitempty"`
}
