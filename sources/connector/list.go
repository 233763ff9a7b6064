package connector

import (
	"context"
	"encoding/json"
	"fmt"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources"
)

const maxPages = 1_000

// List implements [sources.Source] with tools/list, page after page. A list
// that breaks anywhere is an error: half of one, or none, would look like an
// answer.
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
	l := listing{seen: map[string]bool{}}
	for page := 0; ; page++ {
		more, err := s.page(ctx, &cred, &l)
		if err != nil {
			return sources.Listing{}, err
		}
		if !more {
			break
		}
		if page == maxPages {
			return sources.Listing{}, unlisted("Its list of tools has more than %d pages.", maxPages)
		}
	}
	s.remember(l.Tools)
	l.Protocol = s.protocol()
	if cred.value != "" && s.url.Scheme == "http" && !guard.Loopback(s.url) {
		l.Warnings = append(l.Warnings, "The credential travels unencrypted, because the URL is http and not https.")
	}
	return l.Listing, nil
}

type listing struct {
	sources.Listing
	cursor json.RawMessage
	seen   map[string]bool // cursors
	size   int64
}

// page asks for one page and reports whether there is another.
func (s *Source) page(ctx context.Context, cred *credential, l *listing) (more bool, err error) {
	a, err := s.do(ctx, cred, &request{method: "tools/list", cursor: l.cursor})
	if err != nil {
		return false, asListing(err)
	}
	if a.problem != nil {
		return false, unlisted("It answered tools/list with an error: %s", printable(problemText(a.problem), 200))
	}
	if l.size += a.size; l.size > s.cfg.MaxListing {
		return false, action.Errorf(action.ErrUnavailable, sources.FaultTooLarge, "Its list of tools is larger than %d MiB.", s.cfg.MaxListing>>20)
	}
	members, ok := sources.Members(a.result)
	if !ok {
		return false, unlisted("Its answer to tools/list is no object.")
	}
	var tools []json.RawMessage
	if raw := sources.Lookup(a.result, members, "tools"); len(raw) == 0 || raw[0] != '[' || json.Unmarshal(raw, &tools) != nil {
		return false, unlisted("Its answer to tools/list has no array of tools.")
	}
	l.Tools = append(l.Tools, tools...)
	if len(l.Tools) > s.cfg.MaxTools {
		l.Tools = l.Tools[:s.cfg.MaxTools]
		l.Warnings = append(l.Warnings, fmt.Sprintf("More than %d tools are listed; the rest is left out.", s.cfg.MaxTools))
		return false, nil
	}
	return l.next(sources.Lookup(a.result, members, "nextCursor"))
}

// next takes the cursor of the next page.
func (l *listing) next(cursor json.RawMessage) (more bool, err error) {
	switch text, ok := unquoted(cursor); {
	case cursor == nil, string(cursor) == "null", ok && text == "":
		return false, nil
	case !ok:
		return false, unlisted("Its answer to tools/list has a cursor that is no string.")
	case l.seen[string(cursor)]:
		return false, unlisted("Its list of tools goes round in circles: a cursor came twice.")
	}
	l.seen[string(cursor)] = true
	l.cursor = cursor
	return true, nil
}

// remember keeps which params the tools want in headers.
func (s *Source) remember(tools []json.RawMessage) {
	headers := map[string][]sources.HeaderParam{}
	for _, raw := range tools {
		members, ok := sources.Members(raw)
		if !ok {
			continue
		}
		name, _ := unquoted(sources.Lookup(raw, members, "name"))
		if _, ok := headers[name]; ok {
			continue
		}
		if params, err := sources.HeaderParams(sources.Lookup(raw, members, "inputSchema")); err == nil && len(params) > 0 {
			headers[name] = params
		}
	}
	s.headers.Store(&headers)
}

func (s *Source) protocol() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.era
}

func unlisted(format string, args ...any) error {
	return action.Errorf(action.ErrUnavailable, sources.FaultProtocol, format, args...)
}

// asListing turns an unknown outcome into a plain failure: a list has none.
func asListing(err error) error {
	e := *action.Public(err)
	e.Kind = action.ErrUnavailable
	return &e
}
