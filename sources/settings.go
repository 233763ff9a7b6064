package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sallyport/action"
)

// settingsBudget is for schemas of our own, which cost little.
const settingsBudget = time.Second

// CheckSettings returns nil for settings that fit the module's schema, and none
// at all where it has no schema. Its error is an [*action.Error] of kind
// ErrInvalid whose field is below /settings.
func (m *Module) CheckSettings(settings json.RawMessage) error {
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}
	schema := m.Settings
	if schema == nil {
		schema = json.RawMessage(`{"type":"object","additionalProperties":false}`)
	}
	return checkDocument(schema, settings, document{"settings", "The settings do not fit: ", "is no setting"})
}

// CheckConfig returns nil for a trigger's filters that fit the schema of its
// type. Its error is an [*action.Error] of kind ErrInvalid whose field is below
// /config.
func CheckConfig(schema, config json.RawMessage) error {
	return checkDocument(schema, config, document{"config", "The config does not fit: ", "is no field of it"})
}

// document is what a schema of our own is for, and what is said of it.
type document struct{ name, unfit, unknown string }

func checkDocument(schema, value json.RawMessage, d document) error {
	c, _, err := newChecker(schema, settingsBudget)
	if err != nil {
		return err
	}
	return d.said(c.Check(value), schema)
}

// CheckSomeSettings is [Module.CheckSettings] for settings of which some may be
// missing: they may still follow from the account.
func (m *Module) CheckSomeSettings(settings json.RawMessage) error {
	if m.Settings == nil {
		return m.CheckSettings(settings)
	}
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(m.Settings, &schema); err != nil {
		return fmt.Errorf("the settings of module %s: %w", m.ID, err)
	}
	delete(schema, "required")
	some, err := json.Marshal(schema)
	if err != nil {
		return fmt.Errorf("the settings of module %s: %w", m.ID, err)
	}
	return (&Module{Settings: some}).CheckSettings(settings)
}

// said says of a document what was said of params, and of a value that fits no
// pattern what the schema says of it: people read no patterns.
func (d document) said(err error, schema json.RawMessage) error {
	var e *action.Error
	if !errors.As(err, &e) {
		return err
	}
	message := strings.ReplaceAll(strings.TrimPrefix(e.Message, action.Unfitting), "is not a field of this action", d.unknown)
	name, _, _ := strings.Cut(strings.TrimPrefix(e.Field, "/"), "/")
	before, _, unmatched := strings.Cut(message, " must match the pattern ")
	if about := description(schema, name); unmatched && about != "" && !strings.Contains(before, "; ") {
		message = before + " is not of its form. " + name + ": " + about
	}
	return action.Errorf(e.Kind, "invalid_"+d.name, "%s", d.unfit+message).WithField("/" + d.name + e.Field)
}

// description is what a schema says of a property.
func description(schema json.RawMessage, property string) string {
	var s struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return "" // schemas that do not compile are refused before
	}
	return s.Properties[property].Description
}
