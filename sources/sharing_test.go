package sources_test

import (
	"strings"
	"testing"

	"sallyport/action"
)

// TestSharedState proposes a session for each agent where tools name
// state, and nowhere else.
func TestSharedState(t *testing.T) {
	tool := func(name, title, says string) string {
		return `{"name":"` + name + `","title":"` + title + `","description":"` + says + `","inputSchema":{"type":"object"}}`
	}
	for _, test := range []struct {
		name   string
		tools  []string
		change func(*action.Connector)
		want   []string // texts in the proposal; nil: there is none
	}{
		{"a browser", []string{tool("browser_navigate", "", ""), tool("browser_click", "", ""), tool("look", "", "")}, nil, []string{"a browser (browser_click, browser_navigate)", "all agents share"}},
		{"many tools", []string{tool("openBrowser", "", ""), tool("b", "Browser", ""), tool("browser-c", "", ""), tool("browser.d", "", ""), tool("browser_e", "", ""), tool("browser_f", "", "")}, nil, []string{"and 1 more"}},
		{"a terminal", []string{tool("terminal_send", "", "")}, nil, []string{"a terminal"}},
		{"a shell", []string{tool("x", "Shell command", "")}, nil, []string{"a shell"}},
		{"a notebook", []string{tool("run", "Run a Jupyter cell", "")}, nil, []string{"a notebook"}},
		{"a database connection", []string{tool("switch-connection", "", "Connects to another MongoDB database.")}, nil, []string{"a database connection (switch-connection)"}},
		{"words in passing", []string{tool("create_issue", "Create", "Returns a URL to open in the browser, or from a shell."), tool("connect", "", "Connects two issues.")}, nil, nil},
		{"parts of words", []string{tool("shellfish", "", ""), tool("browsers_of_books", "", "")}, nil, nil},
		{"a working folder", []string{tool("set_working_directory", "", "")}, nil, []string{"a working folder (set_working_directory)"}},
		{"nothing of it", []string{tool("look", "", ""), tool("list_directory", "", "")}, nil, nil},
		{"a session for each agent", []string{tool("browser_navigate", "", "")}, func(c *action.Connector) { c.PerAgent = true }, nil},
		{"a server that may ask", []string{tool("browser_navigate", "", "")}, func(c *action.Connector) { c.MayAsk = action.AskKinds() }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.add("a", "x", 1, test.tools...)
				if test.change != nil {
					w.change("a", test.change)
				}
				states, err := w.States(t.Context(), "o")
				if err != nil || len(states) != 1 || states[0].Tools != len(test.tools) {
					t.Fatal(states, err)
				}
				got := states[0].SharedState
				if (got == "") != (test.want == nil) {
					t.Errorf("the proposal is %q", got)
				}
				for _, part := range test.want {
					if !strings.Contains(got, part) {
						t.Errorf("the proposal %q does not contain %q", got, part)
					}
				}
			})
		})
	}
}
