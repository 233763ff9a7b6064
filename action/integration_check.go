package action

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

const (
	maxAccount  = 1000  // bytes of what identifies an account, or names it
	maxSettings = 65536 // bytes
)

// Check refuses what no connection of any service can be, and fills in the
// visibility. What the service takes is for its module to say.
func (w *Wanted) Check() error {
	switch {
	case w.Own && w.Visibility == VisibleOrganization:
		return invalidField("/visibility", "A connection of your own is private; leave `visibility` out.")
	case w.Broker != BrokerOwn && (w.Broker != BrokerNango || w.Kind != KindOAuth2):
		return invalidField("/broker", "A broker keeps tokens of kind oauth2; leave `broker` out.")
	}
	switch keyed := w.Kind == KindAPIKey || w.Kind == KindBotToken; {
	case keyed && w.Secret == "":
		return &Error{Kind: ErrInvalid, Code: "missing_field", Field: "/secret", Message: "Send the key or token as `secret`."}
	case !keyed && w.Secret != "":
		return invalidField("/secret", "This kind has no credential; leave `secret` out.")
	case w.Own:
		w.Visibility = VisiblePrivate
	case w.Visibility == "":
		w.Visibility = VisibleOrganization
	}
	return first(CheckCredential("/secret", w.Secret), checkVisibility(w.Visibility), checkTimeout(w.TimeoutSeconds))
}

func checkVisibility(v Visibility) error {
	if !v.Valid() {
		return invalid("/visibility", "A visibility is organization or private.")
	}
	return nil
}

// Check refuses what an integration cannot be, and makes a line of the name that
// the service has for the account. Whether a text shows a credential is for the
// rows to say.
func (in *Integration) Check() error {
	switch {
	case in.ID == "" || in.CreatedBy == "":
		return fmt.Errorf("an integration of %s needs an id and who made it", in.Provider)
	case !in.Kind.Valid():
		return invalid("/kind", "A kind is api_key, bot_token, oauth2, app_installation or none.")
	case in.Broker != BrokerOwn && (in.Broker != BrokerNango || in.Kind != KindOAuth2):
		return invalid("/broker", "The broker of an oauth2 integration is nango, or left out; other kinds have none.")
	case !oneLine(in.Account, maxAccount):
		return invalid("/account", fmt.Sprintf("What identifies an account has at most %d bytes and no control characters.", maxAccount))
	}
	in.AccountName = cutLine(in.AccountName, maxAccount)
	return first(checkBaseURL(in.BaseURL), CheckName("/provider", "provider", in.Provider), in.CheckChoices())
}

// CheckChoices refuses what people cannot choose.
func (in *Integration) CheckChoices() error {
	if strings.TrimSpace(in.Name) == "" || !oneLine(in.Name, maxName) {
		return invalid("/name", fmt.Sprintf("An integration needs a name of at most %d bytes, without control characters.", maxName))
	}
	if err := checkVisibility(in.Visibility); err != nil {
		return err
	}
	if in.User != "" && in.Visibility != VisiblePrivate {
		return invalid("/visibility", "A user's own connection is private; connect the account for the organization instead.")
	}
	if err := checkTimeout(in.TimeoutSeconds); err != nil || len(in.Settings) == 0 {
		return err
	}
	var object map[string]json.RawMessage
	if len(in.Settings) > maxSettings || json.Unmarshal(in.Settings, &object) != nil || object == nil {
		return invalid("/settings", fmt.Sprintf("Settings are a JSON object of at most %d bytes.", maxSettings))
	}
	return nil
}

func checkBaseURL(text string) error {
	if text != "" && !AbsoluteURL(text) {
		return invalid("/base_url", "A base URL is an absolute http or https URL without user and fragment.")
	}
	return nil
}

// cutLine makes a line of a service's text.
func cutLine(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

// Check refuses what a registration cannot be.
func (a *ProviderApp) Check() error {
	for field, text := range map[string]string{"/client_id": a.ClientID, "/slug": a.Slug, "/app_id": a.AppID} {
		if !PlainText(text) {
			return invalidField(field, "This must be plain text on one line, as the service gave it.")
		}
	}
	switch {
	case len(a.ClientID) > maxClientID:
		return invalid("/client_id", fmt.Sprintf("The id of a client has at most %d printable ASCII characters.", maxClientID))
	case len(a.Slug) > maxName:
		return invalid("/slug", fmt.Sprintf("The slug of an app has at most %d printable ASCII characters.", maxName))
	case len(a.AppID) > maxName:
		return invalid("/app_id", fmt.Sprintf("The id of an app has at most %d printable ASCII characters.", maxName))
	}
	for _, module := range slices.Sorted(maps.Keys(a.Keys)) {
		if key := a.Keys[module]; module == "" || key == "" || !oneLine(module, maxName) || !oneLine(key, maxName) {
			return invalid("/keys", fmt.Sprintf("The broker's name of a provider has 1 to %d bytes, without control characters.", maxName))
		}
	}
	return first(CheckName("/provider", "provider", a.Provider), checkBaseURL(a.BaseURL))
}
