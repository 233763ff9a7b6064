package redact

import (
	"cmp"
	"math"
	"slices"
)

// child is an element of an array or a member of an object.
type child struct {
	order       int
	name, value span // an element has no name
	overhead    int  // bytes for the name, its colon and a comma
}

func (c child) size() int { return c.value.end - c.value.start }

// The room that a long value should have to be worth keeping, and the least
// with which one is kept nevertheless.
const (
	minShare   = 32
	leastShare = 8
)

// list writes an array or object into room bytes, at least two, or more with
// a head: what the object begins with, its bracket and a first member.
func (p *pruner) list(s span, room, depth int, head string) {
	opening, closing := p.doc[s.start:s.start+1], p.doc[s.end-1]
	if head != "" {
		opening = []byte(head)
	} else {
		room++ // the first child has no comma
	}
	room -= len(opening) + 1
	p.out = append(p.out, opening...)
	if depth < maxPruned {
		p.children(p.choose(s, room, head != ""), room, depth, head == "")
	}
	p.out = append(p.out, closing)
}

// choose returns the children to keep, in their order: of an array those at
// its beginning, of an object the small ones first.
func (p *pruner) choose(s span, room int, top bool) []child {
	share := max(room/16, minShare)
	need := func(c child) int { return c.overhead + min(c.size(), share) }
	all := p.gather(s, room, top)
	if p.doc[s.start] == '{' {
		slices.SortStableFunc(all, func(a, b child) int { return cmp.Compare(need(a), need(b)) })
	}
	kept, left := 0, room
	for kept < len(all) && need(all[kept]) <= left {
		left -= need(all[kept])
		kept++
	}
	if kept < len(all) && all[kept].overhead+leastShare <= left {
		kept++ // with less than its share
	}
	all = all[:kept]
	slices.SortFunc(all, func(a, b child) int { return cmp.Compare(a.order, b.order) })
	return all
}

// gather returns the first children, as many as could have room if each were
// as short as can be.
func (p *pruner) gather(s span, room int, top bool) (all []child) {
	object := p.doc[s.start] == '{'
	for i := s.start + 1; i < s.end-1 && len(all) <= room/2; i++ { // over the comma
		c := child{order: len(all), overhead: 1}
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

// children writes the kept children. Those that are short stay whole, the
// others share what is left.
func (p *pruner) children(kept []child, room, depth int, bare bool) {
	share, spare, start := level(kept, room), 0, len(p.out)
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

// level returns the length up to which children stay whole, and which longer
// ones are given.
func level(kept []child, room int) int {
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
