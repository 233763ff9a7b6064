package conformance_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/canonical"
)

// TestFidelity holds everything that public servers list and answer through
// the gateway against the same directly, byte by byte of its canonical form:
// no client, and no type of a library, stands between. What may differ is said
// in [seen.normal], and nowhere else.
func TestFidelity(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	everything, older := startEverything(t), runEverything(t, "sse")+"/sse"
	for _, c := range []struct {
		server, at, era string // of the server
		can, ask        string // of the client, and the connector
		older           string // the same server over HTTP+SSE, for the connector
		steps           func(*wire, string) []step
	}{
		{"everything, of a client that offers nothing", everything, olderEra, nothing, `[]`, "", everythingSteps},
		{"everything, of one that offers all", everything, olderEra, allOfIt, mayAsk, "", everythingSteps},
		{"everything over HTTP+SSE", everything, olderEra, allOfIt, mayAsk, older, everythingSteps},
		{"the suite's server, with sessions", startReference(t, false), olderEra, allOfIt, mayAsk, "", referenceSteps},
		{"the suite's server, without", startReference(t, true), newerEra, allOfIt, mayAsk, "", referenceSteps},
	} {
		t.Run(c.server, func(t *testing.T) {
			direct := newWire(t, c.at, "", c.era, c.can)
			if c.era == olderEra {
				direct.opened(direct.listen())
			}
			steps := c.steps(direct, "")
			if len(steps) < 20 {
				t.Fatalf("only %d steps", len(steps))
			}
			want := look(direct, steps).normal("")
			for _, slug := range []string{"fi", ""} {
				at := c.older
				if at == "" {
					at = c.at
				}
				source := g.connector(slug, at, func(body map[string]any) { body["may_ask"] = json.RawMessage(c.ask) })
				g.mode(source+":*", "allow")
				prefix := slug
				if prefix != "" {
					prefix += "_"
				}
				for _, era := range []string{olderEra, newerEra} {
					t.Run(fmt.Sprintf("slug %q, %s", slug, era), func(t *testing.T) {
						through := newWire(t, g.MCPURL, g.mint(nil).Token, era, c.can)
						got := look(through, c.steps(through, prefix)).normal(prefix)
						compare(t, want, got)
					})
				}
				g.must("DELETE", "/api/v1/connectors/"+strings.TrimPrefix(source, "connector:"), nil, nil)
			}
		})
	}
}

// opened waits until a stream is.
func (w *wire) opened(open <-chan struct{}) {
	w.t.Helper()
	await(w.t, "an event stream", func() bool {
		select {
		case <-open:
			return true
		default:
			return false
		}
	})
}

// step is something to ask of a server.
type step struct {
	name           string // without the prefix: the same step directly
	method, params string
}

// lists are the methods that list, with what their results call it.
func lists() map[string]string {
	return map[string]string{"tools/list": "tools", "resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
}

// common lists all, then calls each tool, reads each resource and gets each
// prompt that is listed; arguments are by name.
func common(w *wire, prefix string, arguments map[string]string) (steps []step) {
	for _, method := range []string{"tools/list", "resources/list", "resources/templates/list", "prompts/list"} {
		steps = append(steps, step{method, method, `{}`})
	}
	for _, tool := range names(w, "tools/list", prefix) {
		steps = append(steps, step{"call " + tool, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, prefix+tool, argumentsOf(arguments, tool))})
	}
	for _, uri := range names(w, "resources/list", "") {
		steps = append(steps, step{"read " + uri, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri)})
	}
	for _, prompt := range names(w, "prompts/list", prefix) {
		steps = append(steps, step{"get " + prompt, "prompts/get", fmt.Sprintf(`{"name":%q,"arguments":%s}`, prefix+prompt, argumentsOf(arguments, prompt))})
	}
	return steps
}

func argumentsOf(arguments map[string]string, name string) string {
	if a := arguments[name]; a != "" {
		return a
	}
	return `{}`
}

// names are those of a list, without what is the gateway's own, and without
// tools that run only as tasks: the gateway refuses their calls, which say why.
func names(w *wire, method, prefix string) (names []string) {
	for _, item := range items(w.request(method, `{}`).Result, lists()[method]) {
		if id := nameOf(item); !own(id) && strings.HasPrefix(id, prefix) && !sessionOnly(id) && !taskOnly(item) {
			names = append(names, strings.TrimPrefix(id, prefix))
		}
	}
	return names
}

func taskOnly(item json.RawMessage) bool {
	var tool struct{ Execution struct{ TaskSupport string } }
	_ = json.Unmarshal(item, &tool) // what is no tool has none
	return tool.Execution.TaskSupport == "required"
}

func items(result json.RawMessage, list string) (items []json.RawMessage) {
	var all map[string]json.RawMessage
	_ = json.Unmarshal(result, &all)
	_ = json.Unmarshal(all[list], &items) // a missing list is an empty one
	return items
}

// nameOf is the URI, the template or else the name of what was listed.
func nameOf(definition json.RawMessage) string {
	var d struct{ Name, URI, URITemplate string }
	_ = json.Unmarshal(definition, &d)
	for _, id := range []string{d.URI, d.URITemplate} {
		if id != "" {
			return id
		}
	}
	return d.Name
}

