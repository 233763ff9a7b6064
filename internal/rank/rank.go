// Package rank finds the texts that fit a query best, by BM25 over the words of
// their fields. It knows no language but English plurals, keeps nothing on disk
// and asks nobody. The same texts and the same query give the same answer, in
// the same order, on every machine.
package rank

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
)

// Bounds of what is looked at. More of a text or a query is left out.
const (
	maxWordLength = 64       // characters
	maxFieldSize  = 32 << 10 // bytes
	maxTextWords  = 2_000    // of a text
	maxTerms      = 32       // of a query
)

// The usual constants of BM25: how soon more of the same word counts no more,
// and how much a long text pays for its length.
const (
	saturation          = 1.2
	lengthNormalization = 0.75
	// prefixFactor is what the beginning of a word counts for, against all of it.
	prefixFactor = 0.5
	// minPrefixLength of a word that is looked for.
	minPrefixLength = 3
)

// Field is a part of a text, and how much its words count.
type Field struct {
	Text   string
	Weight float64
}

// Index is a set of texts. It does not change after it was made.
type Index struct {
	names         []string // of the texts, for ties
	lengths       []float64
	averageLength float64
	terms         []string // sorted
	postings      [][]posting
	truncated     int
}

// posting is how much a term weighs in a text.
type posting struct {
	text   int
	weight float64
}

// New makes an index of texts: the i-th has the i-th name, by which equals are
// ordered.
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

// Truncated is how many texts are too long to be looked at whole.
func (x *Index) Truncated() int { return x.truncated }

// Search returns the places of the texts that fit, the best first, and how many
// there are. A query without words fits all of them, by their names. A text need
// not have every word of the query; one that has more of them, or rarer ones,
// comes first.
func (x *Index) Search(query string, limit int) (best []int, total int) {
	terms, _ := tokenize(query, maxTerms)
	scores := make([]float64, len(x.names))
	slices.Sort(terms) // so that sums are the same whatever the order of the words
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

// addScores adds what a term is worth to each text that has it, or has words that
// begin so.
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
