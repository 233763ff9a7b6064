package credential

import (
	"net/url"
)

// preset is how a service gives tokens to the gateway itself.
type preset struct {
	authorize, token, revoke string // URLs; no revoke: it knows no such thing
	issuer                   string // as it names itself in answers (RFC 9207); empty: not known
	forget                   string // of the API, where tokens are given back in GitHub's way
	comma                    bool   // between scopes
	below                    bool   // the base URL is the server's own, with the path that it is under, not its API's
	authorizing              url.Values
	bearers                  []string // types of token that are bearer tokens under another name
}

// presetOf returns a service's preset by the name that a module's Need gives.
func presetOf(name string) (p preset, ok bool) {
	switch name {
	case "linear":
		p = preset{
			authorize: "https://linear.app/oauth/authorize", token: "https://api.linear.app/oauth/token",
			revoke: "https://api.linear.app/oauth/revoke", comma: true,
		}
	case "sentry":
		p = preset{authorize: "https://sentry.io/oauth/authorize/", token: "https://sentry.io/oauth/token/", below: true}
	case "slack":
		p = preset{
			authorize: "https://slack.com/oauth/v2/authorize", token: "https://slack.com/api/oauth.v2.access",
			comma: true, bearers: []string{"bot"},
		}
	case "github":
		p = preset{
			authorize: "https://github.com/login/oauth/authorize", token: "https://github.com/login/oauth/access_token", forget: "applications",
		}
	case "google":
		p = preset{
			authorize: "https://accounts.google.com/o/oauth2/v2/auth", token: "https://oauth2.googleapis.com/token",
			revoke: "https://oauth2.googleapis.com/revoke", issuer: "https://accounts.google.com",
			// Without them there is no refresh token, or only at the first sign-in.
			authorizing: url.Values{"access_type": {"offline"}, "prompt": {"consent"}},
		}
	default:
		return p, false
	}
	return p, true
}

// at returns the preset for a server of one's own: the same paths at its origin,
// or below the path that it is under, and whatever it calls itself.
func (p preset) at(base string) preset {
	own, err := url.Parse(base)
	if base == "" || err != nil {
		return p
	}
	p.issuer = ""
	root := &url.URL{Scheme: own.Scheme, Host: own.Host}
	if p.below {
		root.Path, root.RawPath = own.Path, own.RawPath
	}
	for _, endpoint := range []*string{&p.authorize, &p.token, &p.revoke} {
		if u, err := url.Parse(*endpoint); err == nil && *endpoint != "" {
			*endpoint = root.JoinPath(u.EscapedPath()).String()
		}
	}
	return p
}
