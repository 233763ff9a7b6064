package slack_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sallyport/sources/slack"
)

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestParams(t *testing.T) {
	a := slack.Module().Actions[0]
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.Input))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:/", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema:/")
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range schema.Properties {
		if p.Description == "" {
			t.Errorf("nothing says what %s is", name)
		}
	}
	fits := func(params string, want bool) {
		t.Helper()
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(params))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); (err == nil) != want {
			t.Errorf("%.200s: %v", params, err)
		}
	}
	for _, e := range a.Examples {
		fits(string(e.Params), true)
	}
	fits(`{"channel":"C1","text":"`+strings.Repeat("é", 40_000)+`"}`, true)
	fits(`{"channel":"C1","text":"`+strings.Repeat("é", 40_001)+`"}`, false)
	fits(`{"channel":"C1","text":" \n"}`, false)
	fits(`{"channel":"C1"}`, false)
	fits(`{"channel":"","text":"x"}`, false)
	fits(`{"channel":"#a,#b","text":"x"}`, false)
	fits(`{"channel":"@ada","text":"x"}`, false)
	fits(`{"channel":"#お知らせ","text":"x"}`, true)
	fits(`{"channel":"C1","text":"x","thread_ts":"1763700000"}`, false)
	fits(`{"channel":"C1","text":"x","thread_ts":"1763700000.000100","reply_broadcast":true}`, true)
	fits(`{"channel":"C1","text":"x","reply_broadcast":true}`, false)
	fits(`{"channel":"C1","text":"x","blocks":[]}`, false)
	fits(`{"channel":"C1","text":"x","username":"CEO"}`, false)
}

// TestLinksBehindWords finds whatever shows something else than where it leads.
func TestLinksBehindWords(t *testing.T) {
	for text, want := range map[string]bool{
		"<https://evil|x>":                    true,
		"<HTTPS://evil|x>":                    true,
		"<mailto:a@b|x>":                      true,
		"<slack://x|y>":                       true,
		"<tel:1|y>":                           true,
		"<!date^0^see notes^https://evil|x>":  true,
		"<!DATE^0^see notes^https://evil|x>":  true,
		"<!date^0^see notes^https://evil>":    true,
		"<!date^0^{date}|a day>":              false,
		"<!unknown^x|y>":                      true,
		"<@https://evil|x>":                   true,
		"<#https://evil|x>":                   true,
		"<a <https://evil|x>":                 true,
		"<!channel <https://evil|x>":          true,
		"<@U1|ada> <#C2|ops> <!here|here>":    false,
		"<!subteam^S1|@x> <!channel|channel>": false,
		"<https://a.example> | <mailto:a@b>":  false,
		"a <b |":                              false,
		"|>":                                  false,
		"<":                                   false,
	} {
		params, _ := json.Marshal(map[string]string{"channel": "C1", "text": text})
		if got := strings.Contains(slack.Module().Actions[0].Summarize(params), "with a link behind other words"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestSummary(t *testing.T) {
	far := strings.Repeat("x", 200)
	for _, tt := range []struct{ params, want string }{
		{`{"channel":"#ops","text":"Hi\n\u202eyou"}`, `Send to #ops: "Hi\n\u202eyou"`},
		{
			`{"channel":"C1","text":"x","thread_ts":"1763700000.000100","reply_broadcast":true}`,
			`Reply in the thread 1763700000.000100 of C1, shown in the channel too: "x"`,
		},
		{
			`{"channel":"C1","text":"` + far + `<!channel> <!here|here> <!channel> <!everyone>"}`,
			`Send to C1, NOTIFYING @channel and @here and @everyone: "` + strings.Repeat("x", 99) + `…"`,
		},
		{
			`{"channel":"C1","text":"<@U1> <@U2|ada> <!subteam^S1> <#C2> <!date^1^x|y>"}`,
			`Send to C1, NOTIFYING user groups (1) and people (2): "<@U1> <@U2|ada> <!subteam^S1> <#C2> <!date^1^x|y>"`,
		},
		{
			`{"channel":"C1","text":"<https://evil.example|https://good.example>"}`,
			`Send to C1, with a link behind other words: "<https://evil.example|https://good.example>"`,
		},
		{
			`{"channel":"C1","text":"<@W1> <!SUBTEAM^S1|@x> <!HERE|h>"}`,
			`Send to C1, NOTIFYING @here and user groups (1) and people (1): "<@W1> <!SUBTEAM^S1|@x> <!HERE|h>"`,
		},
		{`{"channel":"C1","text":"&lt;!channel&gt; <https://a.example>"}`, `Send to C1: "&lt;!channel&gt; <https://a.example>"`},
	} {
		if got := slack.Module().Actions[0].Summarize(json.RawMessage(tt.params)); got != tt.want {
			t.Errorf("\n got %s\nwant %s", got, tt.want)
		}
	}
}
