package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
)

// Terms checks the terms of a grant that somebody wants, brings its pins into
// canonical form, and returns the hash of the action that it is for; none with
// Any. A tool that is not as it was reviewed must be wanted as such. Errors:
// ErrInvalid with the field; ErrConflict with code "tool_unreviewed"; those of
// finding the action.
func (g *Gate) Terms(ctx context.Context, organization string, t *action.Terms, unreviewed bool) (toolHash string, err error) {
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
	d, err := g.Decide(ctx, &action.Session{Organization: organization}, act, nil, true)
	if err != nil {
		return "", err
	}
	if alerts := action.Alerts(d.Steps); len(alerts) > 0 && !unreviewed {
		return "", notReviewed(alerts[0])
	}
	return act.Hash, nil
}

// notReviewed refuses a standing yes to a tool that nobody has looked at.
func notReviewed(why string) error {
	return action.Errorf(action.ErrConflict, "tool_unreviewed",
		"%s", "No grant is made for this tool as it is: "+why+" Review it first, or set `unreviewed` to grant it as it is now.").WithField("/unreviewed")
}

// pinned returns the canonical value of a pin. Grants are shown to people as
// they are, so that nothing secret may be in one.
func (g *Gate) pinned(pointer string, value json.RawMessage) (json.RawMessage, error) {
	if !action.IsPointer(pointer) {
		return nil, action.InvalidTerm("/pins", fmt.Sprintf("%q is not a JSON Pointer: it begins with / and names a param, such as /channel.", pointer))
	}
	canonical, err := g.JSON.Canonical(value)
	if err != nil {
		return nil, action.InvalidTerm("/pins", fmt.Sprintf("The value pinned at %s is not valid JSON.", pointer))
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
	return action.InvalidTerm("/pins", fmt.Sprintf("The value at %s looks like a secret, which cannot be pinned; pin another param.", pointer))
}
