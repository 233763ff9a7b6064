package linear

import (
	"embed"
	"strings"
)

// documents are all the queries that are sent to Linear. Agent input is only
// ever passed as variables, never as part of a query.
//
//go:embed documents/*.graphql
var documents embed.FS

// issueFragment is the fragment with the fields of an issue.
const issueFragment = "IssueFields"

// documentOf returns the operation of that name and the fragment it uses.
func documentOf(operation string) string {
	text := readDocument(operation)
	if strings.Contains(text, "..."+issueFragment) {
		text += readDocument("issue")
	}
	return text
}

func readDocument(name string) string {
	text, err := documents.ReadFile("documents/" + name + ".graphql")
	if err != nil {
		panic(err) // the name is a constant of this package
	}
	return string(text)
}
