package webhook_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzHandler: whatever comes, nothing is kept but what is signed, and each
// answer is one of ours.
func FuzzHandler(f *testing.F) {
	f.Add("direct/hub", "X-Hub-Signature-256", hubSignature, hubBody)
	f.Add("custom/one", "Webhook-Signature", standardSignature, standardBody)
	f.Add("direct/hub/one", "Content-Encoding", "gzip", "")
	f.Add("automation/../nango", "X-Nango-Hmac-Sha256", strings.Repeat("0", 64), "{}")
	f.Add("posthog/%2F", "Expect", "100-continue", "x")
	f.Fuzz(func(t *testing.T, path, name, value, body string) {
		u, err := url.Parse("/webhooks/" + path)
		if err != nil || u.Host != "" {
			return
		}
		h := newFixture(t)
		h.trigger("one", "custom", `{}`, standardSecret)
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.URL = u
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		w := h.do(r)
		genuine := strings.EqualFold(strings.TrimPrefix(value, "sha256="), hexMAC(hubSecret, body)) || strings.EqualFold(value, hexMAC("nango's", body))
		switch w.Code {
		case 200:
			if !genuine {
				t.Errorf("taken: %q %q %q %q", path, name, value, body)
			}
		case 400, 401, 404, 405, 408, 413, 415, 429, 307, 301: // the last for paths that are not clean
		default:
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
		if !genuine && len(h.stored()) != 0 {
			t.Errorf("kept: %q %q %q %q", path, name, value, body)
		}
	})
}