// own tells whether something is the gateway's.
func own(id string) bool {
	return slices.Contains([]string{"setup", "coding", "automation", "verify", "request_env_variables"}, id) || strings.HasPrefix(id, "invocation_") || strings.HasPrefix(id, "actions_") || id == "grant_request" || strings.HasPrefix(id, "sallyport:")
}

// sessionOnly tells whether something is there since a session made it.
func sessionOnly(id string) bool { return strings.HasPrefix(id, "demo://resource/session/") }

func everythingSteps(w *wire, prefix string) []step {
	steps := common(w, prefix, map[string]string{
		"echo":                           `{"message":"héllo \u2028 \ud83d\udeaa <b>&amp;"}`,
		"get-sum":                        `{"a":0.1,"b":2}`,
		"get-annotated-message":          `{"messageType":"error","includeImage":true}`,
		"get-structured-content":         `{"location":"New York"}`,
		"get-resource-links":             `{"count":3}`,
		"get-resource-reference":         `{"resourceType":"Text","resourceId":2}`,
		"gzip-file-as-resource":          `{"name":"a.gz","data":"data:text/plain,hello","outputType":"resource"}`,
		"trigger-long-running-operation": `{"duration":1,"steps":4}`,
		"trigger-sampling-request":       `{"prompt":"Is it?","maxTokens":7}`,
		"trigger-url-elicitation":        `{"url":"https://example.com/?a=1&b=2","elicitationId":"e-1"}`,
		"simulate-research-query":        `{"topic":"gates"}`,
		"args-prompt":                    `{"city":"Oslo","state":"Ø"}`,
		"completable-prompt":             `{"department":"Sales","name":"Eve"}`,
		"resource-prompt":                `{"resourceType":"Text","resourceId":"1"}`,
	})
	call := func(tool, arguments string) step {
		return step{"call " + tool + " " + arguments, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, prefix+tool, arguments)}
	}
	return append(
		slices.DeleteFunc(steps, func(s step) bool { return strings.HasPrefix(s.name, "call toggle-") }),
		call("toggle-simulated-logging", `{}`), call("toggle-simulated-logging", `{"again":true}`),
		call("toggle-subscriber-updates", `{}`), call("toggle-subscriber-updates", `{"again":true}`),
		call("get-resource-reference", `{"resourceType":"Blob","resourceId":-1}`),
		step{"read text", "resources/read", `{"uri":"demo://resource/dynamic/text/7"}`},
		step{"read blob", "resources/read", `{"uri":"demo://resource/dynamic/blob/7"}`},
		step{"read nothing", "resources/read", `{"uri":"demo://resource/dynamic/text/none"}`},
		step{"get with too little", "prompts/get", fmt.Sprintf(`{"name":%q}`, prefix+"args-prompt")},
		step{"complete a prompt", "completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"name","value":"E"},"context":{"arguments":{"department":"Sales"}}}`, prefix+"completable-prompt")},
		step{"complete a template", "completion/complete", `{"ref":{"type":"ref/resource","uri":"demo://resource/dynamic/text/{resourceId}"},"argument":{"name":"resourceId","value":"1"}}`},
	)
}

func referenceSteps(w *wire, prefix string) []step {
	steps := common(w, prefix, map[string]string{
		"test_elicitation":                   `{"message":"Who <are> you?"}`,
		"test_sampling":                      `{"prompt":"Is it?"}`,
		"test_x_mcp_header":                  `{"level":12345678901234567890}`,
		"json_schema_2020_12_tool":           `{"name":"Ada","email":"ada@example.com"}`,
		"test_prompt_with_arguments":         `{"arg1":"one","arg2":"<two>"}`,
		"test_prompt_with_embedded_resource": `{"resourceUri":"test://static-text"}`,
	})
	return append(
		slices.DeleteFunc(steps, func(s step) bool {
			return s.name == "call test_reconnection" || // hangs up on purpose, and waits for the client to come back
				strings.HasPrefix(s.name, "call test_trigger_") || // changes lists; see TestChanges
				strings.Contains(s.name, "tampered_state") // see the suite
		}),
		step{"read a template", "resources/read", `{"uri":"test://template/7/data"}`},
		step{"complete a prompt", "completion/complete", fmt.Sprintf(`{"ref":{"type":"ref/prompt","name":%q},"argument":{"name":"arg1","value":"par"}}`, prefix+"test_prompt_with_arguments")},
	)
}

// seen is what a client saw of a server, by step.
type seen map[string]wireAnswer

func look(w *wire, steps []step) seen {
	all := make(seen)
	for _, s := range steps {
		all[s.name] = w.request(s.method, s.params)
	}
	return all
}

