package policy

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
)

// providerName returns the name of the action's source for people.
func providerName(a *action.Action) string { return printable(cmp.Or(a.SourceName, a.Source)) }

func groupName(name string) string { return "group " + quoted(name) }

// quoted quotes a name that a person chose, to set it apart from the
// sentence.
func quoted(name string) string {
	return "'" + strings.ReplaceAll(printable(name), "'", `\'`) + "'"
}

// printable escapes characters that cannot be seen, such as those that
// control a terminal or the direction of text.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	spelled := strconv.Quote(name)
	return spelled[1 : len(spelled)-1]
}
