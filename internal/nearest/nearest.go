// Package nearest finds the names that somebody may have meant who wrote one
// that does not exist. It looks at letters only: whoever asks decides which
// names may be told at all.
package nearest

import (
	"cmp"
	"slices"
	"strings"
)

// maxNameLength is the longest name that is looked at, in bytes.
const maxNameLength = 128

// Closest returns the three of the names that are nearest to the wanted one, the
// nearest first. Nearest are those that have it as a whole part or the other way
// round (create_issue, linear_create_issue), then those that the fewest letters
// tell from it. Letters count alike in both cases, and so do -, . and _. The
// order of names decides between equals.
func Closest(wanted string, names []string) []string {
	found := byDistance(wanted, names)
	out := make([]string, 0, 3)
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// Similar returns those of the names that [Three] finds which are so near that they
// may be meant.
func Similar(wanted string, names []string) (near []string) {
	found := byDistance(wanted, names)
	for _, f := range found[:min(3, len(found))] {
		if f.distance <= max(2, len(wanted)/2) {
			near = append(near, f.name)
		}
	}
	return near
}

// Suggestion tells the names that [Three] finds, with a space before it: as a
// question when they are so near that they may be meant. It is empty where there
// are none.
func Suggestion(wanted string, names []string) string {
	if near := Similar(wanted, names); len(near) > 0 {
		return " Did you mean " + strings.Join(near, ", ") + "?"
	}
	if all := Closest(wanted, names); len(all) > 0 {
		return " The nearest are " + strings.Join(all, ", ") + "."
	}
	return ""
}

// candidate is a name and how far it is from the wanted one.
type candidate struct {
	name     string
	distance int
}

func byDistance(wanted string, names []string) []candidate {
	if wanted == "" || len(wanted) > maxNameLength {
		return nil
	}
	plainly, seen := normalize(wanted), make(map[string]bool, len(names))
	found := make([]candidate, 0, len(names))
	for _, n := range names {
		if len(n) <= maxNameLength && !seen[n] {
			seen[n] = true
			found = append(found, candidate{n, nameDistance(plainly, normalize(n))})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	return found
}

// normalize is a name without what writers mistake most.
func normalize(name string) string {
	return strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(name))
}

// nameDistance is how far two plain names are from each other. A whole part is nearer
// than any misspelling but of one letter.
func nameDistance(a, b string) int {
	d := editDistance(a, b)
	if d > 1 && (containsWords(a, b) || containsWords(b, a)) {
		return 1
	}
	return d
}

// containsWords tells that whole is outer with more words around it.
func containsWords(whole, outer string) bool {
	if len(whole) < 3 {
		return false
	}
	return strings.HasPrefix(outer, whole+"_") || strings.HasSuffix(outer, "_"+whole) || strings.Contains(outer, "_"+whole+"_")
}

// editDistance is the number of letters to change between a and b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
