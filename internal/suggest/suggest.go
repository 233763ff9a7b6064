// Package suggest suggests existing names for one that does not exist, by edit
// distance. The caller decides which names may be disclosed.
package suggest

import (
	"cmp"
	"slices"
	"strings"
)

// maxNameLength is the maximum length of a name to compare, in bytes.
const maxNameLength = 128

// Closest returns the three closest names, closest first: first those that
// contain the wanted one as whole words or vice versa (create_issue,
// linear_create_issue), then those with the smallest edit distance. Case is
// ignored, and -, . and _ are equivalent. Ties keep the order of names.
func Closest(wanted string, names []string) []string {
	found := byDistance(wanted, names)
	out := make([]string, 0, 3)
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// Similar returns those names of [Closest] that are close enough to be meant.
func Similar(wanted string, names []string) (near []string) {
	found := byDistance(wanted, names)
	for _, f := range found[:min(3, len(found))] {
		if f.distance <= max(2, len(wanted)/2) {
			near = append(near, f.name)
		}
	}
	return near
}

// Sentence returns a sentence with the names of [Closest], after a space: a
// question if they are close enough to be meant. It is empty without names.
func Sentence(wanted string, names []string) string {
	if near := Similar(wanted, names); len(near) > 0 {
		return " Did you mean " + strings.Join(near, ", ") + "?"
	}
	switch all := Closest(wanted, names); len(all) {
	case 0:
		return ""
	case 1:
		return " The nearest is " + all[0] + "."
	default:
		return " The nearest are " + strings.Join(all, ", ") + "."
	}
}

// candidate is a name and its distance from the wanted one.
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

// normalize removes case and unifies separators.
func normalize(name string) string {
	return strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToLower(name))
}

// nameDistance returns the distance of two normalized names. A match of whole
// words is closer than any misspelling of more than one letter.
func nameDistance(a, b string) int {
	d := editDistance(a, b)
	if d > 1 && (containsWords(a, b) || containsWords(b, a)) {
		return 1
	}
	return d
}

// containsWords reports whether outer is whole with more words around it.
func containsWords(whole, outer string) bool {
	if len(whole) < 3 {
		return false
	}
	return strings.HasPrefix(outer, whole+"_") || strings.HasSuffix(outer, "_"+whole) || strings.Contains(outer, "_"+whole+"_")
}

// editDistance returns the Levenshtein distance.
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
