package dashboard

import (
	"cmp"
	"encoding/json"
	"strings"
	"unicode"

	"sallyport/action"
)

const (
	maxPersonName = 120 // characters, as of people who are added here
	maxSubject    = 255 // bytes; what OpenID Connect allows
)

// claims are what a token says of somebody.
type claims map[string]json.RawMessage

// text returns a claim that is a text, or nothing.
func (c claims) text(name string) string {
	var text string
	if json.Unmarshal(c.at(name), &text) != nil {
		return ""
	}
	return text
}

// at returns a claim by its name, or by a path into objects with dots between;
// nil when there is none. Some names have dots of their own.
func (c claims) at(name string) json.RawMessage {
	if raw, ok := c[name]; ok {
		return raw
	}
	first, rest, nested := strings.Cut(name, ".")
	var inner claims
	if !nested || json.Unmarshal(c[first], &inner) != nil {
		return nil
	}
	return inner.at(rest)
}

// values returns a claim that is a text or a list of them.
func (c claims) values(name string) []string {
	if text := c.text(name); text != "" {
		return []string{text}
	}
	var list []json.RawMessage
	_ = json.Unmarshal(c.at(name), &list) // what is no list has no values
	var out []string
	for _, raw := range list {
		var text string
		if json.Unmarshal(raw, &text) == nil && text != "" {
			out = append(out, text)
		}
	}
	return out
}

// role is the mightiest that the map gives for a value of the claim, or the
// default one when it gives none: whom it makes less than that is less. Empty:
// none.
func (o *OIDC) role(c claims) action.Role {
	var role action.Role
	for _, v := range c.values(o.RoleClaim) {
		if r := o.RoleMap[v]; r != "" && (role == "" || lesser(r, role) == role) {
			role = r
		}
	}
	return cmp.Or(role, o.DefaultRole)
}

// name is what somebody is called: by the claim, or by those that tokens mostly
// have, or else by the subject.
func (c claims) name(claim, subject string) string {
	for _, n := range []string{claim, "name", "preferred_username", "email"} {
		if n == "" {
			continue
		}
		if name := oneLine(c.text(n)); name != "" {
			return name
		}
	}
	return oneLine(subject)
}

// oneLine is a text as a name: without control characters, and not too long.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > maxPersonName {
		text = string(runes[:maxPersonName])
	}
	return strings.TrimSpace(text)
}

// checkSubject refuses who cannot be told from others.
func checkSubject(subject string) error {
	if subject == "" || len(subject) > maxSubject || oneLine(subject) == "" {
		return action.NewError("subject_missing")
	}
	return nil
}
