package connector_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/connector"
)

const offersAll = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}}`

func texts(list []json.RawMessage) (all []string) {
	for _, raw := range list {
		all = append(all, string(raw))
	}
	return all
}

// TestOffersByteForByte lists what a server has beside tools.
func TestOffersByteForByte(t *testing.T) {
	pages := map[string]string{
		"tools/list":               `{"tools":[]}`,
		"resources/list":           `{"resources":[ {"uri":"x:\u00e9","z":1,"size":9007199254740993,"name":"a"} ,7],"nextCursor":"2"}`,
		"resources/list2":          `{"resources":[{"new":{"b":[1.0]}}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x:{y}" , "annotations":{"vendor":null}}]}`,
		"prompts/list":             `{"prompts":[{"name":"p","arguments":[{"required":true,"odd":1E+2}]}],"nextCursor":null}`,
	}
	for _, era := range eras {
		t.Run(era.name, func(t *testing.T) {
			u := newUpstream(t, era.stateless, func(w http.ResponseWriter, _ *http.Request, p *post) {
				respond(w, p, pages[p.Method+p.Params.Cursor])
			})
			u.offer(offersAll)
			s := open(t, u.URL, nil)
			l, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := [][]string{texts(l.Resources), texts(l.Templates), texts(l.Prompts), l.Warnings}
			want := [][]string{
				{`{"uri":"x:\u00e9","z":1,"size":9007199254740993,"name":"a"}`, `7`, `{"new":{"b":[1.0]}}`},
				{`{"uriTemplate":"x:{y}" , "annotations":{"vendor":null}}`},
				{`{"name":"p","arguments":[{"required":true,"odd":1E+2}]}`},
				nil,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if all := (sources.Capabilities{Resources: true, Subscribe: true, Prompts: true, Completions: true, Logging: true}); l.Capabilities != all {
				t.Errorf("it offers %+v", l.Capabilities)
			}
			var steps []string
			for _, step := range s.Steps() {
				steps = append(steps, step.Name)
			}
			if diff := cmp.Diff([]string{"dns", "connect", "tls", "handshake", "tools", "resources", "resource templates", "prompts"}, steps); diff != "" {
				t.Error(diff)
			}
			if step := s.Steps()[3]; step.Took <= 0 || step.Detail != era.protocol {
				t.Errorf("the handshake: %+v", step)
			}
		})
	}
}

// TestBrokenOffers has lists that break: the tools stay.
func TestBrokenOffers(t *testing.T) {
	many := func(member string, n int) string {
		return `{"` + member + `":[` + strings.TrimSuffix(strings.Repeat(`{},`, n), ",") + `]}`
	}
	for _, test := range []struct {
		name, method, result string
		left, warnings       int
		word                 string
	}{
		{"too many resources", "resources/list", many("resources", 2001), 2000, 1, "2000 resources"},
		{"too many templates", "resources/templates/list", many("resourceTemplates", 501), 500, 1, "500 resource templates"},
		{"too many prompts", "prompts/list", many("prompts", 2001), 2000, 1, "2000 prompts"},
		{"null", "prompts/list", `null`, 0, 1, "prompts could not be listed"},
		{"no array", "resources/list", `{"resources":{}}`, 0, 1, "resources could not be listed"},
		{"round in circles", "resources/list", `{"resources":[{}],"nextCursor":"more"}`, 0, 1, "circular"},
		{"too large", "prompts/list", `{"prompts":["` + strings.Repeat("x", 200<<10) + `"]}`, 0, 1, "larger"},
		{"refused", "prompts/list", "", 0, 1, "the moon is full"},
		{"not known", "resources/templates/list", "", 0, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
				switch {
				case p.Method == test.method && test.name == "not known":
					fail(w, p, `{"code":-32601,"message":"what?"}`)
				case p.Method == test.method && test.result == "":
					fail(w, p, `{"code":-32000,"message":"the moon is full"}`)
				case p.Method == test.method:
					respond(w, p, test.result)
				default:
					respond(w, p, `{"tools":[{"name":"a"}],"resources":[],"resourceTemplates":[],"prompts":[]}`)
				}
			})
			u.offer(offersAll)
			l, err := open(t, u.URL, func(c *connector.Config) { c.MaxAnswer = 100 << 10 }).List(t.Context())
			if err != nil || len(l.Tools) != 1 {
				t.Fatalf("got %d tools, %v", len(l.Tools), err)
			}
			if missing := l.Missing != (sources.Missing{}); missing != (test.left == 0 && test.warnings > 0) {
				t.Errorf("missing are %+v", l.Missing)
			}
			if n := len(l.Resources) + len(l.Templates) + len(l.Prompts); n != test.left || len(l.Warnings) != test.warnings {
				t.Errorf("%d are left, warnings %q", n, l.Warnings)
			}
			if said := strings.Join(l.Warnings, "\n"); !strings.Contains(said, test.word) {
				t.Errorf("it warns %q", said)
			}
		})
	}
}

