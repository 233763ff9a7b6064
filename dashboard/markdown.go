package dashboard

import "regexp"

// mark is a piece of the little Markdown that modules write about themselves.
type mark struct {
	Kind string // bold, code, link; empty: text
	Text string
	Link string
}

// markdown splits what a module of this program says; nothing foreign.
func markdown(text string) (marks []mark) {
	syntax := regexp.MustCompile("\\*\\*([^*]+)\\*\\*|`([^`]+)`|\\[([^\\]]+)\\]\\((https://[^)\\s]+)\\)")
	from := 0
	for _, at := range syntax.FindAllStringSubmatchIndex(text, -1) {
		if at[0] > from {
			marks = append(marks, mark{Text: text[from:at[0]]})
		}
		switch {
		case at[2] >= 0:
			marks = append(marks, mark{Kind: "bold", Text: text[at[2]:at[3]]})
		case at[4] >= 0:
			marks = append(marks, mark{Kind: "code", Text: text[at[4]:at[5]]})
		default:
			marks = append(marks, mark{Kind: "link", Text: text[at[6]:at[7]], Link: text[at[8]:at[9]]})
		}
		from = at[1]
	}
	if from < len(text) {
		marks = append(marks, mark{Text: text[from:]})
	}
	return marks
}
