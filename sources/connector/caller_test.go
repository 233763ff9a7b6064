package connector_test

import (
	"context"
	"encoding/json"

	"sallyport/action"
)

// caller is whoever waits for a call; what is nil he does not care for.
type caller struct {
	session  string
	can      action.ClientFeatures
	level    string
	progress func(json.RawMessage)
	log      func(json.RawMessage)
	ask      func(ctx context.Context, questions []action.Question) (map[string]action.Reply, error)
}

// nobody is a caller who only waits.
func nobody() *caller { return &caller{} }

func (c *caller) Session() string                 { return c.session }
func (c *caller) Invocation() string              { return "" }
func (c *caller) Features() action.ClientFeatures { return c.can }
func (c *caller) LogLevel() string                { return c.level }
func (c *caller) Integration() string             { return "" }
func (c *caller) Production() bool                { return false }

func (c *caller) Progress(p json.RawMessage) {
	if c.progress != nil {
		c.progress(p)
	}
}

func (c *caller) Log(p json.RawMessage) {
	if c.log != nil {
		c.log(p)
	}
}

func (c *caller) Ask(ctx context.Context, questions []action.Question) (map[string]action.Reply, error) {
	if c.ask == nil {
		return nil, action.Errorf(action.ErrForbidden, "not_asked", "Nobody can be asked.")
	}
	return c.ask(ctx, questions)
}
