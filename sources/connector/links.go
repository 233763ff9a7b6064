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

// complete sends a request, and once more when the server wanted links opened
// first and all were: with an error it says that it did nothing. Its errors
// that are about links are not handed on, as their links would be shown to
// people whom nobody asked.
func (s *Source) complete(ctx context.Context, cred *credential, r *request) (answer, error) {
	a, err := s.rounds(ctx, cred, r)
	if err != nil || !wantsLinks(a.problem) {
		return a, err
	}
	refusal, err := s.show(ctx, r, a.problem)
	if err == nil && refusal == "" {
		a, err = s.rounds(ctx, cred, r)
		refusal = "it was opened, and is wanted still; go through with what it is for, then call again."
	}
	if err == nil && wantsLinks(a.problem) {
		a.problem = problem(codeRejected, "The server wants a link opened before it does this, so nothing was done: "+refusal)
	}
	return a, err
}

// show asks the caller to open the links of an error, and says why they were
// not all opened; empty: they were.
func (s *Source) show(ctx context.Context, r *request, problem json.RawMessage) (refusal string, err error) {
	questions, refusal := s.links(problem)
	switch {
	case refusal != "":
		return refusal, nil
	case r.caller == nil:
		return "nobody waits for this request.", nil
	}
	replies, err := r.caller.Ask(ctx, questions)
	switch {
	case err != nil && ctx.Err() != nil:
		return "", interrupted(ctx, action.ErrUnavailable)
	case err != nil:
		return action.Public(err).Message, nil
	}
	for _, q := range questions {
		said, _ := only(replies[q.Key].Result, "action")
		if text, _ := unquoted(said); text != "accept" {
			return "it was not opened; call again to be asked again.", nil
		}
	}
	return "", nil
}

// links are the questions that an error comes to.
func (s *Source) links(problem json.RawMessage) (questions []action.Question, refusal string) {
	_, ok := only(problem, "code")
	data, exact := only(problem, "data")
	list, alone := only(data, "elicitations")
	var elicitations []json.RawMessage
	if !ok || !exact || !alone || json.Unmarshal(list, &elicitations) != nil || len(elicitations) == 0 || len(elicitations) > maxAsking {
		return nil, fmt.Sprintf("its error does not name 1 to %d links as the protocol has it; tell the server's makers.", maxAsking)
	}
	for i, params := range elicitations {
		q := action.Question{Key: fmt.Sprintf("link%d", i+1), Method: "elicitation/create", Params: params}
		if kind, _, _ := q.Needs(); kind != action.AskURL {
			return nil, "what its error asks for is no link."
		}
		if refusal := s.refuses(&q); refusal != "" {
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
		return strings.EqualFold(m.Name, "code") && whole(problem[m.Value:m.End]) == codeLinks
	})
}

// only returns the member of an object that no reader can take for another: its
// name is there once, and in no other letters. It reports false where it is
// absent, too.
func only(object json.RawMessage, name string) (value json.RawMessage, ok bool) {
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

// whole returns a JSON number that has no fraction, however it is written, and
// 0 for all else.
func whole(raw json.RawMessage) int64 {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0
	}
	return int64(f)
}
