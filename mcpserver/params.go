package mcpserver

import "sallyport/internal/jsonlex"

// params are the params of the methods that are ours, taken apart. The slices
// are raw and point into the body.
type params struct {
	name      string
	hasName   bool
	uri       string // empty when absent
	task      string // likewise
	arguments []byte
	cursor    []byte
	meta      []byte
	level     []byte
	state     []byte // requestState, and what goes with it
	responses []byte

	// Of actions_call, once it is unwrapped.
	wrapped bool
	key     []byte // of idempotency, raw; nil when it has none
}

func parseParams(raw []byte) (params, *problem) {
	var p params
	if raw == nil {
		return p, nil
	}
	m := members{text: raw}
	for m.next() {
		switch string(m.key) {
		case "name":
			if !isString(m.value) || p.hasName {
				return p, invalidParams("name must be one string.")
			}
			p.name, p.hasName = decodeString(m.value), true
		case "uri":
			if !isString(m.value) || p.uri != "" {
				return p, invalidParams("uri must be one string.")
			}
			p.uri = decodeString(m.value)
		case "taskId":
			if !isString(m.value) || p.task != "" {
				return p, invalidParams("taskId must be one string.")
			}
			p.task = decodeString(m.value)
		case "arguments":
			if p.arguments != nil {
				return p, invalidParams("arguments must be given once.")
			}
			p.arguments = m.value
		case "cursor":
			p.cursor = m.value
		case "level":
			p.level = m.value
		case "requestState":
			p.state = m.value
		case "inputResponses":
			p.responses = m.value
		case "_meta":
			if !isObject(m.value) || p.meta != nil {
				return p, invalidParams("_meta must be one object.")
			}
			p.meta = m.value
		}
	}
	if m.err != nil { // the envelope was valid, so this cannot be
		return p, invalidParams("params must be an object.")
	}
	return p, nil
}

// object returns the arguments as an object. Some models write the object as
// a string, and leave it out when there is nothing to say.
func (p *params) object() ([]byte, bool) {
	if p.arguments == nil || isNull(p.arguments) {
		return []byte("{}"), true
	}
	return jsonlex.Object(p.arguments)
}

// token returns the raw progress token, or nil when the client wants no
// progress.
func (p *params) token() ([]byte, *problem) {
	t := member(p.meta, "progressToken")
	if t != nil && !isString(t) && !isNumber(t) {
		return nil, invalidParams("_meta.progressToken must be a string or a number.")
	}
	return t, nil
}
