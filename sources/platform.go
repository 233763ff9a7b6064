package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sallyport/action"
)

// Platform is the source that the gateway itself is, as [action.Platform]. Its tools
// are called just what its actions are, in every organization, and no other
// source has those names. It has no credential and asks nobody.
type Platform struct {
	Title   string // as people call it
	Actions []PlatformAction
}

// PlatformAction is one tool of the gateway's own.
type PlatformAction struct {
	Name        string
	Alias       string // another name that it is called by, and not listed under; empty: none
	Title       string
	Description string // for agents
	Risk        action.Risk
	Idempotent  bool                 // done again with the same params it changes nothing more
	Types       []action.SessionType // of session that may use it; nil: every one
	OfRun       bool                 // only for the sessions of an automation's runs
	Input       json.RawMessage      // JSON Schema of the params
	Examples    []Example
	// Summarize says in a line what a call with the params would do. Nil: the
	// params are shown.
	Summarize func(params json.RawMessage) string
	// Check refuses params that fit Input and are wrong all the same, with an
	// [*action.Error] that names the field. Nil: Input says all.
	Check func(params json.RawMessage) error
	// Answered is [action.Own.Answered] for the call, which has no invocation yet.
	Answered func(ctx context.Context, c action.ToolCall, params json.RawMessage) (*action.ToolReply, error)
	// Run does it, for a call without an id of its own; a reply that is not kept
	// is an error: of ErrTooMany when the session's quota is used up, and else as
	// of [action.Run].
	Run func(ctx context.Context, c action.ToolCall, params json.RawMessage) (action.ToolReply, error)
}

// platformSource is the gateway's source, compiled.
type platformSource struct {
	*Platform
	tools   []*tool
	actions map[string]*PlatformAction // by name
}

// newPlatformSource compiles the gateway's source; nil: there is none.
func newPlatformSource(o *Platform, budget time.Duration) (*platformSource, error) {
	if o == nil {
		return &platformSource{Platform: &Platform{}}, nil
	}
	c := &platformSource{Platform: o, actions: make(map[string]*PlatformAction, len(o.Actions))}
	for i := range o.Actions {
		act := &o.Actions[i]
		t, err := act.compile(budget)
		if err == nil && c.actions[act.Name] != nil {
			err = errors.New("there are two of it")
		}
		if err != nil {
			return nil, fmt.Errorf("sources: tool %.40q of the gateway: %w", act.Name, err)
		}
		c.tools, c.actions[act.Name] = append(c.tools, t), act
	}
	return c, nil
}

// compile compiles a tool as that of any module, and tries its examples.
func (a *PlatformAction) compile(budget time.Duration) (*tool, error) {
	if a.Run == nil || a.Answered == nil || len(a.Name) > maxToolName {
		return nil, errors.New("it has nothing that runs it or remembers its answers, or too long a name")
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

// resolveAlias returns the tool that agents call by another name than its own. There
// need be no such source.
func (o *platformSource) resolveAlias(name string) string {
	if o == nil {
		return ""
	}
	for i := range o.Actions {
		if name != "" && o.Actions[i].Alias == name {
			return o.Actions[i].Name
		}
	}
	return ""
}

// platformFor is the gateway's source as an organization sees it.
type platformFor struct {
	*platformSource
	organization string
}

// action implements [maker].
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
		Check:       act.checkParams(t.checker),
		Own:         &action.Own{Types: act.Types, OfRun: act.OfRun, Answered: act.lookupAnswer},
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

func (a *PlatformAction) checkParams(c *checker) func(json.RawMessage) error {
	return func(params json.RawMessage) error {
		if err := c.Check(params); err != nil || a.Check == nil {
			return err
		}
		return a.Check(params)
	}
}

func (a *PlatformAction) lookupAnswer(ctx context.Context, s *action.Session, key string, params json.RawMessage) (*action.ToolReply, error) {
	return a.Answered(ctx, action.ToolCall{Organization: s.Organization, Session: s.ID, Tool: a.Name, ID: key}, params)
}
