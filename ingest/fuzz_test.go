package ingest_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"sallyport/ingest"
	"sallyport/ingest/event"
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
		h := newHouse(t)
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
		if !genuine && len(h.kept()) != 0 {
			t.Errorf("kept: %q %q %q %q", path, name, value, body)
		}
	})
}

// FuzzUnwrap: only an envelope that says all it has to is one, and what was
// forwarded is part of it.
func FuzzUnwrap(f *testing.F) {
	f.Add(`{"from":"linear","providerConfigKey":"k","type":"forward","connectionId":"c","payload":{"a":1}}`)
	f.Add(`{"from":"nango","type":"auth","connectionId":"c","providerConfigKey":"k","success":false,"error":{"type":"a","description":"b"}}`)
	f.Add(`{"type":"auth","type":"forward"}`)
	f.Add(`[[[[`)
	f.Fuzz(func(t *testing.T, body string) {
		n, err := ingest.Unwrap(&event.Delivery{Header: http.Header{}, Body: []byte(body)})
		switch {
		case err != nil:
		case (n.Kind == "forward") != (n.Delivery != nil):
			t.Errorf("%+v", n)
		case n.Delivery != nil && (!json.Valid(n.Delivery.Body) || !strings.Contains(body, string(n.Delivery.Body))):
			t.Errorf("forwarded %q", n.Delivery.Body)
		case !n.Bare && (n.Connection == "" || n.ProviderKey == "" || n.Kind == ""):
			t.Errorf("%+v", n)
		}
	})
}

// FuzzCustom: what was received is an object of bounded size, whatever it was.
func FuzzCustom(f *testing.F) {
	f.Add(`{}`, `{"type":"a"}`, "1")
	f.Add(`{"event_path":"/a/0","match":{"/a/0":[1,true]},"title_path":"/b"}`, `{"a":[1],"b":"\ud800"}`, "")
	f.Add(`{}`, "\u00a0[1]", "1")
	f.Add(`{"verification":{"scheme":"hmac"},"id_header":"Id"}`, "\xff{", "\x00")
	f.Fuzz(func(t *testing.T, config, body, id string) {
		d := &event.Delivery{Header: http.Header{"Id": {id}, "Webhook-Id": {id}}, Body: []byte(body), Config: json.RawMessage(config)}
		if ingest.Custom().Webhook.Verify(d, [][]byte{[]byte("a secret nobody has")}, standardTime, 0) == nil {
			t.Errorf("verified with %s", config)
		}
		p, err := ingest.Custom().Webhook.Parse(d)
		if err != nil {
			return
		}
		e := p.Events[0]
		if !json.Valid(e.Context) || e.Context[0] != '{' || len(e.Context) > 64<<10 || !bytes.Equal(bytes.ToValidUTF8(e.Context, nil), e.Context) || strings.ContainsAny(e.Title+e.Native, "\n\x00") {
			t.Errorf("%q: %+v, %q", body, e, e.Context)
		}
		_ = ingest.Custom().Types[0].Matches(&e, d.Config)
	})
}
