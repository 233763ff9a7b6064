package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"sallyport/action"
	"sallyport/mcpserver"
	"sallyport/mcpserver/wire"
)

var seeds = []string{
	``, `{}`, `[]`, `null`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":"a\u0062","method":"tools\/call","params":{"name":"x","arguments":{"n":1e999,"s":"\ud800"}}}`,
	` { "jsonrpc" : "2.0" , "id" : -0.0e+1 , "result" : [ { } , [ ] , true , false , null ] } `,
	`{"jsonrpc":"2.0","method":"m","method":"n"}`, `{"a":01}`, `{"a":1,}`, `{"a" 1}`, `{"a":"` + "\x01" + `"}`, "{\"a\":\"\xff\"}",
	`{"\u0069d":1,"jsonrpc":"2.0","method":"m"}`, `{"a":{"b":[1,2,{"c":"}"}]}}x`,
}

// Adding the kind of a result adds that and nothing else.
func FuzzResultType(f *testing.F) {
	for _, s := range append(seeds, `{"resultType":"task","content":[]}`, "{\n }", `{"content":[]}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		var before map[string]json.RawMessage
		if json.Unmarshal(result, &before) != nil || before == nil || !utf8.Valid(result) || !wire.Valid(result) {
			return
		}
		got := mcpserver.StatelessResult("tools/call", result)
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
		if last, ok := action.ParseCursor(cursor); ok {
			if again, ok := action.ParseCursor(action.CursorAfter(last)); !ok || again != last {
				t.Fatalf("%q is %q, which becomes %q", cursor, last, again)
			}
		}
	})
}

// Whatever a source reports, the client gets one whole event or none.
func FuzzProgress(f *testing.F) {
	for _, s := range append(seeds, `{"progress":0,"total":1e400}`, `{"progress":-5.5}`, `{"progress":"x","total":3}`, `{"progressToken":7,"progress":1,"a\u0022":"\n"}`) {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, params []byte, held bool) {
		got := mcpserver.ForwardedProgress(params, held)
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
			e, _ := wire.ParseEnvelope(body)
			r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
			r.Header.Set("Mcp-Method", e.Method)
			r.Header.Set("Mcp-Name", "read")
		}
		w := serve(s, r)
		if w.Code >= 500 || w.Code == http.StatusOK && w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) && utf8.Valid(body) {
			t.Fatalf("%q is answered %d %s", body, w.Code, w.Body)
		}
	})
}
