package gate

import (
	"context"

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

// Sessions reads sessions.
type Sessions interface {
	// Session returns the stored session; ErrNotFound when there is none.
	Session(ctx context.Context, id string) (action.Session, error)
}
