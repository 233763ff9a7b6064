package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/internal/redact"
)

const (
	maxAccount  = 1000  // bytes of what identifies an account, or names it
	maxSettings = 65536 // bytes
)

// check refuses what an integration cannot be. Most of it people wrote; the
// account and its name are the service's words.
func (r *integrationRow) check() error {
	in := r.integration()
	switch {
	case r.ID == "" || r.CreatedBy == "":
		return fmt.Errorf("an integration of %s needs an id and who made it", r.Provider)
	case !in.Kind.Valid():
		return invalid("/kind", "A kind is api_key, bot_token, oauth2, app_installation or none.")
	case in.Broker != action.BrokerOwn && (in.Broker != action.BrokerNango || in.Kind != action.KindOAuth2):
		return invalid("/broker", "The broker of an oauth2 integration is nango, or left out; other kinds have none.")
	case !line(r.Account, maxAccount):
		return invalid("/account", fmt.Sprintf("What identifies an account has at most %d bytes and no control characters.", maxAccount))
	case r.BaseURL != "" && !absolute(string(r.BaseURL)):
		return invalid("/base_url", "A base URL is an absolute http or https URL without user and fragment.")
	case redact.JSON{}.RedactText(string(r.BaseURL), nil) != string(r.BaseURL):
		return invalid("/base_url", "This URL holds what looks like a credential; give that as the credential, and the URL without it.")
	}
	if err := checkName("/provider", "provider", r.Provider); err != nil {
		return err
	}
	r.AccountName = opt(cut(string(r.AccountName), maxAccount))
	return r.checkChoices()
}

// checkChoices refuses what people cannot choose.
func (r *integrationRow) checkChoices() error {
	switch visibility := action.Visibility(r.Visibility); {
	case strings.TrimSpace(r.Name) == "" || !line(r.Name, maxName):
		return invalid("/name", fmt.Sprintf("An integration needs a name of at most %d bytes, without control characters.", maxName))
	case !visibility.Valid():
		return invalid("/visibility", "A visibility is organization or private.")
	case r.User != "" && visibility != action.VisiblePrivate:
		return invalid("/visibility", "A user's own connection is private; connect the account for the organization instead.")
	}
	return first(checkTimeout(r.Timeout), r.checkSettings())
}

func (r *integrationRow) checkSettings() error {
	if r.Settings == "" {
		return nil
	}
	var object map[string]json.RawMessage
	if len(r.Settings) > maxSettings || json.Unmarshal([]byte(r.Settings), &object) != nil || object == nil {
		return invalid("/settings", fmt.Sprintf("Settings are a JSON object of at most %d bytes.", maxSettings))
	}
	return nil
}

// line reports whether text is one line of at most so many bytes.
func line(text string, limit int) bool {
	return len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// cut makes a line of a service's text.
func cut(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}
