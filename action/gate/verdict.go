package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sallyport/action"
)

// Approve approves a held call. It changes the row and runs nothing itself: the
// instance of a waiting caller claims the call, or any other a moment later. A
// Grant in v is created in the same transaction.
func (g *Gate) Approve(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	v.Now = g.Now()
	if v.Grant != nil {
		if err := g.checkGrant(ctx, &v); err != nil {
			return action.Invocation{}, err
		}
	}
	return g.announced(g.Ledger.Approve(ctx, v))
}

// checkGrant validates the grant of an approval, resolves v.Pin to values, and checks
// that the grant covers the approved call.
func (g *Gate) checkGrant(ctx context.Context, v *action.Verdict) error {
	terms := v.Grant.Terms
	terms.Any, terms.Source, terms.Action = false, "-", "-" // taken from the row
	if err := terms.Check(v.Now); err != nil {
		return err
	}
	rec, err := g.Ledger.Load(ctx, v.Organization, v.ID)
	if err != nil {
		return err
	}
	if why := action.Unreviewed(rec.Steps); why != "" && !v.Unreviewed {
		return notReviewed(why)
	}
	if len(v.Pin) == 0 && len(v.Grant.Pins) == 0 {
		return nil
	}
	params, full, err := g.Params(ctx, v.Organization, v.ID)
	if err != nil {
		return err
	}
	if !full {
		return nil // the call ended; Approve reports that
	}
	pins := make(map[string]json.RawMessage, len(v.Pin)+len(v.Grant.Pins))
	for pointer, value := range v.Grant.Pins {
		pins[pointer] = value
	}
	for _, pointer := range v.Pin {
		if pins[pointer] = g.JSON.At(params, pointer); pins[pointer] == nil {
			return action.InvalidTerm("/grant/pin", fmt.Sprintf("The call has no param at %q. Pin one of its params by JSON Pointer, such as /channel.", pointer))
		}
	}
	redacted := g.JSON.Redact(params, nil) // whether a value is secret may depend on its siblings
	for pointer, value := range pins {
		if !bytes.Equal(g.JSON.At(redacted, pointer), g.JSON.At(params, pointer)) {
			return secretPin(pointer)
		}
		if pins[pointer], err = g.canonicalPin(pointer, value); err != nil {
			return err
		}
		if !bytes.Equal(g.JSON.At(params, pointer), pins[pointer]) {
			return action.InvalidTerm("/grant/pins", fmt.Sprintf("The call that you approve has another value at %s, so the grant would not cover it. Pin the value that the call has.", pointer))
		}
	}
	terms.Pins, v.Grant.Pins = pins, pins
	return terms.Check(v.Now)
}

// Deny denies a held call, and repeated calls for Config.DenialHolds.
func (g *Gate) Deny(ctx context.Context, v action.Verdict) (action.Invocation, error) {
	v.Now = g.Now()
	return g.announced(g.Ledger.Deny(ctx, v))
}

func (g *Gate) announced(inv action.Invocation, err error) (action.Invocation, error) {
	if err != nil {
		return inv, err
	}
	g.changed(&inv)
	return g.withLink(inv), nil
}

// Params returns the full canonical params of a held call for the approver, and
// the redacted params of a call that ended.
func (g *Gate) Params(ctx context.Context, organization, id string) (raw []byte, full bool, err error) {
	rec, err := g.Ledger.Load(ctx, organization, id)
	if err != nil {
		return nil, false, err
	}
	if rec.SealedParams == nil {
		return rec.Params, false, nil
	}
	raw, err = g.Vault.Open(paramsRef(&rec.Invocation), rec.SealedParams)
	return raw, err == nil, err
}

// Terms validates the terms of a new grant, makes its pins canonical, and returns
// the hash of its action; empty with Any. A tool that drifted from its review needs
// unreviewed. Errors: ErrInvalid with the field; ErrConflict with code
// "tool_unreviewed"; those of finding the action.
func (g *Gate) Terms(ctx context.Context, organization string, t *action.Terms, unreviewed bool) (toolHash string, err error) {
	if err := t.Check(g.Now()); err != nil {
		return "", err
	}
	for pointer, value := range t.Pins {
		if t.Pins[pointer], err = g.canonicalPin(pointer, value); err != nil {
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
	if why := action.Unreviewed(d.Steps); why != "" && !unreviewed {
		return "", notReviewed(why)
	}
	return act.Hash, nil
}

// notReviewed is the error of a grant for a tool that is not reviewed.
func notReviewed(why string) error {
	return action.Errorf(action.ErrConflict, "tool_unreviewed",
		"%s", "This tool needs a review before it can get a grant: "+why+" Review it first, or set `unreviewed` to grant its current version.").WithField("/unreviewed")
}

// canonicalPin returns the canonical value of a pin. It rejects secrets, because grants
// are displayed unredacted.
func (g *Gate) canonicalPin(pointer string, value json.RawMessage) (json.RawMessage, error) {
	if !action.IsPointer(pointer) {
		return nil, action.InvalidTerm("/pins", fmt.Sprintf("%q is not a JSON Pointer. Write a slash and the name of a param, such as /channel.", pointer))
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
