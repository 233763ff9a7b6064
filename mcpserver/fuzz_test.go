package mcpserver_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/mcpserver"
)

var seeds = []string{
	``, `{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":"a\u0062","method":"tools\/call","params":{"name":"x","arguments":{"n":1e999,"s":"\ud800"}}}`,
	` { "jsonrpc" : "2.0" , "id" : -0.0e+1 , "result" : [ { } , [ ] , true , false , null ] } `,
	`{"jsonrpc":"2.0","method":"m","method":"n"}`, `{"a":01}`, `{"a":1,}`, `{"a" 1}`, `{"a":"` + "\x01" + `"}`, "{\"a\":\"\xff\"}",
	`{"\u0069d":1,"jsonrpc":"2.0","method":"m"}`, `{"a":{"b":[1,2,{"c":"}"}]}}x`,
}

// What we take for JSON is JSON, and means the same to encoding/json.
func FuzzMembers(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if mcpserver.ValidJSON(raw) != json.Valid(raw) && bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) < 250 {
			t.Fatalf("valid %v, and for encoding/json %v: %q", mcpserver.ValidJSON(raw), json.Valid(raw), raw)
		}
		keys, values, err := mcpserver.Members(raw)
		if err != nil {
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
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		id, method, params, code := mcpserver.ParseEnvelope(body)
		if code != 0 {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal(body, &want); err != nil {
			t.Fatalf("let through: %q: %v", body, err)
		}
		if !bytes.Equal(want["id"], id) || !bytes.Equal(want["params"], params) {
			t.Fatalf("read otherwise: %q", body)
		}
		var m string
		if want["method"] != nil {
			if err := json.Unmarshal(want["method"], &m); err != nil || m != method {
				t.Fatalf("method %q, and for encoding/json %q: %v", method, m, err)
			}
		}
	})
}

// Adding the kind of a result adds that and nothing else.
func FuzzResultType(f *testing.F) {
	for _, s := range append(seeds, `{"resultType":"task","content":[]}`, "{\n }", `{"content":[]}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		var before map[string]json.RawMessage
		if json.Unmarshal(result, &before) != nil || before == nil || !utf8.Valid(result) || !mcpserver.ValidJSON(result) {
			return
		}
		got := mcpserver.AsModern("tools/call", result)
		var after map[string]json.RawMessage
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q became %q: %v", result, got, err)
		}
		if before["resultType"] == nil {
			if string(after["resultType"]) != `"complete"` {
				t.Fatalf("%q became %q", result, got)
			}
			delete(after, "resultType")
		}
		if len(before) != len(after) {
			t.Fatalf("%q became %q", result, got)
		}
		for k, v := range before {
			if !bytes.Equal(v, after[k]) {
				t.Fatalf("%q became %q", result, got)
			}
		}
	})
}

func FuzzCursor(f *testing.F) {
	f.Add("YWZ0ZXI6eA")
	f.Add("bm9wZQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		if last, ok := mcpserver.DecodeCursor(cursor); ok {
			if again, ok := mcpserver.DecodeCursor(mcpserver.EncodeCursor(last)); !ok || again != last {
				t.Fatalf("%q is %q, which becomes %q", cursor, last, again)
			}
		}
	})
}

func FuzzHeaderValue(f *testing.F) {
	f.Add("=?base64?ZcO8?=")
	f.Add("=?base64??=")
	f.Add("=?base64?=")
	f.Fuzz(func(t *testing.T, v string) { mcpserver.HeaderValue(v) })
}

// Whatever a source reports, the client gets one whole event or none.
func FuzzProgress(f *testing.F) {
	for _, s := range append(seeds, `{"progress":0,"total":1e400}`, `{"progress":-5.5}`, `{"progress":"x","total":3}`, `{"progressToken":7,"progress":1,"a\u0022":"\n"}`) {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, params []byte, held bool) {
		got := mcpserver.SourceProgress(params, held)
		if got == "" {
			return
		}
		var data []byte
		for line := range strings.Lines(got) {
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, text...)
			}
		}
		var event struct {
			Params struct{ ProgressToken int }
		}
		if err := json.Unmarshal(data, &event); err != nil || event.Params.ProgressToken != 1 {
			t.Fatalf("%q became %q: %v", params, got, err)
		}
	})
}

// What is signed of an id reads in one way only, whatever it is; and no id is
// read that was not signed with the key.
func FuzzSessionID(f *testing.F) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // each process of the fuzzer has its own
	now := time.Now()
	id := mcpserver.MintSessionID(key, &mcp.InitializeParams{ClientInfo: &mcp.Implementation{Name: "x", Version: "1"}}, "2025-11-25", now)
	raw, _ := base64.RawURLEncoding.DecodeString(id)
	f.Add(raw)
	f.Add(raw[:len(raw)-16])
	f.Add(raw[:50])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if again, ok := mcpserver.ParseIdentity(raw); ok && len(again) == len(raw) && !bytes.Equal(again[1:], raw[1:]) {
			t.Fatalf("%q became %q", raw, again)
		}
		text := base64.RawURLEncoding.EncodeToString(raw)
		for _, one := range []string{text, string(raw)} {
			if _, ok := mcpserver.ReadSessionID(key, one, now); ok && one != id {
				t.Fatalf("read: %q", one)
			}
		}
	})
}

// Whatever is posted, the answer is JSON or a refusal, and nothing breaks.
func FuzzServe(f *testing.F) {
	s := newServer(f, newGate(read()), &hints{}, nil)
	session := begin(f, s, "token-a")
	for _, body := range append(seeds, callBody(1, "read", `,"arguments":"{}","_meta":{"progressToken":"x"}`),
		callBody(1, "invocation_wait", `,"arguments":{"invocation_id":"a","timeout_seconds":0}`),
		callBody(1, "read", `,"_meta":{`+clientMeta+`}`), `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"YWZ0ZXI6eA"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}`) {
		f.Add([]byte(body), false)
		f.Add([]byte(body), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, modern bool) {
		if bytes.Contains(body, []byte("listen")) {
			return // it lasts
		}
		r := rpc("token-a", session, string(body))
		if modern {
			_, method, _, _ := mcpserver.ParseEnvelope(body)
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", method)
			r.Header.Set("Mcp-Name", "read")
		}
		w := serve(s, r)
		if w.Code >= 500 || w.Code == http.StatusOK && w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) && utf8.Valid(body) {
			t.Fatalf("%q is answered %d %s", body, w.Code, w.Body)
		}
	})
}
