package ingest_test

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

	"sallyport/ingest"
	"sallyport/ingest/event"
)

// customFits checks a config by a validator.
func customFits(t *testing.T, config string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(ingest.Custom().Types[0].Config))
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

func hexMAC(secret string, parts ...string) string {
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
	body := standardBody
	for name, test := range map[string]struct {
		config string
		set    http.Header
		want   int
	}{
		"signed by default":           {`{}`, http.Header{"Webhook-Id": {standardID}, "Webhook-Timestamp": {at}, "Webhook-Signature": {standardSignature}}, wanted},
		"standard, unsigned":          {`{}`, http.Header{"Webhook-Id": {standardID}, "Webhook-Timestamp": {at}}, forged},
		"standard, with hmac":         {`{}`, http.Header{"X-Webhook-Signature": {hexMAC("s", body)}}, forged},
		"hmac":                        {hash, http.Header{"X-Webhook-Signature": {hexMAC("s", body)}}, wanted},
		"hmac with its prefix":        {hash, http.Header{"X-Webhook-Signature": {"sha256=" + hexMAC("s", body)}}, wanted},
		"hmac by the other secret":    {hash, http.Header{"X-Webhook-Signature": {hexMAC(standardSecret, body)}}, wanted},
		"hmac with two prefixes":      {hash, http.Header{"X-Webhook-Signature": {"sha256=sha256=" + hexMAC("s", body)}}, forged},
		"hmac in another header":      {hash, http.Header{"X-Signature": {hexMAC("s", body)}}, forged},
		"hmac twice":                  {hash, http.Header{"X-Webhook-Signature": {hexMAC("s", body), hexMAC("s", body)}}, forged},
		"hmac, missing":               {hash, nil, forged},
		"hmac by another secret":      {hash, http.Header{"X-Webhook-Signature": {hexMAC("other", body)}}, forged},
		"hmac by an empty secret":     {hash, http.Header{"X-Webhook-Signature": {hexMAC("", body)}}, forged},
		"hmac, with standard instead": {hash, http.Header{"Webhook-Id": {standardID}, "Webhook-Timestamp": {at}, "Webhook-Signature": {standardSignature}}, forged},
		"hmac in the named header":    {named, http.Header{"X-Signature-256": {"sha256=" + hexMAC("s", body)}}, wanted},
		"hmac with time":              {timed, http.Header{"X-Time": {at}, "X-Webhook-Signature": {hexMAC("s", at, ".", body)}}, wanted},
		"hmac with old time":          {timed, http.Header{"X-Time": {"1614265029"}, "X-Webhook-Signature": {hexMAC("s", "1614265029.", body)}}, outdated},
		"hmac with coming time":       {timed, http.Header{"X-Time": {"1614265631"}, "X-Webhook-Signature": {hexMAC("s", "1614265631.", body)}}, outdated},
		"hmac with another time":      {timed, http.Header{"X-Time": {"1614265331"}, "X-Webhook-Signature": {hexMAC("s", at, ".", body)}}, forged},
		"hmac with time unsigned":     {timed, http.Header{"X-Time": {at}, "X-Webhook-Signature": {hexMAC("s", body)}}, forged},
		"hmac without the time":       {timed, http.Header{"X-Webhook-Signature": {hexMAC("s", ".", body)}}, forged},
		"hmac with two times":         {timed, http.Header{"X-Time": {at, at}, "X-Webhook-Signature": {hexMAC("s", at, ".", body)}}, forged},
		"header":                      {static, http.Header{"X-Webhook-Token": {"s"}}, wanted},
		"header, wrong":               {static, http.Header{"X-Webhook-Token": {"S"}}, forged},
		"header, twice":               {static, http.Header{"X-Webhook-Token": {"s", "s"}}, forged},
		"header, missing":             {static, nil, forged},
		"header, empty":               {static, http.Header{"X-Webhook-Token": {""}}, forged},
		"bearer":                      {bearer, http.Header{"Authorization": {"Bearer s"}}, wanted},
		"bearer without the word":     {bearer, http.Header{"Authorization": {"s"}}, forged},
		"no known scheme":             {`{"verification":{"scheme":"none"}}`, http.Header{"X-Webhook-Signature": {hexMAC("s", body)}}, forged},
		"a config of another kind":    {`{"verification":[]}`, http.Header{"X-Webhook-Signature": {hexMAC("s", body)}}, forged},
	} {
		d := &event.Delivery{Header: test.set, Body: []byte(body), Config: json.RawMessage(test.config)}
		err := ingest.Custom().Webhook.Verify(d, [][]byte{[]byte("s"), nil, []byte(standardSecret)}, standardTime, 5*time.Minute)
		if want := []error{nil, event.ErrSignature, event.ErrStale}[test.want]; !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if test.want == wanted {
			if err := ingest.Custom().Webhook.Verify(d, nil, standardTime, 5*time.Minute); !errors.Is(err, event.ErrSignature) {
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
		p, err := ingest.Custom().Webhook.Parse(d)
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
			if p, err := ingest.Custom().Webhook.Parse(&event.Delivery{Body: []byte(body), Config: json.RawMessage(config)}); err == nil {
				t.Errorf("%s of %.10q: %+v", name, body, p)
			}
		}
	}
	if p, err := ingest.Custom().Webhook.Parse(&event.Delivery{Body: []byte(deep)}); err != nil || !strings.HasPrefix(string(p.Events[0].Context), `{"text":"[[`) {
		t.Errorf("deep: %v", err)
	}
	large := `{"a":"` + strings.Repeat("x", 100_000) + `"}`
	p, err := ingest.Custom().Webhook.Parse(&event.Delivery{Body: []byte(large)})
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
		if got := ingest.Custom().Types[0].Matches(e, json.RawMessage(config)); got != passes {
			t.Errorf("%s: %t", config, got)
		}
	}
	for _, context := range []string{``, `{`, `7`, `[]`} {
		if ingest.Custom().Types[0].Matches(&event.Event{Context: json.RawMessage(context)}, nil) {
			t.Errorf("the context %q passes", context)
		}
	}
}

// Where nothing else tells them apart the same body means something new, five
// minutes later.
func TestCustomIDs(t *testing.T) {
	h := newHouse(t)
	h.trigger("one", "custom", `{"verification":{"scheme":"header","header":"X-Token"},"id_header":"Delivery-No"}`, "secret")
	post := func(id string) {
		h.Helper()
		set := headers{"X-Token": "secret", "X-Other": "1"}
		if id != "" {
			set["Delivery-No"] = id
		}
		h.post("/webhooks/custom/one", "{}", set, 200)
	}
	post("1")
	post("1")
	post("2")
	h.keeps(2)
	d, err := ingest.OpenDelivery(h.vault, h.kept()[1])
	if err != nil || d.Header.Get("Delivery-No") != "2" || d.Header.Get("X-Other") != "1" {
		t.Errorf("it keeps %v, %v", d, err)
	}
	if len(d.Header["X-Token"]) != 0 {
		t.Error("the credential is kept")
	}
	post("")
	post("")
	h.keeps(3)
	h.pass(5 * time.Minute)
	post("")
	h.keeps(4)
	post("1")
	h.keeps(4)
}
