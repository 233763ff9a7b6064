package guard

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"sallyport/action"
)

// maxURL bounds the length of a configured URL.
const maxURL = 2048

// CheckURL parses a configured URL: http or https, with a host, without user,
// password and fragment. The error is an [*action.Error] of kind ErrInvalid
// with the field /url. The host's address is checked when connecting.
func CheckURL(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, invalidURL("The URL is longer than %d characters.", maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, invalidURL("This is not a URL; it should look like https://host/path.")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalidURL("The URL must begin with https:// or http://.")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, invalidURL("The URL has no host; it should look like https://host/path.")
	case u.User != nil:
		return nil, invalidURL("The URL must not hold a user or password; store the credential as a secret.")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, invalidURL("The URL must not have a fragment (the part after #).")
	case !goodPort(u):
		return nil, invalidURL("The port of the URL must be a number from 1 to 65535.")
	case strings.ContainsFunc(u.Host, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, invalidURL("The host of the URL must be plain ASCII; write an international name in its xn-- form.")
	}
	return u, nil
}

// CheckBaseURL is [CheckURL] for the base URL of an API that receives a
// credential: https, or http on loopback, without a query. The field is
// /base_url.
func CheckBaseURL(raw string) (*url.URL, error) {
	u, err := CheckURL(raw)
	switch {
	case err != nil:
		there := *action.Public(err)
		there.Field = "/base_url"
		return nil, &there
	case u.Scheme != "https" && !Loopback(u), u.RawQuery != "":
		return nil, action.Errorf(action.ErrInvalid, "invalid_field",
			"base_url must be an https URL without a query, such as https://sentry.example.com.").WithField("/base_url")
	}
	return u, nil
}

func invalidURL(format string, args ...any) error {
	e := action.Errorf(action.ErrInvalid, "invalid_url", format, args...)
	e.Field = "/url"
	return e
}

func goodPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	n, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && n > 0
}

// Host returns the host and port that a URL leads to, in one form for all
// that lead to the same: lower case, the port always there, IPv6 in [].
func Host(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	case u.Scheme == "https":
		port = "443"
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}

// Loopback reports whether the URL itself names loopback.
func Loopback(u *url.URL) bool {
	return action.Loopback(u.Hostname())
}
