package github

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"sallyport/sources"
)

// branchName returns the short name of a valid branch, or a [*sources.Refusal]
// that names the param. A valid name cannot refer to another kind of ref.
func branchName(param, name string) (string, error) {
	short := strings.TrimPrefix(name, "refs/heads/")
	if why := invalidReason(short); why != "" {
		return "", &sources.Refusal{Code: "invalid_branch", Message: "The param /" + param + " is no name of a branch: " + why + "."}
	}
	return short, nil
}

// invalidReason returns why a name is not valid, or "".
func invalidReason(name string) string {
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "":
		return "it is empty"
	case len(name) > 240:
		return "it is longer than 240 bytes"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, isInvisible):
		return "it has a character that nobody sees, or a space"
	case strings.ContainsAny(name, `~^:?*[\`), strings.Contains(name, ".."), strings.Contains(name, "@{"):
		return `~ ^ : ? * [ \ and .. and @{ are not allowed in it`
	case strings.HasPrefix(name, "-"), strings.HasSuffix(name, "."), name == "@", name == "HEAD":
		return "it may not begin with -, end with a dot, or be @ or HEAD"
	case strings.EqualFold(first, "refs"), strings.EqualFold(first, "heads"):
		return "give it without refs/ or heads/"
	case isCommitID(name):
		return "it looks like the id of a commit"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(strings.ToLower(part), ".lock") {
			return "none of its parts between slashes may be empty, begin with a dot or end with .lock"
		}
	}
	return ""
}

// isInvisible reports whether an approver could overlook the character.
func isInvisible(r rune) bool {
	return !unicode.IsGraphic(r) || unicode.IsSpace(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || unicode.Is(unicode.Variation_Selector, r)
}

func isCommitID(name string) bool {
	return len(name) == 40 && strings.Trim(strings.ToLower(name), "0123456789abcdef") == ""
}
