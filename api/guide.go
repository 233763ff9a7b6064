package api

import (
	"sallyport/action"
)

// Routes.
var (
	GetGuide = Route[GetGuideInput, GuideView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/guide", Who: Audience, Tag: "actions",
		Summary: "Explain all actions of the session",
		Doc:     "Written from the list of what is allowed now: each action with what becomes of a call, its params as a table and an example. Texts are bounded; what is left out is listed, with how to get it.",
	}}
	GetSourceGuide = Route[GetSourceGuideInput, GuideView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/guide/{source}", Who: Audience, Tag: "actions",
		Summary: "Explain the actions of a source",
		Doc:     "Written from the list of what is allowed now: each action with what becomes of a call, its params as a table and an example. Texts are bounded; what is left out is listed, with how to get it.",
	}}
	GetPrompt = Route[GetPromptInput, PromptView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/prompt", Who: Audience, Tag: "actions",
		Summary: "Read the session's system prompt",
		Doc:     "That of its type, or its own one with what an agent of the type must be told in any case. It names only tools that the session has.",
	}}
)

// GuideView is a guide to actions, for agents.
type GuideView struct {
	Source   string `json:"source_id,omitempty" doc:"Absent: the guide is of the whole session." example:"linear"`
	Title    string `json:"title" example:"Linear"`
	Markdown string `json:"markdown" doc:"Texts of connected servers stand in fences and are marked as theirs."`
}

// PromptView is a system prompt.
type PromptView struct {
	Type action.SessionType `json:"type" enum:"coding,setup,automation"`
	Own  bool               `json:"own" doc:"It is the session's own one, and not that of its type."`
	Text string             `json:"text"`
}

// OfAction picks one action of a guide.
type OfAction struct {
	Action string `query:"action" maxLength:"200" doc:"Only this one: its name at the source, or that of its tool." example:"create_issue" kong:"env='-',placeholder='ACTION',help='Only this action, by its own name or its tool name.'"`
}

// GetGuideInput is the input of [GetGuide].
type GetGuideInput struct {
	InSession
	OfAction
}

// GetSourceGuideInput is the input of [GetSourceGuide].
type GetSourceGuideInput struct {
	InSession
	OfAction
	Source string `path:"source" maxLength:"200" doc:"Its id, or what people call it." example:"linear"`
}

// GetPromptInput is the input of [GetPrompt].
type GetPromptInput struct {
	InSession
	Type action.SessionType `query:"type" enum:"coding,setup,automation" doc:"Absent: the session's."`
}
