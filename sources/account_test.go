package sources_test

import (
	"net/url"
	"testing"

	"sallyport/sources"
)

func TestAccountID(t *testing.T) {
	for base, want := range map[string]string{
		"https://sentry.io": "1", "https://Sentry.IO:443/": "1", "https://de.sentry.io": "1",
		"https://sentry.example": "sentry.example#1", "https://Sentry.example.:443//": "sentry.example#1", "https://sentry.example:8443/api/v3/": "sentry.example:8443/api/v3#1",
		"https://evilsentry.io": "evilsentry.io#1", "https://sentry.io.evil.example": "sentry.io.evil.example#1", "https://sentry.io:8443": "sentry.io:8443#1", "http://127.0.0.1:80": "127.0.0.1:80#1",
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := sources.AccountID(u, "sentry.io", "1"); got != want {
			t.Errorf("%s: %q, not %q", base, got, want)
		}
	}
}
