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

// What the Check methods of this package have in common. A rule is checked
// there and nowhere else: HTTP schemas keep shapes, the database keeps
// impossible states out. What depends on rows, on a provider or on what is a
// secret is checked where those are known.

const (
	maxName       = 200  // bytes of the name of a group, task, gate or source
	maxActionName = 128  // bytes of the name of an action
	maxActions    = 1000 // names in one list of policy
	maxClientID   = 1024 // bytes; it may be a URL
)

// invalid refuses the value of a field.
func invalid(field, message string) error {
	return &Error{Kind: ErrInvalid, Code: "invalid", Field: field, Message: message}
}

// invalidField does so with the code that the API has for a field of a body.
func invalidField(field, message string) error {
	return &Error{Kind: ErrInvalid, Code: "invalid_field", Field: field, Message: message}
}

// FromEventCheck returns the error of a Check of package event, which cannot know this
// one, as an [*Error].
func FromEventCheck(err error) error {
	var rule interface {
		Fault() (code, field, message string)
	}
	if !errors.As(err, &rule) {
		return err
	}
	code, field, message := rule.Fault()
	if code == "invalid_field" {
		return invalidField(field, message)
	}
	return invalid(field, message)
}

// firstError returns the first of the errors that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// pointerTo is the JSON Pointer of a member of an object.
func pointerTo(of, name string) string {
	return of + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// CheckName refuses a name that people could not read, or would take for a
// pattern.
func CheckName(field, thing, name string) error {
	if name == "" {
		return invalid(field, fmt.Sprintf("Name the %s.", thing))
	}
	if len(name) > maxName || !isLiteral(name) {
		return invalid(field, fmt.Sprintf("The name of the %s can have at most %d bytes, no control characters and no *.", thing, maxName))
	}
	return nil
}

// checkOptional is CheckName of a name that may be left out.
func checkOptional(field, thing, name string) error {
	if name == "" {
		return nil
	}
	return CheckName(field, thing, name)
}

// isLiteral reports whether a name is a line of text that stands for itself alone.
func isLiteral(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r == '*' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
	})
}

// isOneLine reports whether text is one line of at most so many bytes.
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

// checkFuture refuses an end that is in the past.
func checkFuture(ends *time.Time, now time.Time) error {
	if ends != nil && !now.Before(*ends) {
		return invalid("/expires_at", "This time is in the past. Use a future time, or leave it out.")
	}
	return nil
}

// checkTimeout refuses a timeout that no source is given.
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

// Loopback reports whether a host is this machine.
func Loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}

// Check refuses a key that no connector could name, and a host that no URL could
// have.
func (s *Secret) Check() error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(s.Key) {
		return invalidField("/key", "The key must have 1 to 64 letters, digits, dots, dashes or underscores.")
	}
	if !validHost(s.Host) {
		return invalidField("/host", "host must be a name or address, with a port if it is not the usual one, such as api.example.com or 127.0.0.1:9000; no scheme, no path.")
	}
	return nil
}

// CheckCredential refuses the value of a secret or credential that cannot travel
// in a header.
func CheckCredential(field, value string) error {
	if !utf8.ValidString(value) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalidField(field, "A secret travels in an HTTP header: leave out line breaks and other control characters.")
	}
	return nil
}

// validHost accepts what can stand as the host of a URL.
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

// SameHost reports whether host, with or without its scheme's usual port, is the
// one that a URL names.
func SameHost(host, text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	usual := func(h string) string { return strings.TrimSuffix(strings.ToLower(h), port) }
	return host != "" && usual(host) == usual(u.Host)
}
