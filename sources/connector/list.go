package connector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

const (
	maxPages     = 1_000
	maxTemplates = 500
	maxOthers    = 2_000 // resources, and prompts
)

// listKind is a kind of list.
type listKind struct {
	method string
	member string // of the result
	name   string // for people
	max    int
}

// List implements [sources.Source] with tools/list, page after page, and the
// lists of resources, templates and prompts where the server offers them. A
// list of tools that breaks anywhere is an error: half of one, or none, would
// look like an answer. Another list that breaks is missing, with a warning.
func (s *Source) List(ctx context.Context) (sources.Listing, error) {
	done, err := s.begin()
	if err != nil {
		return sources.Listing{}, err
	}
	defer done()
	cred, err := s.credential(ctx)
	if err != nil {
		return sources.Listing{}, err
	}
	l := listing{source: s, cred: &cred}
	if l.Tools, err = l.listPages(ctx, listKind{"tools/list", "tools", "tools", s.cfg.MaxTools}); err != nil {
		s.setListSteps(l.steps)
		return sources.Listing{}, err
	}
	s.cacheHeaderParams(l.Tools)
	s.mu.Lock()
	l.Protocol, l.Server, l.Capabilities, l.Instructions = s.era, s.serverName, s.capabilities, s.instructions
	if at := s.slots[sessionKey{}]; at != nil && at.session != nil && at.session.sse != nil {
		l.warn("The server uses the HTTP+SSE transport of protocol 2024-11-05, which MCP has replaced. Set the URL to the server's streamable HTTP endpoint if it has one; it often ends in /mcp.")
	}
	s.mu.Unlock()
	if err := l.listOptional(ctx); err != nil {
		return sources.Listing{}, err
	}
	if cred.value != "" && s.url.Scheme == "http" && !guard.Loopback(s.url) {
		l.warn("The credential travels unencrypted, because the URL is http and not https.")
	}
	s.setListSteps(l.steps)
	return l.Listing, nil
}

// setListSteps keeps the steps of a list, unless no handshake led to it.
func (s *Source) setListSteps(steps []sources.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.handshakeSteps); n > 0 && !s.handshakeSteps[n-1].Failed {
		s.listSteps = steps
	}
}

// listing is a List call in progress.
type listing struct {
	sources.Listing
	source *Source
	cred   *credential
	steps  []sources.Step
}

func (l *listing) warn(format string, args ...any) {
	l.Warnings = append(l.Warnings, fmt.Sprintf(format, args...))
}

// listOptional fetches what the server offers beside tools. Its only error is the
// end of ctx.
func (l *listing) listOptional(ctx context.Context) error {
	for _, other := range []struct {
		listKind
		offered bool
		to      *[]json.RawMessage
		missing *bool
	}{
		{listKind{"resources/list", "resources", "resources", maxOthers}, l.Capabilities.Resources, &l.Resources, &l.Missing.Resources},
		{listKind{"resources/templates/list", "resourceTemplates", "resource templates", maxTemplates}, l.Capabilities.Resources, &l.Templates, &l.Missing.Templates},
		{listKind{"prompts/list", "prompts", "prompts", maxOthers}, l.Capabilities.Prompts, &l.Prompts, &l.Missing.Prompts},
	} {
		if !other.offered {
			continue
		}
		list, err := l.listPages(ctx, other.listKind)
		switch {
		case err == nil:
			*other.to = list
		case ctx.Err() != nil:
			return err
		case !errors.Is(err, errNoMethod): // a server may have resources and no templates
			*other.missing = true
			l.warn("The %s could not be listed: %s", other.name, action.Public(err).Message)
		}
	}
	return nil
}

