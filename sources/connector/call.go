package connector

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/sources"
)

// Call implements [sources.Source] with tools/call.
func (s *Source) Call(ctx context.Context, tool string, params json.RawMessage, caller action.Caller) (action.Result, error) {
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	whole := append(jsonlex.Quote([]byte(`{"name":`), tool), `,"arguments":`...)
	whole = append(append(whole, params...), '}')
	r := &request{method: "tools/call", name: tool, params: whole, arguments: params, caller: caller}
	if headers := s.headers.Load(); headers != nil {
		r.headers = (*headers)[tool]
	}
	return s.execute(ctx, r)
}

// Do implements [sources.Source]. Params that belong to the caller's own
// connection are removed: its _meta, and its answers to questions.
func (s *Source) Do(ctx context.Context, method string, params json.RawMessage, caller action.Caller) (action.Result, error) {
	name, ok := map[string]string{"resources/read": "uri", "prompts/get": "name", "completion/complete": ""}[method]
	if !ok {
		return action.Result{}, action.NewError("invalid_method", method)
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	members, ok := sources.Members(params)
	if !ok {
		return action.Result{}, action.Errorf(action.ErrInvalid, "invalid_params", "The params of %s are an object.", method)
	}
	r := &request{method: method, params: params, caller: caller}
	if name != "" {
		r.name, _ = unquote(sources.Lookup(params, members, name))
	}
	for _, foreign := range []string{"_meta", "inputResponses", "requestState"} {
		r.params = sources.RemoveMember(r.params, foreign)
	}
	return s.execute(ctx, r)
}

// execute sends an agent's request and validates the answer.
func (s *Source) execute(ctx context.Context, r *request) (action.Result, error) {
	done, err := s.begin()
	if err != nil {
		return action.Result{}, err
	}
	defer done()
	cred, err := s.credential(ctx)
	if err != nil {
		return action.Result{}, err
	}
	if r.caller != nil {
		r.features = s.features & r.caller.Features()
	}
	a, err := s.sendOpeningLinks(ctx, &cred, r)
	res := action.Result{Secrets: cred.secrets()}
	if err != nil {
		return res, err
	}
	if a.problem != nil {
		res.Problem = a.problem
		return res, nil
	}
	res.IsError, err = checkResult(r.method, a.result)
	if err != nil {
		return res, err
	}
	res.Body = a.result
	return res, nil
}

// checkResult makes minimal checks that a result fits the method, and reads
// whether it is an error result.
func checkResult(method string, result json.RawMessage) (isError bool, err error) {
	members, ok := sources.Members(result)
	if !ok {
		return false, protocolError("The server's result is not an object.")
	}
	named := func(m sources.Member) bool { return strings.EqualFold(m.Name, "resultType") }
	kind, _ := uniqueMember(result, "resultType")
	if text, _ := unquote(kind); text != "complete" && string(kind) != "null" && slices.ContainsFunc(members, named) {
		return false, protocolError("The server answered with %.40q instead of a result, which the gateway does not take part in.", sources.Printable(text, 40))
	}
	due := map[string][]string{
		"tools/call":          {"content", "structuredContent"},
		"resources/read":      {"contents"},
		"prompts/get":         {"messages"},
		"completion/complete": {"completion"},
	}[method]
	for _, name := range due {
		if sources.Lookup(result, members, name) != nil {
			return method == "tools/call" && string(sources.Lookup(result, members, "isError")) == "true", nil
		}
	}
	return false, protocolError("The server's result has no %s.", due[0])
}
