package connector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/sources/connector"
)

// odd are results with all that typed proxies lose: numbers beyond 2^53, the
// order of keys, unknown fields, unknown content, white space, escapes.
var odd = []string{
	`{"content":[],"structuredContent":{"big":12345678901234567890,"z":1,"a":9007199254740993,"f":1.0,"e":1E+2}}`,
	`{ "content" : [ {"type":"hologram","data":"x","vendor":{"k":null}} ] , "unknown": [true ,false], "_meta":{"n":9007199254740993} }`,
	`{"structuredContent":[1,"two",null],"content":[{"type":"text","text":"\u00e9\/\ud83d\ude00<&>"}],"isError":false}`,
	`{"content":null,"isError":true}`,
	`{"content":[{"type":"resource_link","uri":"file:///x","name":"x"},{"type":"image","data":"aGk=","mimeType":"image/png"}],"resultType":"complete"}`,
	"{\"content\":[{\"type\":\"text\",\"text\":\"\xc3\xa9 \u2028\"}]}",
}

func TestResultsByteForByte(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		for _, events := range []bool{false, true} {
			for i, result := range odd {
				t.Run(fmt.Sprintf("stateless=%t,events=%t,%d", stateless, events, i), func(t *testing.T) {
					u := newUpstream(t, stateless, func(w http.ResponseWriter, _ *http.Request, p *post) {
						if !events {
							respond(w, p, result)
							return
						}
						stream(w)
						fmt.Fprint(w, "\ufeff: hello\r\n\r\nid: 1\rretry: 5\r\n")
						say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, p.ID, result))
					})
					params := `{"b":9007199254740993,"a":[1.0,"\u00e9"]}`
					res, err := open(t, u.URL, nil).Call(t.Context(), "tool", json.RawMessage(params), nobody())
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(result, string(res.Body)); diff != "" {
						t.Error(diff)
					}
					if want := i == 3; res.IsError != want {
						t.Errorf("IsError is %t", res.IsError)
					}
					if sent := u.received("tools/call"); len(sent) != 1 || string(sent[0].Params.Arguments) != params {
						t.Errorf("the server received %+v", sent)
					}
				})
			}
		}
	}
}

func TestErrorsByteForByte(t *testing.T) {
	problem := `{"code":-32602, "message":"no\u0020such","data":{"n":9007199254740993,"x":[]},"more":1}`
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusInternalServerError, http.StatusNotFound} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, p.ID, problem)
			})
			res, err := open(t, u.URL, nil).Call(t.Context(), "tool", nil, nobody())
			if err != nil || string(res.Problem) != problem || res.Body != nil {
				t.Errorf("got problem %s, body %s, %v", res.Problem, res.Body, err)
			}
		})
	}
}

