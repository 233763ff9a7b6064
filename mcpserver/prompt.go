package mcpserver

import (
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/internal/agent"
	"sallyport/internal/jsonlex"
)

// promptTypes are the types of session, each with a prompt of its name.
func promptTypes() []action.SessionType {
	return []action.SessionType{action.TypeSetup, action.TypeCoding, action.TypeAutomation}
}

// PromptNames returns the names that no prompt of a source may have.
func PromptNames() (names []string) {
	for _, t := range promptTypes() {
		names = append(names, string(t))
	}
	return names
}

func ownPrompt(name string) bool { return slices.Contains(promptTypes(), action.SessionType(name)) }

// ownPrompts are the definitions of the gateway's prompts, by what they are
// listed under: pages are in the order of that, and a session's own prompt comes
// first, then the others, then those of sources.
func ownPrompts() (of map[action.SessionType]map[string][]byte, nothing map[string][]byte) {
	of, nothing = map[action.SessionType]map[string][]byte{}, map[string][]byte{}
	for _, session := range append(promptTypes(), "") {
		of[session] = map[string][]byte{}
		for _, t := range promptTypes() {
			nothing[string(t)] = nil
			place, about := "\x01", "The system prompt of "+string(t)+" sessions."
			if t == session {
				place, about = "\x00", "The system prompt of this session: what it is for, and how to work behind this gateway."
			}
			raw, _ := json.Marshal(&mcp.Prompt{Name: string(t), Title: "System prompt: " + string(t), Description: about}) // strings always encode
			of[session][place+string(t)] = raw
		}
	}
	return of, nothing
}

// getPrompt answers with a system prompt, as it is for the session that asks.
func (s *Server) getPrompt(x *exchange, p *params) {
	now := s.cfg.Now()
	list, err := s.views.of(&x.who, now).current(x.r.Context(), s.cfg.Gate, &x.who, now)
	if err != nil {
		x.refuse(s.besideMessage(err))
		return
	}
	text, own := agent.ForSession(&x.who, action.SessionType(p.name), list.lists)
	about := "The system prompt of " + p.name + " sessions."
	if own {
		about = "The system prompt that this session was given."
	}
	b := jsonlex.Quote([]byte(`{"description":`), about)
	b = jsonlex.Quote(append(b, `,"messages":[{"role":"user","content":{"type":"text","text":`...), text)
	x.refuse(message{result: append(b, `}}]}`...)})
}

// lists reports whether a tool is listed.
func (t *toolset) lists(name string) bool {
	_, found := slices.BinarySearch(t.names, name)
	return found
}
