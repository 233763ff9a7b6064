package mcpserver

import (
	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// unwrap turns the params of actions_call into those of the call that it asks
// for, so that from there on it is that call: the same row, the same hold, the
// same digest for a repeat, the same bytes of the result. Nothing else in this
// package knows how a call came. What is wrong with it is told in bad.
func unwrap(who *action.Session, p *params) (bad *message) {
	if p.name != toolCall {
		return nil
	}
	outer, ok := p.object()
	if !ok {
		return noObject(p.arguments)
	}
	p.name, p.hasName, p.arguments, p.wrapped = "", false, nil, true
	seen := map[string]bool{}
	for m := (members{text: outer}); m.next(); {
		name := string(m.key)
		if seen[name] {
			return refused("Invalid params at /" + cut(name, 64) + ": it is given twice.")
		}
		seen[name] = true
		if isNull(m.value) {
			continue // what some models write for what they leave out
		}
		if bad := p.unwrapOne(who, name, m.value); bad != nil {
			return bad
		}
	}
	switch p.name {
	case "":
		return refused("Invalid params at /tool: it must be the name of a tool; actions_search finds them.")
	case toolCall:
		return refused("Invalid params at /tool: actions_call does not call itself; name the tool that you want.")
	}
	return nil
}

func (p *params) unwrapOne(who *action.Session, name string, value []byte) (bad *message) {
	if name == "arguments" {
		p.arguments = value
		return nil
	}
	switch name {
	case "tool", "idempotency_key", "task":
		if !isString(value) {
			return refused("Invalid params at /" + name + ": it must be a string, but it is " + jsonlex.Kind(value) + ".")
		}
	}
	switch text := value; name {
	case "tool":
		p.name = decodeString(text)
		p.hasName = p.name != ""
	case "idempotency_key":
		p.key = text
	case "task":
		if task := decodeString(text); task != who.Task {
			return refused("Invalid params at /task: this session works on " + workOf(who) +
				", which was fixed when it was minted. Nothing was executed. Leave task out, or use a session of that task.")
		}
	default:
		return refused("Invalid params at /" + cut(name, 64) + ": actions_call has no such argument. It takes tool, arguments, idempotency_key and task; what the tool needs goes into arguments.")
	}
	return nil
}

func workOf(who *action.Session) string {
	if who.Task == "" {
		return "no task"
	}
	return "the task " + who.Task
}

// noObject refuses arguments that are no object.
func noObject(raw []byte) *message {
	return refused("Invalid params: arguments must be a JSON object, but " + jsonlex.NoObject(raw) + ".")
}
