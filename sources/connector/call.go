package connector

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
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
	kind, _ := unique(result, members, "resultType")
	if text, _ := unquote(kind); text != "complete" && string(kind) != "null" && slices.ContainsFunc(members, named) {
		return false, protocolError("The server answered with %.40q instead of a result, which the gateway does not take part in.", sources.Printable(text, 40))
	}
	var due []string
	switch method {
	case "tools/call":
		due = []string{"content", "structuredContent"}
	case "resources/read":
		due = []string{"contents"}
	case "prompts/get":
		due = []string{"messages"}
	case "completion/complete":
		due = []string{"completion"}
	}
	for _, name := range due {
		if sources.Lookup(result, members, name) != nil {
			return method == "tools/call" && string(sources.Lookup(result, members, "isError")) == "true", nil
		}
	}
	return false, protocolError("The server's result has no %s.", due[0])
}

// sendOpeningLinks sends a request, and once more if the server first wants
// links opened and all were: its error says that nothing was done. Link errors
// are never passed on, since clients would show the links to people who did not
// ask.
func (s *Source) sendOpeningLinks(ctx context.Context, cred *credential, r *request) (answer, error) {
	a, err := s.sendAnsweringQuestions(ctx, cred, r)
	if err != nil || !wantsLinks(a.problem) {
		return a, err
	}
	refusal, err := s.openLinks(ctx, r, a.problem)
	if err == nil && refusal == "" {
		a, err = s.sendAnsweringQuestions(ctx, cred, r)
		refusal = "it was opened, but the server still requires it. Complete its steps, then call again."
	}
	if err == nil && wantsLinks(a.problem) {
		a.problem = jsonrpcError(codeRejected, "The server wants a link opened before it does this, so nothing was done: "+refusal)
	}
	return a, err
}

// openLinks asks the caller to open the links of an error, and says why some
// were not opened. Empty: all were.
func (s *Source) openLinks(ctx context.Context, r *request, problem json.RawMessage) (refusal string, err error) {
	questions, refusal := s.linkQuestions(problem)
	switch {
	case refusal != "":
		return refusal, nil
	case r.caller == nil:
		return "nobody can answer for this request.", nil
	}
	replies, err := r.caller.Ask(ctx, questions)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", interrupted(ctx, action.ErrUnavailable)
	case err != nil:
		return action.Public(err).Message, nil
	}
	for _, q := range questions {
		said, _ := uniqueMember(replies[q.Key].Result, "action")
		if text, _ := unquote(said); text != "accept" {
			return "it was not opened; call again to be asked again.", nil
		}
	}
	return "", nil
}

// linkQuestions are the questions that an error comes to.
func (s *Source) linkQuestions(problem json.RawMessage) (questions []action.Question, refusal string) {
	_, ok := uniqueMember(problem, "code")
	data, exact := uniqueMember(problem, "data")
	list, alone := uniqueMember(data, "elicitations")
	var elicitations []json.RawMessage
	if !ok || !exact || !alone || json.Unmarshal(list, &elicitations) != nil || len(elicitations) == 0 || len(elicitations) > maxAsking {
		return nil, fmt.Sprintf("its error does not name 1 to %d links as the protocol has it; tell the server's makers.", maxAsking)
	}
	for i, params := range elicitations {
		q := action.Question{Key: fmt.Sprintf("link%d", i+1), Method: "elicitation/create", Params: params}
		if kind, _, _ := q.Needs(); kind != action.AskURL {
			return nil, "its error does not ask for a link."
		}
		if refusal := s.questionRefusal(&q); refusal != "" {
			return nil, refusal
		}
		questions = append(questions, q)
	}
	return questions, ""
}

// wantsLinks reports whether anybody may read an error as one that wants links
// opened.
func wantsLinks(problem json.RawMessage) bool {
	members, _ := sources.Members(problem)
	return slices.ContainsFunc(members, func(m sources.Member) bool {
		return strings.EqualFold(m.Name, "code") && parseInt(problem[m.Value:m.End]) == codeLinks
	})
}

// uniqueMember returns a member that every parser reads the same way: its name
// occurs once, ignoring case. It reports false if the member is absent, too.
func uniqueMember(object json.RawMessage, name string) (value json.RawMessage, ok bool) {
	members, _ := sources.Members(object)
	return unique(object, members, name)
}

// unique is [uniqueMember] for an object whose members are known.
func unique(object json.RawMessage, members []sources.Member, name string) (value json.RawMessage, ok bool) {
	for _, m := range members {
		switch {
		case !strings.EqualFold(m.Name, name):
		case ok || m.Name != name:
			return nil, false
		default:
			value, ok = object[m.Value:m.End], true
		}
	}
	return value, ok
}

// parseInt parses a JSON number without fraction, in any notation, and returns
// 0 for anything else.
func parseInt(raw json.RawMessage) int64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0
	}
	return int64(f)
}
