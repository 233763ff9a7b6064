package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"sallyport/sources"
)

// checkSettings checks an integration's settings against the module's schema.
// partial: what must be there may still follow from the account.
func checkSettings(m *sources.Module, settings json.RawMessage, partial bool) error {
	if len(settings) == 0 {
		settings = json.RawMessage("{}")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(settings))
	object, ok := v.(map[string]any)
	switch {
	case err != nil || !ok:
		return invalid("/settings", "The settings must be a JSON object.")
	case len(m.Settings) == 0 && len(object) > 0:
		return invalid("/settings", "%s has no settings; leave them out.", m.Title)
	case len(m.Settings) == 0:
		return nil
	}
	schema, err := settingsSchema(m, partial)
	if err != nil {
		return err
	}
	var no *jsonschema.ValidationError
	if err := schema.Validate(v); errors.As(err, &no) {
		return misset(no)
	}
	return err
}

func settingsSchema(m *sources.Module, partial bool) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(m.Settings))
	if err != nil {
		return nil, fmt.Errorf("the settings of module %s: %w", m.ID, err)
	}
	if object, ok := doc.(map[string]any); ok && partial {
		delete(object, "required")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("settings", doc); err != nil {
		return nil, fmt.Errorf("the settings of module %s: %w", m.ID, err)
	}
	return c.Compile("settings")
}

// misset says what is wrong first.
func misset(no *jsonschema.ValidationError) error {
	for len(no.Causes) > 0 {
		no = no.Causes[0]
	}
	field := "/settings"
	for _, name := range no.InstanceLocation {
		field += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	switch k := no.ErrorKind.(type) {
	case *kind.Required:
		return invalid(field+"/"+k.Missing[0], "The setting %s is missing.", sources.Printable(k.Missing[0], 60))
	case *kind.AdditionalProperties:
		return invalid(field+"/"+k.Properties[0], "There is no setting %s.", sources.Printable(k.Properties[0], 60))
	case *kind.Type:
		return invalid(field, "The setting must be of the type %s.", strings.Join(k.Want, " or "))
	case *kind.Enum:
		return invalid(field, "The setting must be one of %s.", sources.Printable(fmt.Sprint(k.Want), 200))
	}
	return invalid(field, "The setting is not one that the service's schema of settings allows; see the list of providers.")
}
