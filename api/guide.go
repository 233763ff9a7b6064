package api

import (
	"sallyport/action"
)

// Routes.
var (
	GetGuide = Route[GetGuideInput, GuideView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/guide", Who: Audience, Tag: "actions",
		Summary: "Get the guide of the session",
		Doc:     "Generated from the current list of actions: what happens to a call of each action, its params as a table, and an example. The size is limited; the rest is listed, with how to get it.",
	}}
	GetSourceGuide = Route[GetSourceGuideInput, GuideView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/actions/guide/{source}", Who: Audience, Tag: "actions",
		Summary: "Get the guide of a source",
		Doc:     "Generated from the current list of actions: what happens to a call of each action, its params as a table, and an example. The size is limited; the rest is listed, with how to get it.",
	}}
	GetPrompt = Route[GetPromptInput, PromptView]{Operation{
		Method: "GET", Path: "/api/v1/sessions/{session}/prompt", Who: Audience, Tag: "actions",
		Summary: "Get the system prompt of the session",
		Doc:     "The prompt of its type, or its own prompt with the required instructions of the type. It names only tools of the session.",
	}}
)

// GuideView is a guide to actions, for agents.
type GuideView struct {
	Source   string `json:"source_id,omitempty" doc:"Missing: the guide of the whole session." example:"linear"`
	Title    string `json:"title" example:"Linear"`
	Markdown string `json:"markdown" doc:"Texts of connected servers are fenced and marked."`
}

// PromptView is a system prompt.
type PromptView struct {
	Type action.SessionType `json:"type" enum:"coding,setup,automation"`
	Own  bool               `json:"own" doc:"The session's own prompt, not the prompt of its type."`
	Text string             `json:"text"`
}

// OfAction picks one action of a guide.
type OfAction struct {
	Action string `query:"action" maxLength:"200" doc:"Only this action, by its own name or its tool name." example:"create_issue" kong:"env='-',placeholder='ACTION',help='Only this action, by its own name or its tool name.'"`
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
	Source string `path:"source" maxLength:"200" doc:"ID or name." example:"linear"`
}

// GetPromptInput is the input of [GetPrompt].
type GetPromptInput struct {
	InSession
	Type action.SessionType `query:"type" enum:"coding,setup,automation" doc:"Missing: the type of the session."`
}
