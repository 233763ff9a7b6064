package connector

import (
	"context"
	"encoding/json"

	"sallyport/action"
	"sallyport/sources"
)

// Call implements [sources.Source] with tools/call.
func (s *Source) Call(ctx context.Context, tool string, params json.RawMessage, caller action.Caller) (action.Result, error) {
	done, err := s.begin()
	if err != nil {
		return action.Result{}, err
	}
	defer done()
	cred, err := s.credential(ctx)
	if err != nil {
		return action.Result{}, err
	}
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	r := &request{method: "tools/call", name: tool, arguments: params, caller: caller}
	if headers := s.headers.Load(); headers != nil {
		r.headers = (*headers)[tool]
	}
	res := action.Result{Secrets: cred.secrets()}
	a, err := s.do(ctx, &cred, r)
	if err != nil {
		return res, err
	}
	if a.problem != nil {
		res.Problem = a.problem
		return res, nil
	}
	res.IsError, err = judge(a.result)
	if err != nil {
		return res, err
	}
	res.Body = a.result
	return res, nil
}

// judge checks that a result is one, as little as possible, and reads whether
// it says of itself that it is an error.
func judge(result json.RawMessage) (isError bool, err error) {
	members, ok := sources.Members(result)
	if !ok {
		return false, broken("The server's result is no object.")
	}
	if kind, ok := unquoted(sources.Lookup(result, members, "resultType")); ok && kind != "complete" {
		return false, broken("The server answered with %.40q instead of a result, which the gateway does not take part in.", printable(kind, 40))
	}
	if sources.Lookup(result, members, "content") == nil && sources.Lookup(result, members, "structuredContent") == nil {
		return false, broken("The server's result has no content.")
	}
	return string(sources.Lookup(result, members, "isError")) == "true", nil
}
