package files

import (
	"net/http"
	"net/url"
	"time"
)

// EscapePath returns a key as the path of a request has it.
func EscapePath(key string) string { return escapePath(key) }

// EscapeQuery returns a canonical query string.
func EscapeQuery(q url.Values) string { return escapeQuery(q) }

// Sign signs a request with the keys.
func Sign(r *http.Request, id, secret, token, region, sum string, now time.Time) {
	keys{id, secret, token}.sign(r, region, sum, now)
}

// BaseURL returns where the requests for a bucket go.
func BaseURL(name, region, endpoint, style string) (string, error) {
	u, err := baseURL(name, region, endpoint, style)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}