// TestNothingIsOffered has a server that offers tools alone: it is asked for
// nothing else.
func TestNothingIsOffered(t *testing.T) {
	u := newUpstream(t, false, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, `{"tools":[]}`) })
	l, err := open(t, u.URL, nil).List(t.Context())
	if err != nil || l.Capabilities != (sources.Capabilities{}) {
		t.Errorf("it offers %+v, %v", l.Capabilities, err)
	}
	if n := len(u.received("resources/list")) + len(u.received("prompts/list")); n != 0 {
		t.Errorf("it was asked %d times", n)
	}
}

// fail answers with a JSON-RPC error.
func fail(w http.ResponseWriter, p *post, problem string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, p.ID, problem)
}

// TestDoByteForByte reads, gets and completes.
func TestDoByteForByte(t *testing.T) {
	for _, era := range eras {
		for _, test := range []struct{ method, params, sent, result, name string }{
			{
				"resources/read", `{"uri":"x:a","n":9007199254740993,"_meta":{"io.modelcontextprotocol/protocolVersion":"1","k":1},"requestState":"forged","inputResponses":{}}`,
				`"params":{"uri":"x:a","n":9007199254740993,"_meta":{"progressToken":`,
				`{"contents":[{"uri":"x:a","blob":"aGk=","new":1E+2}], "z":12345678901234567890,"a":null}`, "x:a",
			},
			{
				"prompts/get", `{ "name":"p" ,"arguments":{"b":"1","a":"\u00e9"}}`, `"params":{"name":"p" ,"arguments":{"b":"1","a":"\u00e9"},"_meta":{"progressToken":`,
				`{"messages":[{"role":"user","content":{"type":"hologram"}}],"description":"d"}`, "p",
			},
			{
				"completion/complete", `{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""}}`,
				`"params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"_meta":{"progressToken":`,
				`{"completion":{"values":["x"],"total":9007199254740993}}`, "",
			},
		} {
			t.Run(era.name+" "+test.method, func(t *testing.T) {
				u := newUpstream(t, era.stateless, func(w http.ResponseWriter, _ *http.Request, p *post) { respond(w, p, test.result) })
				res, err := open(t, u.URL, nil).Do(t.Context(), test.method, json.RawMessage(test.params), nobody())
				if err != nil || string(res.Body) != test.result {
					t.Errorf("got %s, %v", res.Body, err)
				}
				sent := u.received(test.method)[0]
				if !strings.Contains(sent.raw, test.sent) {
					t.Errorf("sent %s", sent.raw)
				}
				if got := sent.header.Get("Mcp-Name"); era.stateless && got != test.name {
					t.Errorf("the header is %q", got)
				}
			})
		}
	}
}

func TestDoRefuses(t *testing.T) {
	u := newUpstream(t, true, func(w http.ResponseWriter, _ *http.Request, p *post) {
		if p.Params.Name == "problem" {
			fail(w, p, `{"code":-32602, "message":"no"}`)
			return
		}
		respond(w, p, `{"content":[]}`)
	})
	s := open(t, u.URL, nil)
	for _, method := range []string{"resources/read", "prompts/get", "completion/complete"} {
		_, err := s.Do(t.Context(), method, nil, nil)
		wantFault(t, err, action.ErrOutcomeUnknown, sources.FaultProtocol)
	}
	_, err := s.Do(t.Context(), "tools/call", nil, nil)
	wantFault(t, err, action.ErrInvalid, "invalid_method")
	_, err = s.Do(t.Context(), "prompts/get", json.RawMessage(`[]`), nil)
	wantFault(t, err, action.ErrInvalid, "invalid_params")
	res, err := s.Do(t.Context(), "prompts/get", json.RawMessage(`{"name":"problem"}`), nil)
	if err != nil || string(res.Problem) != `{"code":-32602, "message":"no"}` {
		t.Errorf("got %s, %v", res.Problem, err)
	}
}
