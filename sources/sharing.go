package sources

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// statefulTool recognizes tools that work on state of their server. Words count in
// names and titles only: descriptions mention browsers and shells in passing.
type statefulTool struct {
	state string
	name  *regexp.Regexp // of the words of name and title
	text  *regexp.Regexp // and of the description, too; nil: any
}

func statefulTools() []statefulTool {
	words := regexp.MustCompile
	return []statefulTool{
		{"a browser", words(`\bbrowser\b`), nil},
		{"a terminal", words(`\b(terminal|tty|repl)\b`), nil},
		{"a shell", words(`\bshell\b`), nil},
		{"a working folder", words(`\b(set|change|switch)\b.*\b(directory|folder|cwd)\b`), nil},
		{"a notebook", words(`\b(notebook|jupyter)\b`), nil},
		{"a database connection", words(`\b(dis)?connect(ion)?\b`), words(`\b(database|mongodb|postgres(ql)?|mysql|mariadb|sqlite|redis|sql server)\b`)},
	}
}

// sharedState says why agents should not share a session with a server of these
// tools. Empty: nothing suggests it. That a server issues sessions suggests nothing:
// most do, and few keep state in them.
func sharedState(tools []*tool) string {
	separate := regexp.MustCompile(`[^a-z0-9]+`)
	camel := regexp.MustCompile(`([a-z0-9])([A-Z])`)
	split := func(text string) string {
		return separate.ReplaceAllString(strings.ToLower(camel.ReplaceAllString(text, "$1 $2")), " ")
	}
	for _, kind := range statefulTools() {
		var names []string
		for _, t := range tools {
			words := split(t.name + " " + t.title)
			if kind.name.MatchString(words) && (kind.text == nil || kind.text.MatchString(words+" "+split(t.description))) {
				names = append(names, t.name)
			}
		}
		if len(names) > 0 {
			slices.Sort(names)
			return fmt.Sprintf("Its tools work with %s (%s), and all agents share one session with the server: each sees and changes what another opened. Give each agent a session of its own.",
				kind.state, joinEach(names, func(name string) string { return name }))
		}
	}
	return ""
}
