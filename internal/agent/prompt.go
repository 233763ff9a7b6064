package agent

import (
	"strings"

	"sallyport/action"
)

// The tools of the gateway that prompts speak of.
const (
	toolVerify   = "verify"
	toolComplete = "automation_complete"
	toolCommands = "save_service_commands"
	toolFiles    = "save_env_files"
	toolRequest  = "request_env_variables"
	toolWait     = "invocation_wait"
	toolGrant    = "grant_request"
	toolGuide    = "actions_guide"
	toolSearch   = "actions_search"
)

// Named are the tools that a prompt may name.
func Named() []string {
	return []string{toolComplete, toolFiles, toolCommands, toolGrant, toolGuide, toolRequest, toolSearch, toolVerify, toolWait}
}

// Prompt returns the system prompt of sessions of a type, as Markdown. It
// names a tool only when has says that the session has it. Of a type that is
// not known it is that of coding.
func Prompt(t action.SessionType, has func(tool string) bool) string {
	var p prompt
	p.has = has
	switch t {
	case action.TypeSetup:
		p.setup()
	case action.TypeAutomation:
		p.coding()
		p.automation()
	default:
		p.coding()
	}
	return p.text.String()
}

// Mandatory returns what an agent of the type must be told even where a
// session's own prompt stands for that of its type; empty: nothing.
func Mandatory(t action.SessionType, has func(tool string) bool) string {
	if t != action.TypeAutomation {
		return ""
	}
	p := prompt{has: has}
	p.automation()
	return p.text.String()
}

// prompt is a text that grows by sections and lines.
type prompt struct {
	has  func(tool string) bool
	text strings.Builder
}

// section begins a part with a heading.
func (p *prompt) section(heading string) {
	if p.text.Len() > 0 {
		p.text.WriteString("\n")
	}
	p.text.WriteString("# " + heading + "\n\n")
}

// say adds lines.
func (p *prompt) say(lines ...string) {
	for _, l := range lines {
		p.text.WriteString(l + "\n")
	}
}

// with adds lines when the tool is there.
func (p *prompt) with(tool string, lines ...string) {
	if p.has(tool) {
		p.say(lines...)
	}
}

// services tells how tools of services behave, which is alike for every type
// but for who answers while a call waits.
func (p *prompt) services() {
	p.section("Tools of services")
	p.say(
		"Tools of services such as an issue tracker act on real systems through Sallyport, a gateway that holds the credentials. Never ask anybody for an API key of a service that you have tools for, and do not look for one.",
		"",
		"- Reads usually run at once. A write may wait for a person's approval: the call stays open meanwhile. That is normal; do not repeat it.",
	)
	p.with(toolWait, "- A call that is answered PENDING goes on waiting. Get its result with `"+toolWait+"` and the invocation id; do not make the call again.")
	p.say(
		"- A denial is final. Do not look for another way to the same effect; say what was refused, and go on with what does not need it.",
		"- Of a call whose outcome is unknown, look at the service before you try it again.",
	)
	p.with(toolSearch, "- Most tools are not listed. Find one by what it does with `"+toolSearch+"`.")
	p.with(toolGuide, "- `"+toolGuide+"` explains a service's tools, with their params and examples.")
	p.with(toolGrant, "- When many writes of one kind lie ahead, ask once with `"+toolGrant+"`, with a reason that a person can judge.")
	p.say("- In a shell, `sallyport actions list`, `sallyport actions guide` and `sallyport actions run` do the same with the same rules.")
}

// variables tells how to get values that only a person has.
func (p *prompt) variables(lead string) {
	p.with(toolRequest, lead+" A person enters them; take what you need out of the file that the answer names, key by key, and never print the file or a value.")
}
