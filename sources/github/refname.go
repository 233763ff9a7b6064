package github

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/sources"
)

// branchName returns a branch's short name of what an agent calls it, as git
// would take it, or a [*sources.Refusal] that names the param. What passes can
// neither be read as another ref nor leave the place of branches.
func branchName(param, name string) (string, error) {
	short := strings.TrimPrefix(name, "refs/heads/")
	if why := misnamed(short); why != "" {
		return "", &sources.Refusal{Code: "invalid_branch", Message: "The param /" + param + " is no name of a branch: " + why + "."}
	}
	return short, nil
}

// misnamed says what git, or we, do not take about a name; empty: nothing.
func misnamed(name string) string {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "":
		return "it is empty"
	case len(name) > 240:
		return "it is longer than 240 bytes"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, hidden):
		return "it has a character that nobody sees, or a space"
	case strings.ContainsAny(name, `~^:?*[\`), strings.Contains(name, ".."), strings.Contains(name, "@{"):
		return `~ ^ : ? * [ \ and .. and @{ are not allowed in it`
	case strings.HasPrefix(name, "-"), strings.HasSuffix(name, "."), name == "@", name == "HEAD":
		return "it may not begin with -, end with a dot, or be @ or HEAD"
	case strings.EqualFold(first, "refs"), strings.EqualFold(first, "heads"):
		return "give it without refs/ or heads/"
	case hex(name):
		return "it looks like the id of a commit"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(strings.ToLower(part), ".lock") {
			return "none of its parts between slashes may be empty, begin with a dot or end with .lock"
		}
	}
	return ""
}

// hidden reports whether a person who approves a name could miss the character.
func hidden(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

func hex(name string) bool {
	return len(name) == 40 && strings.Trim(strings.ToLower(name), "0123456789abcdef") == ""
}
