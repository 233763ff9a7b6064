package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sallyport/action"
)

// Platform is the gateway as a source, [action.Platform]. Its tools have the
// names of their actions in every organization, and those names are reserved.
// It uses no credential and makes no requests.
type Platform struct {
	Title   string // display name
	Actions []PlatformAction
}

// PlatformAction is one tool of the gateway.
type PlatformAction struct {
	Name        string
	Alias       string // another accepted name, not listed; empty: none
	Title       string
	Description string // for agents
	Risk        action.Risk
	Idempotent  bool                 // repeating it with the same params changes nothing
	Types       []action.SessionType // session types that can use it; nil: all
	OfRun       bool                 // only for sessions of automation runs
	Input       json.RawMessage      // JSON Schema of the params
	Examples    []Example
	// Summarize describes in one line what a call with the params would do.
	// Nil: the params are shown.
	Summarize func(params json.RawMessage) string
	// Check rejects params that are valid against Input and still wrong, with
	// an [*action.Error] that names the field. Nil: Input is sufficient.
	Check func(params json.RawMessage) error
	// Answered is [action.PlatformTool.Replay] for a call that has no invocation yet.
	Answered func(ctx context.Context, c action.ToolCall, params json.RawMessage) (*action.ToolReply, error)
	// Run executes a call that has no ID of its own. A reply that is not stored
	// is an error: of ErrTooMany if the session's quota is used up, otherwise
	// as in [action.Run].
	Run func(ctx context.Context, c action.ToolCall, params json.RawMessage) (action.ToolReply, error)
}

// platformSource is the compiled [Platform].
type platformSource struct {
	*Platform
	tools   []*tool
	actions map[string]*PlatformAction // by name
}

// newPlatformSource compiles the platform's tools; nil: none.
func newPlatformSource(o *Platform, budget time.Duration) (*platformSource, error) {
	if o == nil {
		return &platformSource{Platform: &Platform{}}, nil
	}
	c := &platformSource{Platform: o, actions: make(map[string]*PlatformAction, len(o.Actions))}
	for i := range o.Actions {
		act := &o.Actions[i]
		t, err := act.compile(budget)
		if err == nil && c.actions[act.Name] != nil {
			err = errors.New("it is defined twice")
		}
		if err != nil {
			return nil, fmt.Errorf("sources: tool %.40q of the gateway: %w", act.Name, err)
		}
		c.tools, c.actions[act.Name] = append(c.tools, t), act
	}
	return c, nil
}

// compile compiles a tool like one of a module, and validates its examples.
func (a *PlatformAction) compile(budget time.Duration) (*tool, error) {
	if a.Run == nil || a.Answered == nil || len(a.Name) > maxToolName {
		return nil, errors.New("it has no Run or Answered function, or its name is too long")
	}
	m := ModuleAction{
		Name: a.Name, Title: a.Title, Description: a.Description, Risk: a.Risk, Idempotent: a.Idempotent, Input: a.Input, Examples: a.Examples, closed: true,
		Run: func(context.Context, *Conn, json.RawMessage) (json.RawMessage, error) { return nil, nil },
	}
	t, err := m.compile(budget)
	if err != nil || a.Check == nil {
		return t, err
	}
	for i, e := range a.Examples {
		if err := a.Check(e.Params); err != nil {
			return nil, fmt.Errorf("example %d: %w", i, err)
		}
	}
	return t, nil
}

// resolveAlias returns the tool with the given alias, or the empty string.
func (o *platformSource) resolveAlias(name string) string {
	for i := range o.Actions {
		if name != "" && o.Actions[i].Alias == name {
			return o.Actions[i].Name
		}
	}
	return ""
}

// platformFor is the platform source of one organization.
type platformFor struct {
	*platformSource
	organization string
}

// action implements [actionBuilder].
func (o platformFor) action(t *tool, name string) *action.Action {
	act := o.actions[t.name]
	return &action.Action{
		Source:      action.Platform,
		SourceName:  o.Title,
		Name:        t.name,
		Tool:        name,
		Title:       t.title,
		Description: t.description,
		Risk:        act.Risk,
		InputSchema: t.input,
		Hash:        t.hashes.Behaviour,
		Summarize:   act.Summarize,
		Check: func(params json.RawMessage) error {
			if err := t.checker.Check(params); err != nil || act.Check == nil {
				return err
			}
			return act.Check(params)
		},
		Platform: &action.PlatformTool{SessionTypes: act.Types, RunsOnly: act.OfRun, Replay: act.lookupAnswer},
		Run: func(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
			reply, err := act.Run(ctx, action.ToolCall{
				Organization: o.organization, Session: caller.Session(), Tool: act.Name, Invocation: caller.Invocation(),
			}, params)
			if err != nil {
				return action.Result{}, err
			}
			return reply.Result(), nil
		},
	}
}

func (a *PlatformAction) lookupAnswer(ctx context.Context, s *action.Session, key string, params json.RawMessage) (*action.ToolReply, error) {
	return a.Answered(ctx, action.ToolCall{Organization: s.Organization, Session: s.ID, Tool: a.Name, ID: key}, params)
}
