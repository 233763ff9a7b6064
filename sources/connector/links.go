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
	"sallyport/sources"
)

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
		refusal = "it was opened, and is wanted still; go through with what it is for, then call again."
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
			return nil, "what its error asks for is no link."
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
