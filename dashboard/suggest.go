package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"sallyport/action"
	"sallyport/internal/jsonlex"
	"sallyport/internal/nearest"
)

// suggested adds to the error of a call of something that is not there the
// names that its caller may have meant, of what it may call.
func (s *Server) suggested(ctx context.Context, session *action.Session, source, name string, err error) error {
	var e *action.Error
	if !errors.Is(err, action.ErrNotFound) || !errors.As(err, &e) {
		return err
	}
	list, _, missing := s.Gate.Available(ctx, session)
	if missing != nil {
		return err
	}
	out := *e
	out.Message += likely(list, source, name)
	return &out
}

// likely tells the nearest names of actions of the source, or where there is no
// such source those of sources.
func likely(list []action.Available, source, name string) string {
	var actions, sources []string
	for _, a := range list {
		if a.Source == source && a.Tool != "" {
			actions = append(actions, a.Name)
		}
		sources = append(sources, sourceNames(a)...)
	}
	if slices.Contains(actions, name) { // it is there: something else was not found
		return ""
	}
	if len(actions) > 0 {
		return nearest.Sentence(name, actions)
	}
	return nearest.Sentence(source, sources)
}

// sourceNames are those by which an agent may name the source of an action: its
// name, and its id where a person can write that.
func sourceNames(a action.Available) []string {
	if a.Provider != "" || a.Source == a.SourceName {
		return []string{a.Source}
	}
	return []string{a.SourceName}
}

// object returns params as an object: some models write it as a string.
func object(params json.RawMessage) (json.RawMessage, error) {
	if jsonlex.Kind(params) != "a string" {
		return params, nil // the Gate says what is wrong with anything else
	}
	text := params[jsonlex.Space(params, 0):]
	inner, ok := jsonlex.Object(text)
	if !ok {
		return nil, action.Errorf(action.ErrInvalid, "invalid_params",
			"%s", "params must be a JSON object such as {}, but "+jsonlex.NoObject(text)+".").WithField("/params")
	}
	return inner, nil
}
