package api

import (
	"encoding/json"
	"time"

	"sallyport/action"
)

// Routes.
var (
	OnboardTools = Route[ByRefWith[Onboarding], List[ReviewView]]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/onboard", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{409},
		Summary: "Decide about tools and take them as reviewed",
		Doc:     "Sets the modes and takes the tools as reviewed, with the hashes of what was looked at, all in one. When a tool is another by now, nothing changes (409).",
	}}
	ListTools = Route[ListToolsInput, ReviewList]{Operation{
		Method: "GET", Path: "/api/v1/connectors/{ref}/tools", Who: Member, Tag: "connectors",
		Summary: "List a connector's tools and their reviews",
	}}
	ReviewTools = Route[ByRefWith[NewReview], List[ReviewView]]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/review", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{409},
		Summary: "Take tools as reviewed",
		Doc:     "With the hashes of what was looked at: a tool that changed since is refused, and with it all.",
	}}
)

// Onboarding is what a person decides of a connector's tools after looking at
// them.
type Onboarding struct {
	Tools []OnboardedTool `json:"tools" minItems:"1" maxItems:"10000" nullable:"false"`
}

// OnboardedTool is one tool, as it was seen, with the mode that it gets. The
// actions resources/read and prompts/get have no hashes.
type OnboardedTool struct {
	SeenTool
	Mode action.Mode `json:"mode,omitempty" enum:"allow,require_approval,deny" doc:"For the organization; absent: what policy says stays."`
}

// ReviewView is where a tool stands between its connector and the reviewer.
type ReviewView struct {
	Tool       string             `json:"tool" doc:"Its name at its server." example:"create_issue"`
	State      action.ReviewState `json:"state" enum:"new,reviewed,changed,removed"`
	Risk       action.Risk        `json:"risk,omitempty" doc:"Absent when it is not listed."`
	Mode       action.Mode        `json:"mode,omitempty" doc:"In a plain session; absent when it is not listed."`
	ModeSource action.Layer       `json:"mode_source,omitempty"`
	Reviewed   *Definition        `json:"reviewed" doc:"Null: it was never reviewed, or not since the connector changed."`
	Current    *Definition        `json:"current" doc:"Null: it is not listed."`
	ReviewedBy string             `json:"reviewed_by,omitempty" doc:"A user, or \"first list\" when nobody was asked."`
	ReviewedAt *time.Time         `json:"reviewed_at,omitempty"`
	SeenAt     time.Time          `json:"seen_at" doc:"First listed as it is now."`
	Changes    []Change           `json:"changes" nullable:"false" doc:"From the reviewed definition to the current one."`
}

// Definition is a tool as a connector listed it.
type Definition struct {
	_ struct{} `nullable:"true"`
	action.ToolHashes
	Definition json.RawMessage `json:"definition" doc:"The server's own words."`
}

// SeenTool is a tool with the hashes that a person saw.
type SeenTool struct {
	Tool      string `json:"tool" minLength:"1" maxLength:"200" example:"create_issue"`
	Behaviour string `json:"behaviour_hash,omitempty" maxLength:"200" doc:"Absent, with text_hash: it is not listed any more, and is forgotten."`
	Text      string `json:"text_hash,omitempty" maxLength:"200"`
}

// ReviewList is all that is known of a connector's tools.
type ReviewList struct {
	List[ReviewView]
	FetchedAt *time.Time `json:"fetched_at,omitempty" doc:"When the tools were last listed; absent: never."`
	Error     string     `json:"error,omitempty" doc:"Why the server could not be asked last; the list is of the time before."`
}

// NewReview says which tools a person has looked at.
type NewReview struct {
	Tools []SeenTool `json:"tools,omitempty" minItems:"1" maxItems:"10000" nullable:"false"`
	All   bool       `json:"all,omitempty" doc:"Instead of tools: every tool as it is now; removed ones are forgotten."`
}

// Change is one difference between two definitions of a tool.
type Change struct {
	Path   string          `json:"path" doc:"JSON Pointer; empty: the definition as a whole." example:"/inputSchema/properties/force"`
	Kind   string          `json:"kind" enum:"behaviour,text" doc:"behaviour: what the tool takes, answers or says it does to the world; text: what people and models read."`
	Before json.RawMessage `json:"before,omitempty" doc:"Absent: it was not there. Shortened when it is long."`
	After  json.RawMessage `json:"after,omitempty" doc:"Absent: it is not there any more. Shortened when it is long."`
}

// ListToolsInput is the input of [ListTools].
type ListToolsInput struct {
	ByRef
	Fresh bool `query:"fresh" doc:"Ask the server first; owners and admins only."`
}
