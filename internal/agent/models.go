package agent

import (
	"cmp"
	"slices"
	"strings"

	"sallyport/action"
)

// Model is a model with its names.
type Model struct {
	ID       string `json:"id"`       // canonical, in the database and the API
	OpenCode string `json:"opencode"` // provider/model, as in OpenCode's configuration
	API      string `json:"api"`      // name in the provider's API
	Provider string `json:"provider"` // the API's provider
}

// Models returns known models, as hints: any other is named as provider/model.
func Models() []Model {
	models := []Model{
		{"claude-opus-4.6", "anthropic/claude-opus-4-6", "claude-opus-4-6", "anthropic"},
		{"claude-opus-4.5", "anthropic/claude-opus-4-5", "claude-opus-4-5-20251101", "anthropic"},
		// OpenCode runs this one as its successor, as the agents' contract has
		// it; the form of the API stays that of the canonical id.
		{"claude-sonnet-4", "anthropic/claude-sonnet-4-5", "claude-sonnet-4-20250514", "anthropic"},
	}
	for _, full := range action.KnownModels() {
		if !slices.ContainsFunc(models, func(m Model) bool { return m.OpenCode == full }) {
			provider, name, _ := strings.Cut(full, "/")
			models = append(models, Model{full, full, name, provider})
		}
	}
	return models
}

// FindModel returns the model with the name in any of its forms; an unknown one
// is named as provider/model. The error is an [*action.Error] of kind ErrInvalid that lists the models.
func FindModel(name string) (Model, error) {
	for _, m := range Models() {
		if name == m.ID || name == m.OpenCode || name == m.API {
			return m, nil
		}
	}
	if provider, name, ok := strings.Cut(name, "/"); ok && provider != "" && name != "" {
		full := provider + "/" + name
		return Model{ID: full, OpenCode: full, API: name, Provider: provider}, nil
	}
	var known []string
	for _, m := range Models() {
		known = append(known, m.ID)
	}
	slices.SortFunc(known, func(a, b string) int { return cmp.Compare(a, b) })
	e := action.NewError("unknown_model", name, strings.Join(known, ", "))
	e.Field = "/model"
	return Model{}, e
}
