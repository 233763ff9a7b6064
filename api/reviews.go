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
		Summary: "Set modes of tools and mark them as reviewed",
		Doc:     "In one transaction, with the hashes that you saw. If a tool changed, nothing changes (409).",
	}}
	ListTools = Route[ListToolsInput, ReviewList]{Operation{
		Method: "GET", Path: "/api/v1/connectors/{ref}/tools", Who: Member, Tag: "connectors",
		Summary: "List the tools of a connector with their reviews",
	}}
	ReviewTools = Route[ByRefWith[NewReview], List[ReviewView]]{Operation{
		Method: "POST", Path: "/api/v1/connectors/{ref}/review", Who: Decider, Tag: "connectors", Status: 200, Errors: []int{409},
		Summary: "Mark tools as reviewed",
		Doc:     "With the hashes that you saw: if a tool changed, the whole request is refused.",
	}}
)

// Onboarding has a person's decisions about a connector's tools.
type Onboarding struct {
	Tools []OnboardedTool `json:"tools" minItems:"1" maxItems:"10000" nullable:"false"`
}

// OnboardedTool is a reviewed tool with its new mode. The actions
// resources/read and prompts/get have no hashes.
type OnboardedTool struct {
	SeenTool
	Mode action.Mode `json:"mode,omitempty" enum:"allow,require_approval,deny" doc:"Mode for the organization; missing: unchanged."`
}

// ReviewView is the review of a tool.
type ReviewView struct {
	Tool       string             `json:"tool" doc:"Name at its server." example:"create_issue"`
	State      action.ReviewState `json:"state" enum:"new,reviewed,changed,removed"`
	Risk       action.Risk        `json:"risk,omitempty" doc:"Missing if it is not listed."`
	Mode       action.Mode        `json:"mode,omitempty" doc:"In a plain session; missing if it is not listed."`
	ModeSource action.Layer       `json:"mode_source,omitempty"`
	Reviewed   *Definition        `json:"reviewed" doc:"Null: never reviewed, or not since the connector changed."`
	Current    *Definition        `json:"current" doc:"Null: not listed."`
	ReviewedBy string             `json:"reviewed_by,omitempty" doc:"A user, or \"first list\" if no person reviewed it."`
	ReviewedAt *time.Time         `json:"reviewed_at,omitempty"`
	SeenAt     time.Time          `json:"seen_at" doc:"First listed in this version."`
	Changes    []Change           `json:"changes" nullable:"false" doc:"From the reviewed definition to the current one."`
}

// Definition is a tool as a connector listed it.
type Definition struct {
	_ struct{} `nullable:"true"`
	action.ToolHashes
	Definition json.RawMessage `json:"definition" doc:"Text from the server."`
}

// SeenTool is a tool with the hashes that a person saw.
type SeenTool struct {
	Tool      string `json:"tool" minLength:"1" maxLength:"200" example:"create_issue"`
	Behaviour string `json:"behaviour_hash,omitempty" maxLength:"200" doc:"Missing, with text_hash: it is no longer listed, and is removed."`
	Text      string `json:"text_hash,omitempty" maxLength:"200"`
}

// ReviewList has the reviews of a connector's tools.
type ReviewList struct {
	List[ReviewView]
	FetchedAt *time.Time `json:"fetched_at,omitempty" doc:"When the tools were last listed; missing: never."`
	Error     string     `json:"error,omitempty" doc:"Why the last request to the server failed; the list is older."`
}

// NewReview marks tools as reviewed.
type NewReview struct {
	Tools []SeenTool `json:"tools,omitempty" minItems:"1" maxItems:"10000" nullable:"false"`
	All   bool       `json:"all,omitempty" doc:"Instead of tools: every tool in its current version; removed tools are deleted."`
}

// Change is one difference between two definitions of a tool.
type Change struct {
	Path   string          `json:"path" doc:"JSON Pointer; empty: the whole definition." example:"/inputSchema/properties/force"`
	Kind   string          `json:"kind" enum:"behaviour,text" doc:"behaviour: what the tool takes, returns or declares about its effects; text: what people and models read."`
	Before json.RawMessage `json:"before,omitempty" doc:"Missing: it did not exist. Truncated if it is long."`
	After  json.RawMessage `json:"after,omitempty" doc:"Missing: it no longer exists. Truncated if it is long."`
}

// ListToolsInput is the input of [ListTools].
type ListToolsInput struct {
	ByRef
	Fresh bool `query:"fresh" doc:"Ask the server first; owners and admins only."`
}
