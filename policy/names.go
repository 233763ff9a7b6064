package policy

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/action"
)

// providerName is what people call the source of the action.
func providerName(a *action.Action) string { return printable(cmp.Or(a.SourceName, a.Source)) }

func groupName(name string) string { return "group " + quoted(name) }

// quoted sets a name of somebody's choice apart from the sentence that it is
// in.
func quoted(name string) string {
	return "'" + strings.ReplaceAll(printable(name), "'", `\'`) + "'"
}

// printable spells out what cannot be seen of a name, such as characters that
// control a terminal or the direction of the text after them.
func printable(name string) string {
	if utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	spelled := strconv.Quote(name)
	return spelled[1 : len(spelled)-1]
}
