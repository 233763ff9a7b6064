// Package rank finds the texts that best match a query, by BM25 over the words
// of their fields. It supports English plurals only, and uses neither a disk
// nor a network. The same texts and query return the same results in the same
// order on every machine.
package rank

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode"
)

// Limits. Longer texts and queries are truncated.
const (
	maxWordLength = 64       // characters
	maxFieldSize  = 32 << 10 // bytes
	maxTextWords  = 2_000    // of a text
	maxTerms      = 32       // of a query
)

// The BM25 constants k1 and b, and the handling of prefixes.
const (
	saturation          = 1.2
	lengthNormalization = 0.75
	// prefixFactor is the weight of a prefix match relative to a full match.
	prefixFactor = 0.5
	// minPrefixLength is the minimum length of a prefix.
	minPrefixLength = 3
)

// Field is a part of a text, with the weight of its words.
type Field struct {
	Text   string
	Weight float64
}

// Index is an immutable set of texts. It is safe for concurrent use.
type Index struct {
	names         []string // of the texts; they break ties
	lengths       []float64
	averageLength float64
	terms         []string // sorted
	postings      [][]posting
	truncated     int
}

// posting is the weight of a term in a text.
type posting struct {
	text   int
	weight float64
}

// New builds an index of texts. names[i] is the name of texts[i] and breaks
// ties.
func New(names []string, texts [][]Field) *Index {
	x := &Index{names: names, lengths: make([]float64, len(texts))}
	all := map[string][]posting{}
	for i, fields := range texts {
		weights := map[string]float64{}
		left, cut := maxTextWords, false
		for _, f := range fields {
			found, more := tokenize(f.Text, left)
			for _, w := range found {
				weights[w] += f.Weight
				x.lengths[i] += f.Weight
			}
			left, cut = left-len(found), cut || more
		}
		if cut {
			x.truncated++
		}
		for w, weight := range weights {
			all[w] = append(all[w], posting{i, weight})
		}
		x.averageLength += x.lengths[i] / float64(len(texts))
	}
	for term := range all {
		x.terms = append(x.terms, term)
	}
	slices.Sort(x.terms)
	for _, term := range x.terms {
		x.postings = append(x.postings, all[term])
	}
	return x
}

// Truncated returns the number of texts that exceed the size limits.
func (x *Index) Truncated() int { return x.truncated }

// Search returns the indexes of the matching texts, best first, and their total
// number. A query without words matches all texts, sorted by name. A text need
// not contain every word; texts with more of them, or rarer ones, rank higher.
func (x *Index) Search(query string, limit int) (best []int, total int) {
	terms, _ := tokenize(query, maxTerms)
	scores := make([]float64, len(x.names))
	slices.Sort(terms) // floating-point sums must not depend on the order of the words
	for _, term := range slices.Compact(terms) {
		x.addScores(scores, term)
	}
	for i, score := range scores {
		if score > 0 || len(terms) == 0 {
			best = append(best, i)
		}
	}
	slices.SortFunc(best, func(a, b int) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), strings.Compare(x.names[a], x.names[b]), cmp.Compare(a, b))
	})
	return best[:min(limit, len(best))], len(best)
}

// addScores adds the score of a term to each text that contains it, or words
// with it as a prefix.
func (x *Index) addScores(scores []float64, term string) {
	termScores := map[int]float64{}
	for i := sort.SearchStrings(x.terms, term); i < len(x.terms) && strings.HasPrefix(x.terms[i], term); i++ {
		share := prefixFactor
		switch {
		case x.terms[i] == term:
			share = 1
		case len(term) < minPrefixLength:
			continue
		}
		rarity := math.Log(1 + (float64(len(x.names)-len(x.postings[i]))+0.5)/(float64(len(x.postings[i]))+0.5))
		for _, p := range x.postings[i] {
			length := 1 - lengthNormalization + lengthNormalization*x.lengths[p.text]/x.averageLength
			score := share * rarity * p.weight * (saturation + 1) / (p.weight + saturation*length)
			termScores[p.text] = max(termScores[p.text], score)
		}
	}
	for text, score := range termScores {
		scores[text] += score
	}
}

// tokenize splits a text into terms: runs of letters or digits in lower case,
// with camelCase split and plurals reduced to singulars. more reports that the
// text was truncated.
func tokenize(text string, most int) (out []string, more bool) {
	if more = len(text) > maxFieldSize; more {
		text = text[:maxFieldSize]
	}
	var word []rune
	end := func() {
		switch {
		case len(word) == 0:
		case len(out) < most:
			out = append(out, stem(strings.ToLower(string(word))))
		default:
			more = true
		}
		word = word[:0]
	}
	var before rune
	for _, r := range text {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
		case len(word) > 0 && (unicode.IsUpper(r) && unicode.IsLower(before) || unicode.IsDigit(r) != unicode.IsDigit(before)):
			end()
			word = append(word, r)
		case len(word) < maxWordLength:
			word = append(word, r)
		}
		before = r
		if more && len(out) == most {
			return out, true
		}
	}
	end()
	return out, more
}

// stem removes the plural ending of an English word. It need not be correct,
// only consistent.
func stem(word string) string {
	switch {
	case len(word) < 4:
		return word
	case strings.HasSuffix(word, "ies"):
		return word[:len(word)-3] + "y"
	case strings.HasSuffix(word, "sses"), strings.HasSuffix(word, "xes"), strings.HasSuffix(word, "ches"), strings.HasSuffix(word, "shes"):
		return word[:len(word)-2]
	case strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") && !strings.HasSuffix(word, "us") && !strings.HasSuffix(word, "is"):
		return word[:len(word)-1]
	}
	return word
}
