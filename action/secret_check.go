package action

import (
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