func TestListByteForByte(t *testing.T) {
	pages := map[string]string{
		"":   `{"tools":[ {"name":"a","execution":{"x":1},"inputSchema":{"type":"object","maximum":18446744073709551616}} , {"z":1,"name":"b"}],"nextCursor":"p\u0032"}`,
		"p2": `{"tools":[],"nextCursor":"p3"}`,
		"p3": `{"tools":[{"name" : "c"},7,null],"nextCursor":""}`,
	}
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, pages[p.Params.Cursor]) })
	l, err := open(t, u.URL, nil).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, raw := range l.Tools {
		got = append(got, string(raw))
	}
	want := []string{
		`{"name":"a","execution":{"x":1},"inputSchema":{"type":"object","maximum":18446744073709551616}}`,
		`{"z":1,"name":"b"}`, `{"name" : "c"}`, `7`, `null`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProgressByteForByte(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		stream(w)
		say(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}`)
		say(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1, "progressToken":%s ,"total":9007199254740993,"x":null}}`, p.Params.Meta.Token))
		say(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":2,"progressToken":"somebody else's"}}`)
		say(w, fmt.Sprintf("{\"jsonrpc\":\"2.0\",\n\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"message\":\"\\u00e9\"}}", p.Params.Meta.Token))
		say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, p.ID))
	})
	var heard []string
	s := open(t, u.URL, nil)
	if _, err := s.Call(t.Context(), "tool", nil, &caller{progress: func(p json.RawMessage) { heard = append(heard, string(p)) }}); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"progress":1 ,"total":9007199254740993,"x":null}`, `{"message":"\u00e9"}`}
	if diff := cmp.Diff(want, heard); diff != "" {
		t.Error(diff)
	}
	// Nobody listens: no token is sent.
	if _, err := s.Call(t.Context(), "tool", nil, nil); err != nil {
		t.Fatal(err)
	}
	if sent := u.received("tools/call"); sent[0].Params.Meta.Token == nil || sent[1].Params.Meta.Token != nil {
		t.Errorf("tokens %s and %s", sent[0].Params.Meta.Token, sent[1].Params.Meta.Token)
	}
}

// TestHeadersOfStatelessRequests checks what a server without sessions is
// told in headers.
func TestHeadersOfStatelessRequests(t *testing.T) {
	u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
		if p.Method == "tools/list" {
			respond(w, p, `{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{
				"a":{"type":"string","x-mcp-header":"A"},"o":{"type":"object","properties":{"b":{"type":"integer","x-mcp-header":"B"}}},
				"c":{"type":"boolean","x-mcp-header":"C"},"d":{"type":"string","x-mcp-header":"D"},"e":{"type":"integer","x-mcp-header":"E"}}}}]}`)
			return
		}
		respond(w, p, `{"content":[]}`)
	})
	s := open(t, u.URL, nil)
	if _, err := s.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), "t", json.RawMessage(`{"a":" é","o":{"b":-7},"c":true,"e":9007199254740993}`), nil); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, values := range u.received("tools/call")[0].header {
		if len(name) > 4 && name[:4] == "Mcp-" {
			got[name] = values[0]
		}
	}
	want := map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "t",
		"Mcp-Param-A": "=?base64?IMOp?=", "Mcp-Param-B": "-7", "Mcp-Param-C": "true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSecretIsReplacedEverywhere has a server that echoes its credential in
// all that it says.
func TestSecretIsReplacedEverywhere(t *testing.T) {
	const secret = "s3cr3t/canary+value"
	echo := func(p *post) string { return p.header.Get("X-Key") }
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) {
		switch {
		case p.Method == "tools/list":
			respond(w, p, fmt.Sprintf(`{"tools":[{"name":"a","description":%q}]}`, echo(p)))
		case p.Params.Name == "problem":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":%q}}`, p.ID, echo(p))
		case p.Params.Name == "refuse":
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":%q}}`, echo(p))
		case p.Params.Name == "break":
			w.Header().Set("Content-Type", echo(p))
		default:
			stream(w)
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"message":%q}}`, p.Params.Meta.Token, echo(p)))
			say(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}],"n":9007199254740993}}`, p.ID, echo(p)))
		}
	})
	s := open(t, u.URL, func(c *connector.Config) {
		c.Header, c.Prefix = "X-Key", "Key "
		c.Secret = func(context.Context) (string, string, error) { return secret, u.Listener.Addr().String(), nil }
	})
	var said []string
	l, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	said = append(said, string(l.Tools[0]))
	for _, tool := range []string{"problem", "refuse", "break", "result"} {
		res, err := s.Call(t.Context(), tool, nil, &caller{progress: func(p json.RawMessage) { said = append(said, string(p)) }})
		said = append(said, string(res.Body), string(res.Problem), fmt.Sprint(err))
		if diff := cmp.Diff([]string{secret}, res.Secrets); diff != "" {
			t.Error(diff)
		}
	}
	for _, text := range said {
		if contains(text, secret) {
			t.Errorf("the secret is in %s", text)
		}
	}
	if last := said[len(said)-3]; last != `{"content":[{"type":"text","text":"Key [redacted]"}],"n":9007199254740993}` {
		t.Errorf("the rest is changed: %s", last)
	}
	for _, p := range u.received("tools/call") {
		if p.header.Get("X-Key") != "Key "+secret {
			t.Errorf("sent %q", p.header.Get("X-Key"))
		}
	}
}
