package gate

import (
	"context"
	"encoding/json"

	"sallyport/action"
)

// Catalog finds actions. Its implementation is sources.Catalog.
type Catalog interface {
	// Find returns the organization's action, or an error of kind ErrNotFound
	// when no source has it and ErrUnavailable when its source never answered.
	// With fresh, the source is asked again unless it was a moment ago.
	Find(ctx context.Context, organization, source, name string, fresh bool) (*action.Action, error)
	// List returns every action of the organization that is known now, in a
	// stable order, with a version that changes when the list does.
	// What is no tool (see [Action.Tool]) is among them.
	List(ctx context.Context, organization string) (actions []*action.Action, version string, err error)
	// Offerings returns what the organization's sources offer beside actions,
	// as it is known now. It is shared: treat it as read-only.
	Offerings(ctx context.Context, organization string) (*action.Offerings, error)
}

// Decider says what policy says.
type Decider interface {
	// Decide decides one call of the action in the session with canonical
	// params. With current it reads the stored policy; without, a snapshot of
	// at most one second. Nil params stand for any: grants are not looked at.
	Decide(ctx context.Context, s *action.Session, a *action.Action, params json.RawMessage, current bool) (action.Decision, error)
	// View returns what of the session matters to decisions without params, so
	// that sessions with the same view see the same list, and what changes
	// whenever such a decision may: the policy's version, and what of it has
	// expired by now. At most one second old.
	View(ctx context.Context, s *action.Session) (view, version string, err error)
}

// Sessions reads sessions.
type Sessions interface {
	// Session returns the stored session; ErrNotFound when there is none.
	Session(ctx context.Context, id string) (action.Session, error)
}
