package linear

import (
	"embed"
	"strings"
)

// documents are all that is ever sent to Linear. Only variables vary: what an
// agent says never becomes part of a query.
//
//go:embed documents/*.graphql
var documents embed.FS

// fields is the fragment that every document spells an issue with.
const fields = "IssueFields"

// document returns the operation of that name, with the fragment that it uses.
func document(operation string) string {
	text := file(operation)
	if strings.Contains(text, "..."+fields) {
		text += file("issue")
	}
	return text
}

func file(name string) string {
	text, err := documents.ReadFile("documents/" + name + ".graphql")
	if err != nil {
		panic(err) // the name is a constant of this package
	}
	return string(text)
}