// listPages fetches all pages of a list.
func (l *listing) listPages(ctx context.Context, k listKind) (all []json.RawMessage, err error) {
	p := pages{listing: l, listKind: k, seen: map[string]bool{}}
	began := time.Now()
	defer func() {
		failed := err != nil && !errors.Is(err, errNoMethod) // a list that the server does not know is an empty one
		l.steps = append(l.steps, sources.Step{Name: k.name, Took: time.Since(began), Detail: fmt.Sprintf("%d listed", len(p.items)), Failed: failed})
	}()
	for n := 0; ; n++ {
		more, err := p.next(ctx)
		if err != nil {
			return nil, err
		}
		if !more {
			return p.items, nil
		}
		if n == maxPages {
			return nil, listError("Its list of %s has more than %d pages.", k.name, maxPages)
		}
	}
}

// pages is a list on its way.
type pages struct {
	*listing
	listKind
	items  []json.RawMessage
	cursor json.RawMessage // of the next page; nil: the first
	seen   map[string]bool // cursors
	size   int64
}

// errNoMethod is a server that does not know the list's method.
var errNoMethod = errors.New("the server does not know the method")

// next asks for one page and reports whether there is another.
func (p *pages) next(ctx context.Context) (more bool, err error) {
	s := p.source
	r := &request{method: p.method, features: s.features}
	if p.cursor != nil {
		r.params = fmt.Appendf(nil, `{"cursor":%s}`, p.cursor)
	}
	a, err := s.do(ctx, p.cred, r)
	if err != nil {
		return false, asListError(err)
	}
	if a.problem != nil {
		e := listError("It answered %s with an error: %s", p.method, sources.Printable(errorText(a.problem), 200))
		if errorCode(a.problem) == codeMethod {
			e.Err = errNoMethod
		}
		return false, e
	}
	if p.size += a.size; p.size > s.cfg.MaxListing {
		return false, action.Errorf(action.ErrUnavailable, sources.FaultTooLarge, "Its list of %s is larger than %d MiB.", p.name, s.cfg.MaxListing>>20)
	}
	members, ok := sources.Members(a.result)
	if !ok {
		return false, listError("Its answer to %s is not an object.", p.method)
	}
	var items []json.RawMessage
	if raw := sources.Lookup(a.result, members, p.member); len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &items) != nil {
		return false, listError("Its answer to %s has no array of %s.", p.method, p.name)
	}
	p.items = append(p.items, items...)
	if len(p.items) > p.max {
		p.items = p.items[:p.max]
		p.warn("More than %d %s are listed; the rest is left out.", p.max, p.name)
		return false, nil
	}
	return p.follow(sources.Lookup(a.result, members, "nextCursor"))
}

// follow takes the cursor of the next page.
func (p *pages) follow(cursor json.RawMessage) (more bool, err error) {
	switch text, ok := unquote(cursor); {
	case cursor == nil, string(cursor) == "null", ok && text == "":
		return false, nil
	case !ok:
		return false, listError("Its answer to %s has a cursor that is not a string.", p.method)
	case p.seen[string(cursor)]:
		return false, listError("Its list of %s is circular: a cursor was repeated.", p.name)
	}
	p.seen[string(cursor)] = true
	p.cursor = cursor
	return true, nil
}

// cacheHeaderParams keeps which params the tools want in headers.
func (s *Source) cacheHeaderParams(tools []json.RawMessage) {
	headers := map[string][]sources.HeaderParam{}
	for _, raw := range tools {
		members, ok := sources.Members(raw)
		if !ok {
			continue
		}
		name, _ := unquote(sources.Lookup(raw, members, "name"))
		if _, ok := headers[name]; ok {
			continue
		}
		if params, err := sources.HeaderParams(sources.Lookup(raw, members, "inputSchema")); err == nil && len(params) > 0 {
			headers[name] = params
		}
	}
	s.headers.Store(&headers)
}

func listError(format string, args ...any) *action.Error {
	return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, format, args...)
}

// asListError turns an unknown outcome into a plain failure: a list has none.
func asListError(err error) error {
	e := *action.Public(err)
	e.Kind = action.ErrUnavailable
	return &e
}
