package redact

import (
	"cmp"
	"math"
	"slices"
)

// entry is an element of an array or a member of an object.
type entry struct {
	order       int
	name, value span // an element has none
	overhead    int  // bytes for the name, its colon and a comma
}

func (c entry) size() int { return c.value.end - c.value.start }

// The size that a long value should get to be worth keeping, and the minimum if
// less is left.
const (
	fairShare       = 32
	minPartialShare = 8
)

// container writes an array or object into room bytes, at least two, or more
// with a head: the object's bracket and a first member.
func (p *pruner) container(s span, room, depth int, head string) {
	opening, closing := p.doc[s.start:s.start+1], p.doc[s.end-1]
	if head != "" {
		opening = []byte(head)
	} else {
		room++ // the first entry has no comma
	}
	room -= len(opening) + 1
	p.out = append(p.out, opening...)
	if depth < maxPruneDepth {
		p.writeEntries(p.selectEntries(s, room, head != ""), room, depth, head == "")
	}
	p.out = append(p.out, closing)
}

// selectEntries returns the entries to keep, in document order: the first ones
// of an array, the smallest ones of an object.
func (p *pruner) selectEntries(s span, room int, top bool) []entry {
	share := max(room/16, fairShare)
	need := func(c entry) int { return c.overhead + min(c.size(), share) }
	all := p.collectEntries(s, room, top)
	if p.doc[s.start] == '{' {
		slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(need(a), need(b)) })
	}
	kept, left := 0, room
	for kept < len(all) && need(all[kept]) <= left {
		left -= need(all[kept])
		kept++
	}
	if kept < len(all) && all[kept].overhead+minPartialShare <= left {
		kept++ // partially
	}
	all = all[:kept]
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.order, b.order) })
	return all
}

// collectEntries returns the first entries, as many as could fit at their
// minimum size.
func (p *pruner) collectEntries(s span, room int, top bool) (all []entry) {
	object := p.doc[s.start] == '{'
	for i := s.start + 1; i < s.end-1 && len(all) <= room/2; i++ { // skip the comma
		c := entry{order: len(all), overhead: 1}
		if object {
			c.name = span{i, p.end(i)}
			c.overhead += c.name.end - i + 1
			i = c.name.end + 1
		}
		c.value = span{i, p.end(i)}
		i = c.value.end
		if !top || string(p.doc[c.name.start:c.name.end]) != `"_truncated"` {
			all = append(all, c)
		}
	}
	return all
}

// writeEntries writes the kept entries. Short ones stay whole; the others share
// the rest.
func (p *pruner) writeEntries(kept []entry, room, depth int, bare bool) {
	share, spare, start := waterLevel(kept, room), 0, len(p.out)
	for _, c := range kept {
		before := len(p.out)
		if !bare || before > start {
			p.out = append(p.out, ',')
		}
		if c.name.end > 0 {
			p.out = append(append(p.out, p.doc[c.name.start:c.name.end]...), ':')
		}
		allowed := c.size()
		if allowed > share {
			allowed = share + spare
			spare = 0
		}
		at := len(p.out)
		if p.value(c.value, allowed, depth+1) {
			spare += allowed - (len(p.out) - at)
		} else {
			p.out = p.out[:before]
			spare += allowed + c.overhead
		}
	}
}

// waterLevel returns the size up to which entries stay whole, and to which
// longer ones are cut.
func waterLevel(kept []entry, room int) int {
	sizes := make([]int, len(kept))
	for i, c := range kept {
		sizes[i] = c.size()
		room -= c.overhead
	}
	slices.Sort(sizes)
	for i, size := range sizes {
		share := room / (len(sizes) - i)
		if size > share {
			return max(share, 0)
		}
		room -= size
	}
	return math.MaxInt
}
