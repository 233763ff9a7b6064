package wire

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// seeds are messages that a lenient parser could misread.
func seeds() []string {
	return []string{
		``, `{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"a\u0062","method":"tools\/call","params":{"name":"x","arguments":{"n":1e999,"s":"\ud800"}}}`,
		` { "jsonrpc" : "2.0" , "id" : -0.0e+1 , "result" : [ { } , [ ] , true , false , null ] } `,
		`{"jsonrpc":"2.0","method":"m","method":"n"}`, `{"a":01}`, `{"a":1,}`, `{"a" 1}`, `{"a":"` + "\x01" + `"}`, "{\"a\":\"\xff\"}",
		`{"\u0069d":1,"jsonrpc":"2.0","method":"m"}`, `{"a":{"b":[1,2,{"c":"}"}]}}x`,
	}
}

// What we take for JSON is JSON, and means the same to encoding/json.
func FuzzMembers(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if Valid(raw) != json.Valid(raw) && bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) < 250 {
			t.Fatalf("valid %v, and for encoding/json %v: %q", Valid(raw), json.Valid(raw), raw)
		}
		var keys []string
		var values [][]byte
		m := Members{Text: raw}
		for m.Next() {
			keys, values = append(keys, string(m.Key)), append(values, m.Value)
		}
		if m.Err != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(raw, &want); err != nil {
			t.Fatalf("an object for us only: %q: %v", raw, err)
		}
		got := map[string]json.RawMessage{}
		for i, k := range keys {
			got[k] = values[i]
		}
		if len(got) != len(want) && utf8.Valid(raw) {
			t.Fatalf("members %q, and for encoding/json %q", got, want)
		}
		for k, v := range want {
			if utf8.Valid(raw) && !bytes.Equal(bytes.TrimSpace(v), got[k]) {
				t.Fatalf("member %q is %q, and for encoding/json %q", k, got[k], v)
			}
		}
	})
}

// A message that we let through reads the same to the parser behind us.
func FuzzEnvelope(f *testing.F) {
	for _, s := range seeds() {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e, bad := ParseEnvelope(body)
		if bad != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("let through: %q: %v", body, err)
		}
		if !bytes.Equal(want["id"], e.ID) || !bytes.Equal(want["params"], e.Params) {
			t.Fatalf("read otherwise: %q", body)
		}
		var m string
		if want["method"] != nil {
			if err := json.Unmarshal(want["method"], &m); err != nil || m != e.Method {
				t.Fatalf("method %q, and for encoding/json %q: %v", e.Method, m, err)
			}
		}
	})
}

func FuzzHeaderValue(f *testing.F) {
	f.Add("=?base64?ZcO8?=")
	f.Add("=?base64??=")
	f.Add("=?base64?=")
	f.Fuzz(func(t *testing.T, v string) { HeaderValue(v) })
}
