package agent

import (
	"strings"

	"sallyport/action"
)

// The gateway's tools that prompts mention.
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

// PromptTools returns the tools that a prompt may mention.
func PromptTools() []string {
	return []string{toolComplete, toolFiles, toolCommands, toolGrant, toolGuide, toolRequest, toolSearch, toolVerify, toolWait}
}

// Prompt returns the system prompt of a session type, as Markdown. It mentions
// a tool only if has reports it. An unknown type gets the prompt for coding.
func Prompt(t action.SessionType, has func(tool string) bool) string {
	var p prompt
	p.has = has
	switch t {
	case action.TypeSetup:
		p.setupSections()
	case action.TypeAutomation:
		p.codingSections()
		p.automationSection()
	default:
		p.codingSections()
	}
	return p.text.String()
}

// MandatoryPrompt returns what an agent of the type must be told even if the
// session has its own prompt; it may be empty.
func MandatoryPrompt(t action.SessionType, has func(tool string) bool) string {
	if t != action.TypeAutomation {
		return ""
	}
	p := prompt{has: has}
	p.automationSection()
	return p.text.String()
}

// prompt builds a text from sections and lines.
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

// write adds lines.
func (p *prompt) write(lines ...string) {
	for _, l := range lines {
		p.text.WriteString(l + "\n")
	}
}

// writeIfTool adds lines if the session has the tool.
func (p *prompt) writeIfTool(tool string, lines ...string) {
	if p.has(tool) {
		p.write(lines...)
	}
}

// serviceSection explains the tools of services.
func (p *prompt) serviceSection() {
	p.section("Tools of services")
	p.write(
		"Tools of services such as an issue tracker act on real systems through Sallyport, a gateway that holds the credentials. Never ask anybody for an API key of a service that you have tools for, and do not look for one.",
		"",
		"- Reads usually run at once. A write may wait for a person's approval: the call stays open meanwhile. That is normal; do not repeat it.",
	)
	p.writeIfTool(toolWait, "- A call that is answered PENDING goes on waiting. Get its result with `"+toolWait+"` and the invocation id; do not make the call again.")
	p.write(
		"- A denial is final. Do not look for another way to the same effect; say what was refused, and go on with what does not need it.",
		"- Of a call whose outcome is unknown, look at the service before you try it again.",
	)
	p.writeIfTool(toolSearch, "- Most tools are not listed. Find one by what it does with `"+toolSearch+"`.")
	p.writeIfTool(toolGuide, "- `"+toolGuide+"` explains a service's tools, with their params and examples.")
	p.writeIfTool(toolGrant, "- When many writes of one kind lie ahead, ask once with `"+toolGrant+"`, with a reason that a person can judge.")
	p.write("- In a shell, `sallyport actions list`, `sallyport actions guide` and `sallyport actions run` do the same with the same rules.")
}

// variableLines explains how to request values that only a person has.
func (p *prompt) variableLines(lead string) {
	p.writeIfTool(toolRequest, lead+" A person enters them; take what you need out of the file that the answer names, key by key, and never print the file or a value.")
}
