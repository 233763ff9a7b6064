package guard_test

import (
	"errors"
	"strings"
	"testing"

	"sallyport/action"
	"sallyport/internal/guard"
)

func TestCheckURL(t *testing.T) {
	for _, raw := range []string{
		"https://mcp.example.com/mcp", "http://127.0.0.1:3000/mcp", "https://example.com", "HTTPS://EXAMPLE.com/x?key=1", "http://[::1]:80/",
	} {
		if _, err := guard.CheckURL(raw); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
	for raw, says := range map[string]string{
		"":                             "begin with",
		"example.com/mcp":              "begin with",
		"ftp://example.com":            "begin with",
		"file:///etc/passwd":           "begin with",
		"javascript:alert(1)":          "begin with",
		"http:example.com":             "no host",
		"https://":                     "no host",
		"https:///mcp":                 "no host",
		"http://:80/":                  "no host",
		"https://user@example.com":     "user or password",
		"https://u:canary@example.com": "user or password",
		"https://@example.com":         "user or password",
		"https://example.com/#x":       "fragment",
		"https://example.com/#":        "fragment",
		"https://example.com:0/":       "port",
		"https://example.com:65536/":   "port",
		"https://example.com:/":        "port",
		"https://example.com:x/":       "not a URL",
		"https://exa mple.com/":        "not a URL",
		"https://example.com/\n":       "not a URL",
		"https://bücher.example/":      "ASCII",
		"https://example.com/" + strings.Repeat("x", 3000): "longer",
	} {
		_, err := guard.CheckURL(raw)
		var e *action.Error
		if !errors.As(err, &e) || !errors.Is(err, action.ErrInvalid) || e.Field != "/url" || !strings.Contains(e.Message, says) {
			t.Errorf("%q: got %v; want %q in it", raw, err, says)
		} else if strings.Contains(err.Error(), "canary") {
			t.Errorf("the error holds the password: %v", err)
		}
	}
}

func TestHost(t *testing.T) {
	for raw, want := range map[string]string{
		"https://Example.COM": "example.com:443", "https://example.com:443/x": "example.com:443", "http://example.com.": "example.com:80",
		"http://example.com:8080": "example.com:8080", "http://[::1]": "[::1]:80", "http://[FE80::1]:8080": "[fe80::1]:8080",
	} {
		if got := guard.Host(parse(t, raw)); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}

func FuzzCheckURL(f *testing.F) {
	f.Add("https://mcp.example.com/mcp?x=1")
	f.Add("http://[::1%25eth0]:80/")
	f.Add("http://a@b:80/#")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := guard.CheckURL(raw)
		if err != nil {
			return
		}
		if u.Hostname() == "" || u.User != nil || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
			t.Fatalf("%q passes as %+v", raw, u)
		}
		again, err := guard.CheckURL(u.String())
		if err != nil || guard.Host(again) != guard.Host(u) {
			t.Fatalf("%q reads otherwise when written again: %v, %v", raw, again, err)
		}
	})
}
