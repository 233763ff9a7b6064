package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"sallyport/action"
)

// scenario is what an agent does with the connector.
type scenario func(ctx context.Context, h *house, given *given) error

// scenarios are those that want something of their own; with any other,
// everything is called.
func scenarios() map[string]scenario {
	return map[string]scenario{
		"initialize":               listed,
		"request-metadata":         listed,
		"json-schema-ref-no-deref": listed,

		"tools_call":                          calling("add_numbers", `{"a":5,"b":3}`),
		"elicitation-sep1034-client-defaults": calling("test_client_elicitation_defaults", `{}`),
		"sse-retry":                           calling("test_reconnection", `{}`),

		"http-custom-headers":              chosen,
		"json-schema-2020-12-preservation": echoed,
	}
}

// listed asks for the lists.
func listed(ctx context.Context, h *house, _ *given) error {
	_, err := h.list(ctx)
	return err
}

// calling calls one tool.
func calling(tool, params string) scenario {
	return func(ctx context.Context, h *house, _ *given) error {
		actions, err := h.list(ctx)
		if err != nil {
			return err
		}
		return call(ctx, actions, tool, json.RawMessage(params))
	}
}

// chosen makes the calls that the suite chose. A tool may refuse one.
func chosen(ctx context.Context, h *house, given *given) error {
	actions, err := h.list(ctx)
	if err != nil {
		return err
	}
	for _, c := range given.ToolCalls {
		if err := call(ctx, actions, c.Name, c.Arguments); err != nil {
			return err
		}
	}
	return nil
}

// echoed sends a tool's schema back.
func echoed(ctx context.Context, h *house, _ *given) error {
	actions, err := h.list(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(actions, func(a *action.Action) bool { return a.Tool == "json_schema_2020_12_tool" })
	if i < 0 {
		return errors.New("the tool is not listed")
	}
	params, err := json.Marshal(map[string]any{"schema": actions[i].InputSchema})
	if err != nil {
		return err
	}
	return call(ctx, actions, "json_schema_echo", params)
}

// everything calls every tool, and reads and gets what there is besides. What
// a server answers wrongly on purpose is passed over, but not what it refuses
// the credential for.
func everything(ctx context.Context, h *house, _ *given) error {
	actions, err := h.list(ctx)
	if err != nil {
		return err
	}
	for _, a := range actions {
		if a.Tool == "" {
			continue
		}
		if err := call(ctx, actions, a.Tool, example(a.InputSchema)); needsPerson(err) {
			return err
		}
	}
	offered, err := h.catalog.Offerings(ctx, organization)
	if err != nil {
		return err
	}
	for _, r := range offered.Resources {
		if err := do(ctx, actions, action.ActionRead, "uri", r.Name); err != nil {
			return err
		}
	}
	for _, p := range offered.Prompts {
		if err := do(ctx, actions, action.ActionPrompt, "name", p.Name); err != nil {
			return err
		}
	}
	return nil
}

// list returns the connector's actions, or what is wrong with it.
func (h *house) list(ctx context.Context) ([]*action.Action, error) {
	state, err := h.catalog.Probe(ctx, h.connector)
	if err != nil {
		return nil, err
	}
	if state.Error != nil {
		return nil, action.Errorf(action.ErrUnavailable, state.Error.Code, "%s", state.Error.Message)
	}
	actions, _, err := h.catalog.List(ctx, organization)
	return actions, err
}

func call(ctx context.Context, actions []*action.Action, tool string, params json.RawMessage) error {
	return perform(ctx, actions, func(a *action.Action) bool { return a.Tool == tool && tool != "" }, params)
}

func do(ctx context.Context, actions []*action.Action, name, key, value string) error {
	params, err := json.Marshal(map[string]string{key: value})
	if err != nil {
		return err
	}
	return perform(ctx, actions, func(a *action.Action) bool { return a.Name == name && a.Tool == "" }, params)
}

func perform(ctx context.Context, actions []*action.Action, is func(*action.Action) bool, params json.RawMessage) error {
	i := slices.IndexFunc(actions, is)
	if i < 0 {
		return errors.New("the action is not listed")
	}
	// Params are not checked: the suite sends what a tool may not take.
	result, err := actions[i].Run(ctx, params, agent{})
	if err == nil && result.Problem != nil {
		err = fmt.Errorf("the server says %s", result.Problem)
	}
	return err
}
