package match_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/ingest/event"
	"sallyport/ingest/match"
)

// The example that Standard Webhooks publishes.
const (
	exampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func exampleTime() time.Time { return time.Unix(1614265330, 0).UTC() }

// customFits checks a config by a validator.
func customFits(t *testing.T, config string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(match.Custom().Types[0].Config))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:config", doc); err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("mem:config").Validate(v)
}

func TestCustomConfig(t *testing.T) {
	for config, good := range map[string]bool{
		`{}`: true,
		`{"verification":{"scheme":"hmac","header":"X-Signature","timestamp_header":"X-Time"},"id_header":"X-Id"}`: true,
		`{"event_path":"/a~1b/0/~0","events":["x"],"match":{"/a":1,"/b":["x",true]},"title_path":"/t"}`:            true,
		`{"verification":{"scheme":"none"}}`: false,
		`{"verification":{"header":"X Y"}}`:  false,
		`{"verification":{"secret":"x"}}`:    false,
		`{"id_header":""}`:                   false,
		`{"event_path":"type"}`:              false,
		`{"event_path":"/~2"}`:               false,
		`{"match":{"a":1}}`:                  false,
		`{"match":{"/a":null}}`:              false,
		`{"match":{"/a":[]}}`:                false,
		`{"match":{"/a":{"b":1}}}`:           false,
		`{"events":[""]}`:                    false,
		`{"other":1}`:                        false,
	} {
		if err := customFits(t, config); (err == nil) != good {
			t.Errorf("%s: %v", config, err)
		}
	}
}

