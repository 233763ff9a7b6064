package action

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Terms checks the terms of a grant that somebody wants, brings its pins into
// canonical form, and returns the hash of the action that it is for; none with
// Any. A tool that is not as it was reviewed must be wanted as such. Errors:
// ErrInvalid with the field; ErrConflict with code "tool_unreviewed"; those of
// finding the action.
func (g *Gate) Terms(ctx context.Context, organization string, t *Terms, unreviewed bool) (toolHash string, err error) {
	if err := t.Check(g.Now()); err != nil {
		return "", err
	}
	for pointer, value := range t.Pins {
		if t.Pins[pointer], err = g.pinned(pointer, value); err != nil {
			return "", err
		}
	}
	if t.Any {
		return "", nil
	}
	act, err := g.Catalog.Find(ctx, organization, t.Source, t.Action, false)
	if err != nil {
		return "", err
	}
	d, err := g.Decider.Decide(ctx, &Session{Organization: organization}, act, nil, true)
	if err != nil {
		return "", err
	}
	if alerts := Alerts(d.Steps); len(alerts) > 0 && !unreviewed {
		return "", notReviewed(alerts[0])
	}
	return act.Hash, nil
}

// notReviewed refuses a standing yes to a tool that nobody has looked at.
func notReviewed(why string) error {
	return Errorf(ErrConflict, "tool_unreviewed",
		"%s", "No grant is made for this tool as it is: "+why+" Review it first, or set `unreviewed` to grant it as it is now.").WithField("/unreviewed")
}

// Check refuses terms that say nothing, or more than there is: ErrInvalid with
// the field.
func (t *Terms) Check(now time.Time) error {
	switch {
	case !t.Scope.Valid():
		return badTerm("/scope", "The scope of a grant is session or organization.")
	case t.Any && t.Action != "":
		return badTerm("/action", "With any, a grant names no action; leave it out, or leave any out.")
	case !t.Any && (t.Source == "" || t.Action == ""):
		return badTerm("/action", "A grant names one source and one action; say any to cover all that is not dangerous.")
	case strings.Contains(t.Source+t.Action, "*"):
		return badTerm("/action", "A grant takes no *; say any to cover all that is not dangerous.")
	case t.MaxCalls != nil && *t.MaxCalls < 1:
		return badTerm("/max_calls", "The budget of a grant is at least one call; leave it out for none.")
	case t.ExpiresAt != nil && !now.Before(*t.ExpiresAt):
		return badTerm("/expires_at", "A grant expires in the future; leave it out for never.")
	case len(t.Pins) > MaxPins:
		return badTerm("/pins", fmt.Sprintf("A grant pins at most %d params.", MaxPins))
	}
	size := 0
	for pointer, value := range t.Pins {
		size += len(pointer) + len(value)
	}
	if size > maxPinBytes {
		return badTerm("/pins", fmt.Sprintf("The pins of a grant have at most %d KiB together; pin fewer or smaller params.", maxPinBytes>>10))
	}
	return nil
}

// Bounds of what a person can still read, and a decision compare.
const (
	MaxPins     = 20 // of one grant
	maxPinBytes = 8 << 10
)

func badTerm(field, message string) error {
	return &Error{Kind: ErrInvalid, Code: "invalid_grant", Field: field, Message: message}
}

// pinned returns the canonical value of a pin. Grants are shown to people as
// they are, so that nothing secret may be in one.
func (g *Gate) pinned(pointer string, value json.RawMessage) (json.RawMessage, error) {
	if !isPointer(pointer) {
		return nil, badTerm("/pins", fmt.Sprintf("%q is no JSON Pointer: it begins with / and names a param, such as /channel.", pointer))
	}
	canonical, err := g.JSON.Canonical(value)
	if err != nil {
		return nil, badTerm("/pins", fmt.Sprintf("The value pinned at %s is no JSON.", pointer))
	}
	last := strings.NewReplacer("~1", "/", "~0", "~").Replace(pointer[strings.LastIndexByte(pointer, '/')+1:])
	name, _ := json.Marshal(last) // a string always encodes
	member := fmt.Appendf(nil, "{%s:%s}", name, canonical)
	if !bytes.Equal(g.JSON.Redact(member, nil), member) {
		return nil, secretPin(pointer)
	}
	return canonical, nil
}

func secretPin(pointer string) error {
	return badTerm("/pins", fmt.Sprintf("The value at %s looks like a secret, which cannot be pinned; pin another param.", pointer))
}

// isPointer reports whether s is a JSON Pointer (RFC 6901) to a part of the
// params.
func isPointer(s string) bool {
	if !strings.HasPrefix(s, "/") {
		return false
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

// Narrows returns nil when t covers nothing that wider does not, and otherwise
// an error of kind ErrInvalid that names the field which is too wide.
func (t *Terms) Narrows(wider *Terms) error {
	switch {
	case t.Scope == ScopeOrganization && wider.Scope != ScopeOrganization:
		return tooWide("/scope", "only the session")
	case wider.Source != "" && t.Source != wider.Source:
		return tooWide("/source_id", "only "+wider.Source)
	case !wider.Any && (t.Any || t.Action != wider.Action):
		return tooWide("/action", "only "+wider.Action)
	case wider.MaxCalls != nil && (t.MaxCalls == nil || *t.MaxCalls > *wider.MaxCalls):
		return tooWide("/max_calls", fmt.Sprintf("only %d calls", *wider.MaxCalls))
	case wider.ExpiresAt != nil && (t.ExpiresAt == nil || t.ExpiresAt.After(*wider.ExpiresAt)):
		return tooWide("/expires_at", "nothing after "+wider.ExpiresAt.UTC().Format(time.RFC3339))
	}
	for pointer, value := range wider.Pins {
		if pinned, ok := t.Pins[pointer]; !ok || !bytes.Equal(pinned, value) {
			return tooWide("/pins", "only this value at "+pointer)
		}
	}
	return nil
}

func tooWide(field, asked string) error {
	return badTerm(field, "That is more than was asked for ("+asked+"). A request can be narrowed, not widened; make a grant of your own for more.")
}
