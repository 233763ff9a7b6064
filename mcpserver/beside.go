package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// This file is what sources offer beside tools: their resources are read and
// their prompts gotten by calls of the Gate, as tools are called.

// isTool reports whether an invocation was a tool's.
func isTool(inv *action.Invocation) bool {
	return inv.Action != action.ActionRead && inv.Action != action.ActionPrompt
}

// findResource finds what a read is a call of.
func (s *Server) findResource(x *exchange, p *params) (t tool, arguments []byte, bad *message) {
	if p.uri == "" {
		return t, nil, failed(missingURI())
	}
	source, name, err := s.cfg.Resolver.ResolveResource(x.r.Context(), &x.who, p.uri)
	if err != nil {
		m := s.resourceMessage(x, p.uri, err)
		return t, nil, &m
	}
	return tool{source: source, action: action.ActionRead}, append(jsonlex.Quote([]byte(`{"uri":`), name), '}'), nil
}

// findPrompt finds what the getting of a prompt is a call of.
func (s *Server) findPrompt(x *exchange, p *params) (t tool, arguments []byte, bad *message) {
	if p.name == "" {
		return t, nil, failed(invalidParams("The name of the prompt is missing; prompts/list tells what there is."))
	}
	if p.arguments != nil && !isObject(p.arguments) {
		return t, nil, failed(invalidParams("arguments must be an object of strings."))
	}
	source, name, err := s.cfg.Resolver.ResolvePrompt(x.r.Context(), &x.who, p.name)
	switch {
	case errors.Is(err, action.ErrNotFound):
		return t, nil, failed(unknownPrompt(p.name))
	case err != nil:
		m := s.besideMessage(err)
		return t, nil, &m
	}
	b := jsonlex.Quote([]byte(`{"name":`), name)
	if p.arguments != nil {
		b = append(append(b, `,"arguments":`...), p.arguments...)
	}
	return tool{source: source, action: action.ActionPrompt}, append(b, '}'), nil
}

// asToolResult is what was read or gotten, for somebody who waited for it with
// a tool.
func asToolResult(body []byte) message {
	b := jsonlex.Quote([]byte(`{"content":[{"type":"text","text":`), body)
	b = append(append(b, `}],"structuredContent":`...), body...)
	return message{result: append(b, '}')}
}

// complete answers completion/complete. Of its params only the name changes,
// into that at the source; what concerns the client and us alone stays here.
func (s *Server) complete(x *exchange) {
	if s.calls.draining() {
		s.unavailable(x.w)
		return
	}
	source, beside, params, bad := s.completion(x)
	if bad != nil {
		x.refuse(*bad)
		return
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	answer, err := s.cfg.Gate.Complete(ctx, &x.who, source, beside, params)
	switch {
	case err != nil:
		x.refuse(s.besideMessage(err))
	case answer.Problem != nil:
		x.refuse(message{fault: answer.Problem})
	default:
		x.refuse(message{result: answer.Body})
	}
}

// completion reads whose completion is asked for.
func (s *Server) completion(x *exchange) (source, beside string, params json.RawMessage, bad *message) {
	ref := member(x.params, "ref")
	field := func(key string) string {
		if v := member(ref, key); isString(v) {
			return decodeString(v)
		}
		return ""
	}
	var name, key string
	var err error
	switch field("type") {
	case "ref/prompt":
		key, beside = "name", action.ActionPrompt
		source, name, err = s.cfg.Resolver.ResolvePrompt(x.r.Context(), &x.who, field("name"))
		if errors.Is(err, action.ErrNotFound) {
			return "", "", nil, failed(unknownPrompt(field("name")))
		}
	case "ref/resource":
		key, beside = "uri", action.ActionRead
		source, name, err = s.cfg.Resolver.ResolveResource(x.r.Context(), &x.who, field("uri"))
		if errors.Is(err, action.ErrNotFound) {
			p := unknownResource(x.modern, field("uri"))
			p.code = codeInvalidParams // it was not asked to be read
			return "", "", nil, failed(p)
		}
	default:
		return "", "", nil, failed(invalidParams("ref.type must be ref/prompt or ref/resource."))
	}
	if err != nil {
		m := s.besideMessage(err)
		return "", "", nil, &m
	}
	return source, beside, renamed(x.params, ref, key, name), nil
}

// renamed returns the params of a completion with another name in its
// reference, without _meta.
func renamed(params, ref []byte, key, name string) []byte {
	b := []byte{'{'}
	for m := (members{text: params}); m.next(); {
		value := m.value
		switch string(m.key) {
		case "_meta":
			continue
		case "ref":
			value = replaced(ref, key, jsonlex.Quote(nil, name))
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(jsonlex.Quote(b, m.key), ':')
		b = append(b, value...)
	}
	return append(b, '}')
}

// replaced returns an object with another value for each member of the key.
func replaced(raw []byte, key string, value []byte) []byte {
	var b []byte
	last := 0
	for m := (members{text: raw}); m.next(); {
		if string(m.key) == key {
			b = append(append(b, raw[last:m.pos-len(m.value)]...), value...)
			last = m.pos
		}
	}
	return append(b, raw[last:]...)
}