func hexHMAC(secret string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestCustomVerify(t *testing.T) {
	const (
		hash     = `{"verification":{"scheme":"hmac"}}`
		named    = `{"verification":{"scheme":"hmac","header":"x-signature-256"}}`
		timed    = `{"verification":{"scheme":"hmac","timestamp_header":"X-Time"}}`
		static   = `{"verification":{"scheme":"header"}}`
		bearer   = `{"verification":{"scheme":"header","header":"authorization"}}`
		at       = "1614265330"
		wanted   = 0
		forged   = 1
		outdated = 2
	)
	body := exampleBody
	for name, test := range map[string]struct {
		config string
		set    http.Header
		want   int
	}{
		"signed by default":           {`{}`, http.Header{"Webhook-Id": {exampleID}, "Webhook-Timestamp": {at}, "Webhook-Signature": {exampleSignature}}, wanted},
		"standard, unsigned":          {`{}`, http.Header{"Webhook-Id": {exampleID}, "Webhook-Timestamp": {at}}, forged},
		"standard, with hmac":         {`{}`, http.Header{"X-Webhook-Signature": {hexHMAC("s", body)}}, forged},
		"hmac":                        {hash, http.Header{"X-Webhook-Signature": {hexHMAC("s", body)}}, wanted},
		"hmac with its prefix":        {hash, http.Header{"X-Webhook-Signature": {"sha256=" + hexHMAC("s", body)}}, wanted},
		"hmac by the other secret":    {hash, http.Header{"X-Webhook-Signature": {hexHMAC(exampleSecret, body)}}, wanted},
		"hmac with two prefixes":      {hash, http.Header{"X-Webhook-Signature": {"sha256=sha256=" + hexHMAC("s", body)}}, forged},
		"hmac in another header":      {hash, http.Header{"X-Signature": {hexHMAC("s", body)}}, forged},
		"hmac twice":                  {hash, http.Header{"X-Webhook-Signature": {hexHMAC("s", body), hexHMAC("s", body)}}, forged},
		"hmac, missing":               {hash, nil, forged},
		"hmac by another secret":      {hash, http.Header{"X-Webhook-Signature": {hexHMAC("other", body)}}, forged},
		"hmac by an empty secret":     {hash, http.Header{"X-Webhook-Signature": {hexHMAC("", body)}}, forged},
		"hmac, with standard instead": {hash, http.Header{"Webhook-Id": {exampleID}, "Webhook-Timestamp": {at}, "Webhook-Signature": {exampleSignature}}, forged},
		"hmac in the named header":    {named, http.Header{"X-Signature-256": {"sha256=" + hexHMAC("s", body)}}, wanted},
		"hmac with time":              {timed, http.Header{"X-Time": {at}, "X-Webhook-Signature": {hexHMAC("s", at, ".", body)}}, wanted},
		"hmac with old time":          {timed, http.Header{"X-Time": {"1614265029"}, "X-Webhook-Signature": {hexHMAC("s", "1614265029.", body)}}, outdated},
		"hmac with coming time":       {timed, http.Header{"X-Time": {"1614265631"}, "X-Webhook-Signature": {hexHMAC("s", "1614265631.", body)}}, outdated},
		"hmac with another time":      {timed, http.Header{"X-Time": {"1614265331"}, "X-Webhook-Signature": {hexHMAC("s", at, ".", body)}}, forged},
		"hmac with time unsigned":     {timed, http.Header{"X-Time": {at}, "X-Webhook-Signature": {hexHMAC("s", body)}}, forged},
		"hmac without the time":       {timed, http.Header{"X-Webhook-Signature": {hexHMAC("s", ".", body)}}, forged},
		"hmac with two times":         {timed, http.Header{"X-Time": {at, at}, "X-Webhook-Signature": {hexHMAC("s", at, ".", body)}}, forged},
		"header":                      {static, http.Header{"X-Webhook-Token": {"s"}}, wanted},
		"header, wrong":               {static, http.Header{"X-Webhook-Token": {"S"}}, forged},
		"header, twice":               {static, http.Header{"X-Webhook-Token": {"s", "s"}}, forged},
		"header, missing":             {static, nil, forged},
		"header, empty":               {static, http.Header{"X-Webhook-Token": {""}}, forged},
		"bearer":                      {bearer, http.Header{"Authorization": {"Bearer s"}}, wanted},
		"bearer without the word":     {bearer, http.Header{"Authorization": {"s"}}, forged},
		"no known scheme":             {`{"verification":{"scheme":"none"}}`, http.Header{"X-Webhook-Signature": {hexHMAC("s", body)}}, forged},
		"a config of another kind":    {`{"verification":[]}`, http.Header{"X-Webhook-Signature": {hexHMAC("s", body)}}, forged},
	} {
		d := &event.Delivery{Header: test.set, Body: []byte(body), Config: json.RawMessage(test.config)}
		err := match.Custom().Webhook.Verify(d, [][]byte{[]byte("s"), nil, []byte(exampleSecret)}, exampleTime(), 5*time.Minute)
		if want := []error{nil, event.ErrSignature, event.ErrStale}[test.want]; !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if test.want == wanted {
			if err := match.Custom().Webhook.Verify(d, nil, exampleTime(), 5*time.Minute); !errors.Is(err, event.ErrSignature) {
				t.Errorf("%s, without a secret: %v", name, err)
			}
		}
	}
}

func TestCustomParse(t *testing.T) {
	const hash = `"verification":{"scheme":"hmac"}`
	for _, test := range []struct {
		name, config, body     string
		set                    http.Header
		key                    string
		signed                 bool
		title, native, context string
	}{
		{name: "signed", config: `{}`, body: ` {"a": 1.50} `, set: http.Header{"Webhook-Id": {"m1"}}, key: "m1", signed: true, title: "Webhook received", context: `{"a": 1.50}`},
		{name: "no id", config: `{` + hash + `}`, body: `{}`, set: http.Header{"Webhook-Id": {"m1"}}, title: "Webhook received", context: `{}`},
		{name: "an unsigned id", config: `{` + hash + `,"id_header":"x-id"}`, body: `{}`, set: http.Header{"X-Id": {"7"}}, key: "7", title: "Webhook received", context: `{}`},
		{name: "an id that is none", config: `{` + hash + `,"id_header":"X-Id"}`, body: `{}`, set: http.Header{"X-Id": {"7 8"}}, title: "Webhook received", context: `{}`},
		{name: "two ids", config: `{` + hash + `,"id_header":"X-Id"}`, body: `{}`, set: http.Header{"X-Id": {"7", "8"}}, title: "Webhook received", context: `{}`},
		{name: "the header's id", config: `{"verification":{"scheme":"header"},"id_header":"X-Id"}`, body: `{}`, set: http.Header{"X-Id": {"7"}}, key: "7", signed: true, title: "Webhook received", context: `{}`},
		{name: "a list", config: `{}`, body: `[1,2]`, title: "Webhook received", context: `{"body":[1,2]}`},
		{name: "text", config: `{}`, body: "a=1\xff\x00", title: "Webhook received", context: `{"text":"a=1` + "\ufffd" + `\u0000"}`},
		{name: "nothing", config: `{}`, body: "", title: "Webhook received", context: `{"text":""}`},
		{name: "named", config: `{"event_path":"/type"}`, body: `{"type":"build.failed"}`, title: "Webhook received build.failed", native: "build.failed", context: `{"type":"build.failed"}`},
		{name: "titled", config: `{"event_path":"/type","title_path":"/of/0/t"}`, body: `{"type":7,"of":[{"t":"a\nb\u202e"}]}`, title: "a b ", native: "7", context: `{"type":7,"of":[{"t":"a\nb\u202e"}]}`},
		{name: "a title that is none", config: `{"title_path":"/t"}`, body: `{"t":{}}`, title: "Webhook received", context: `{"t":{}}`},
	} {
		d := &event.Delivery{Header: test.set, Body: []byte(test.body), Config: json.RawMessage(test.config)}
		p, err := match.Custom().Webhook.Parse(d)
		if err != nil || len(p.Events) != 1 {
			t.Errorf("%s: %+v, %v", test.name, p, err)
			continue
		}
		e := p.Events[0]
		if e.Provider != "custom" || e.Type != "event" || e.Key != test.key || p.ID != test.key || p.Signed != test.signed ||
			e.Title != test.title || e.Native != test.native || string(e.Context) != test.context {
			t.Errorf("%s: %+v, context %s", test.name, p, e.Context)
		}
	}
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	for name, config := range map[string]string{"event_path": `{"event_path":"/a"}`, "events": `{"events":["a"]}`, "match": `{"match":{"/a":1}}`} {
		for _, body := range []string{"", "a=1", `{"a":1`, deep} {
			if p, err := match.Custom().Webhook.Parse(&event.Delivery{Body: []byte(body), Config: json.RawMessage(config)}); err == nil {
				t.Errorf("%s of %.10q: %+v", name, body, p)
			}
		}
	}
	if p, err := match.Custom().Webhook.Parse(&event.Delivery{Body: []byte(deep)}); err != nil || !strings.HasPrefix(string(p.Events[0].Context), `{"text":"[[`) {
		t.Errorf("deep: %v", err)
	}
	large := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	p, err := match.Custom().Webhook.Parse(&event.Delivery{Body: []byte(large)})
	if err != nil || len(p.Events[0].Context) > 64<<10 || !bytes.Contains(p.Events[0].Context, []byte("_truncated")) {
		t.Errorf("large: %v", err)
	}
}

func TestCustomMatches(t *testing.T) {
	const context = `{"event":"push","type":"x","n":7,"f":1.50,"yes":true,"empty":"","null":null,"a/b":{"~":[10,"z"]},"list":["push"]}`
	for config, passes := range map[string]bool{
		`{}`:                                    true,
		``:                                      true,
		`{"events":["pull","push"]}`:            true,
		`{"events":["pull"]}`:                   false,
		`{"events":["Push"]}`:                   false,
		`{"events":["x"],"event_path":"/type"}`: true,
		`{"events":["x"],"event_path":"/none"}`: false,
		`{"event_path":"/none"}`:                true,
		`{"match":{"/n":7,"/yes":true}}`:        true,
		`{"match":{"/n":"7","/yes":"true"}}`:    true,
		`{"match":{"/n":[8,7]}}`:                true,
		`{"match":{"/n":8}}`:                    false,
		`{"match":{"/f":1.50}}`:                 true,
		`{"match":{"/n":7,"/yes":false}}`:       false,
		`{"match":{"/a~1b/~0/1":"z"}}`:          true,
		`{"match":{"/a~1b/~0/2":"z"}}`:          false,
		`{"match":{"/a~1b/~0/-1":"z"}}`:         false,
		`{"match":{"/empty":""}}`:               true,
		`{"match":{"/null":""}}`:                false,
		`{"match":{"/none":""}}`:                false,
		`{"match":{"/list":"push"}}`:            false,
		`{"match":{"/n/0":7}}`:                  false,
		`{"match":{"n":7}}`:                     false,
		`{"match":{"/n":null}}`:                 false,
		`{"match":[]}`:                          false,
		`{"events":"push"}`:                     false,
	} {
		e := &event.Event{Context: json.RawMessage(context)}
		if got := match.Custom().Types[0].Matches(e, json.RawMessage(config)); got != passes {
			t.Errorf("%s: %t", config, got)
		}
	}
	for _, context := range []string{``, `{`, `7`, `[]`} {
		if match.Custom().Types[0].Matches(&event.Event{Context: json.RawMessage(context)}, nil) {
			t.Errorf("the context %q passes", context)
		}
	}
}

// FuzzCustom: what was received is an object of bounded size, whatever it was.
func FuzzCustom(f *testing.F) {
	f.Add(`{}`, `{"type":"a"}`, "1")
	f.Add(`{"event_path":"/a/0","match":{"/a/0":[1,true]},"title_path":"/b"}`, `{"a":[1],"b":"\ud800"}`, "")
	f.Add(`{}`, "\u00a0[1]", "1")
	f.Add(`{"verification":{"scheme":"hmac"},"id_header":"Id"}`, "\xff{", "\x00")
	f.Fuzz(func(t *testing.T, config, body, id string) {
		d := &event.Delivery{Header: http.Header{"Id": {id}, "Webhook-Id": {id}}, Body: []byte(body), Config: json.RawMessage(config)}
		if match.Custom().Webhook.Verify(d, [][]byte{[]byte("a secret nobody has")}, exampleTime(), 0) == nil {
			t.Errorf("verified with %s", config)
		}
		p, err := match.Custom().Webhook.Parse(d)
		if err != nil {
			return
		}
		e := p.Events[0]
		if !json.Valid(e.Context) || e.Context[0] != '{' || len(e.Context) > 64<<10 || !bytes.Equal(bytes.ToValidUTF8(e.Context, nil), e.Context) || strings.ContainsAny(e.Title+e.Native, "\n\x00") {
			t.Errorf("%q: %+v, %q", body, e, e.Context)
		}
		_ = match.Custom().Types[0].Matches(&e, d.Config)
	})
}
