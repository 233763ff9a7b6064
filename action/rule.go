package action

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Helpers of the Check methods. Each rule is checked only there: HTTP schemas
// check the form, and the database keeps impossible states out. Rules that
// depend on rows, providers or secrets are checked where those are known.

const (
	maxName       = 200  // bytes of the name of a group, task, gate or source
	maxActionName = 128  // bytes of the name of an action
	maxActions    = 1000 // names in one list of policy
	maxClientID   = 1024 // bytes; it may be a URL
)

// invalid returns an error about the value of a field.
func invalid(field, message string) error {
	return &Error{Kind: ErrInvalid, Code: "invalid", Field: field, Message: message}
}

// invalidField is invalid with the API's code for a field of a body.
func invalidField(field, message string) error {
	return &Error{Kind: ErrInvalid, Code: "invalid_field", Field: field, Message: message}
}

// FieldError is an error of a Check in package event, which this package does
// not import. Callers of [FromEventCheck] assert that event.Invalid is one.
type FieldError interface {
	error
	// Details returns the API's error code, the field as a JSON Pointer, and the
	// message for people.
	Details() (code, field, message string)
}

// FromEventCheck converts a [FieldError] to an [*Error].
func FromEventCheck(err error) error {
	var rule FieldError
	if !errors.As(err, &rule) {
		return err
	}
	code, field, message := rule.Details()
	if code == "invalid_field" {
		return invalidField(field, message)
	}
	return invalid(field, message)
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pointerTo returns the JSON Pointer of a member of an object.
func pointerTo(of, name string) string {
	return of + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// CheckName refuses names that people cannot read or that look like patterns.
func CheckName(field, thing, name string) error {
	if name == "" {
		return invalid(field, fmt.Sprintf("Name the %s.", thing))
	}
	if len(name) > maxName || !isLiteral(name) {
		return invalid(field, fmt.Sprintf("The name of the %s can have at most %d bytes, no control characters and no *.", thing, maxName))
	}
	return nil
}

// checkOptional is CheckName for an optional name.
func checkOptional(field, thing, name string) error {
	if name == "" {
		return nil
	}
	return CheckName(field, thing, name)
}

// isLiteral reports whether a name is one line of text without wildcards.
func isLiteral(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '*' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// isOneLine reports whether text is one line of at most limit bytes.
func isOneLine(text string, limit int) bool {
	return len(text) <= limit && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// checkActions refuses a list that does not consist of exact action names.
func checkActions(field string, names []string) error {
	if len(names) > maxActions {
		return invalid(field, fmt.Sprintf("A list has at most %d actions; leave some out.", maxActions))
	}
	for i, name := range names {
		if name == "" || len(name) > maxActionName || !isLiteral(name) {
			return invalid(fmt.Sprintf("%s/%d", field, i), fmt.Sprintf(
				"Use the exact name of the action at its source: at most %d bytes, no control characters and no *.", maxActionName))
		}
	}
	return nil
}

// checkFuture refuses an expiry in the past.
func checkFuture(ends *time.Time, now time.Time) error {
	if ends != nil && !now.Before(*ends) {
		return invalid("/expires_at", "This time is in the past. Use a future time, or leave it out.")
	}
	return nil
}

// checkTimeout refuses timeouts out of range.
func checkTimeout(seconds int) error {
	if most := int(MaxTimeout / time.Second); seconds < 0 || seconds > most {
		return invalid("/timeout_seconds", fmt.Sprintf("The timeout of a call must be 1 to %d seconds, or 0 for the gateway's default.", most))
	}
	return nil
}

// AbsoluteURL reports whether text is an http or https URL with a host, without
// user and fragment.
func AbsoluteURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Fragment == ""
}

// Loopback reports whether a host is the local machine.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// Check validates the key and host of the secret.
func (s *Secret) Check() error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(s.Key) {
		return invalidField("/key", "The key must have 1 to 64 letters, digits, dots, dashes or underscores.")
	}
	if !validHost(s.Host) {
		return invalidField("/host", "host must be a name or address, with a port if it is not the usual one, such as api.example.com or 127.0.0.1:9000; no scheme, no path.")
	}
	return nil
}

// CheckCredential refuses values that cannot be sent in a header.
func CheckCredential(field, value string) error {
	if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalidField(field, "A secret travels in an HTTP header: leave out line breaks and other control characters.")
	}
	return nil
}

// validHost reports whether host can be the host of a URL.
func validHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false
		}
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if net.ParseIP(name) != nil {
		return true
	}
	return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`).MatchString(name)
}

// SameHost reports whether host, with or without the default port, is the
// host of the URL.
func SameHost(host, text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	usual := func(h string) string { return strings.TrimSuffix(strings.ToLower(h), port) }
	return host != "" && usual(host) == usual(u.Host)
}