// normal is what was seen as text, one line for each thing, without what may
// differ through the gateway.
func (s seen) normal(prefix string) map[string]string {
	out := make(map[string]string)
	for name, a := range s {
		if list, ok := lists()[name]; ok {
			listed(out, name, items(a.Result, list), prefix)
			continue
		}
		var lines []string
		for _, m := range a.Heard {
			if !ofSession(m) {
				lines = append(lines, "heard "+m.Method+" "+plainJSON(withoutToken(m)))
			}
		}
		var asked []string // those of a round have no order
		for _, q := range a.Asked {
			if name != "call get-roots-list" {
				asked = append(asked, "asked "+q.Method+" "+plainJSON(withoutSource(q)))
			}
		}
		lines = append(lines, slices.Sorted(slices.Values(asked))...)
		if a.Error != nil {
			lines = append(lines, fmt.Sprintf("error %d %s %s", a.Error.Code, a.Error.Message, plainJSON(a.Error.Data)))
		} else {
			lines = append(lines, "result "+plainJSON(ofBothEras(a.Result)))
		}
		out[name] = steady(strings.Join(lines, "\n"))
	}
	return out
}

// listed has each definition by its name, without the slug, and leaves out the
// gateway's own, what other connectors offer, and what a session made for
// itself, since the connector's own session may be the one.
func listed(out map[string]string, list string, definitions []json.RawMessage, prefix string) {
	for _, d := range definitions {
		id := nameOf(d)
		if own(id) || sessionOnly(id) {
			continue
		}
		if (list == "tools/list" || list == "prompts/list") && prefix != "" {
			d = bytes.Replace(d, []byte(`"name":"`+prefix), []byte(`"name":"`), 1)
			id = strings.TrimPrefix(id, prefix)
		}
		out[list+" "+id] = plainJSON(d)
	}
}

// plainJSON is the canonical form, in which alone two texts of the same JSON
// may differ.
func plainJSON(raw json.RawMessage) string {
	if raw == nil {
		return ""
	}
	out, err := canonical.JSON(raw)
	if err != nil {
		return fmt.Sprintf("%v: %s", err, raw)
	}
	return string(out)
}

// withoutToken takes the progress token away, which is minted for each hop, and
// the metadata of the newer era.
func withoutToken(m wireMessage) json.RawMessage {
	return without(m.Params, "progressToken", "_meta")
}

// ofSession tells whether a message is about a session, not about the call in
// which it is heard: what the server logs on a timer, and that it asked for the
// roots, which it does once in a session, in whichever call comes first.
func ofSession(m wireMessage) bool {
	return m.Method == "notifications/message" && regexp.MustCompile(`SessionId|Roots updated|"data":"[A-Za-z]+[- ]level[- ]message"`).Match(m.Params)
}

// withoutSource takes away what the gateway adds, so that people know whose
// question it is: the connector's name before the message and in the metadata.
func withoutSource(q wireMessage) json.RawMessage {
	raw := without(q.Params, "_meta")
	if q.Method != "elicitation/create" {
		return raw
	}
	return regexp.MustCompile(`"message":"upstream( fi)? asks: `).ReplaceAll(raw, []byte(`"message":"`))
}

// ofBothEras takes away what results of the newer era must have and those of
// the older have not.
func ofBothEras(result json.RawMessage) json.RawMessage {
	raw := without(result, "resultType", "ttlMs", "cacheScope")
	var r struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(raw, &r) != nil || r.Meta == nil {
		return raw
	}
	delete(r.Meta, "io.modelcontextprotocol/serverInfo")
	if len(r.Meta) == 0 {
		return without(raw, "_meta")
	}
	return with(raw, "_meta", []byte(object(r.Meta)))
}

func without(raw json.RawMessage, names ...string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	for _, name := range names {
		delete(members, name)
	}
	return json.RawMessage(object(members))
}

func with(raw json.RawMessage, name string, value []byte) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return raw
	}
	members[name] = value
	return json.RawMessage(object(members))
}

// steady takes away what a server says anew each time: the time of day, in
// words or in base64, and the ids of its sessions.
func steady(text string) string {
	text = regexp.MustCompile(`"blob":"([A-Za-z0-9+/=]+)"`).ReplaceAllStringFunc(text, func(blob string) string {
		raw, err := base64.StdEncoding.DecodeString(blob[len(`"blob":"`) : len(blob)-1])
		if err != nil || !bytes.Contains(raw, []byte(" created at ")) {
			return blob
		}
		return fmt.Sprintf(`"blob of":%q`, raw)
	})
	text = regexp.MustCompile(`"text":"(sallyport-)?\d+"`).ReplaceAllString(text, `"text":"(token)"`) // which one tool repeats
	text = regexp.MustCompile(`\\"PORT\\": \\"\d+`).ReplaceAllString(text, "(port)")                  // its own
	text = regexp.MustCompile(`\d{1,2}:\d\d:\d\d(.{1,6}[AP]M)?`).ReplaceAllString(text, "(time)")
	return regexp.MustCompile(`for session [0-9a-f-]{36}`).ReplaceAllString(text, "for session (id)")
}

// compare says what differs, step by step.
func compare(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, direct := range want {
		if through, ok := got[name]; !ok {
			t.Errorf("%s: missing through the gateway", name)
		} else if direct != through {
			t.Errorf("%s (-direct +gateway):\n%s", name, cmp.Diff(strings.Split(direct, "\n"), strings.Split(through, "\n")))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: only through the gateway: %.300s", name, got[name])
		}
	}
}
