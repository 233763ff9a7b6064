package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"sallyport/internal/jsonlex"
)

// The members that mark a cut document, and the one that wraps a value that is not
// an object.
const (
	truncatedMember = `{"_truncated":true`
	sizeMember      = `,"_original_size":`
	valueMember     = `,"value":`
)

// minSizedLimit is the limit from which a cut document has its original size.
const minSizedLimit = 200

// maxPruneDepth limits the nesting of what is kept of a cut value.
const maxPruneDepth = 64

// Prune returns raw as valid JSON of at most limit bytes. A document that fits
// is returned unchanged; one that fits without its white space is returned
// compacted. Otherwise the object gets the members "_truncated": true and
// "_original_size", the bytes of raw (other values are wrapped in an object as
// "value"), and as much is kept as fits: small values whole, long strings
// shortened, arrays from their beginning. A document that was pruned before keeps
// its original size. Redact first: a cut secret is not recognized.
//
// Below 200 bytes there is no original size. Below 19 bytes not even the member fits, and Prune returns the shortest value
// that does.
func (JSON) Prune(raw json.RawMessage, limit int) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if err := jsonlex.Document(raw); err != nil {
		raw = unreadable(len(raw))
	}
	if len(raw) <= limit {
		return raw
	}
	p := pruner{doc: compact(raw), head: truncatedMember}
	if len(p.doc) <= limit {
		return p.doc
	}
	if limit >= minSizedLimit {
		p.head += sizeMember + strconv.Itoa(originalSize(p.doc, len(raw)))
	}
	p.indexLong(0, 0)
	return p.document(limit)
}

// originalSize returns the size that a document had before it was pruned the first
// time, which is now.
func originalSize(doc []byte, now int) int {
	var earlier struct {
		Truncated json.RawMessage `json:"_truncated"`
		Size      json.RawMessage `json:"_original_size"`
	}
	if json.Unmarshal(doc, &earlier) != nil || string(earlier.Truncated) != "true" {
		return now
	}
	size, err := strconv.Atoi(string(earlier.Size))
	if err != nil {
		return now
	}
	return max(size, now)
}

// compact returns valid JSON without white space between its tokens.
func compact(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := jsonlex.Space(raw, 0); i < len(raw); i = jsonlex.Space(raw, i) {
		end := i + 1
		switch raw[i] {
		case '{', '}', '[', ']', ',', ':':
		default:
			end = jsonlex.Skip(raw, i)
		}
		out = append(out, raw[i:end]...)
		i = end
	}
	return out
}

// pruner prunes one compact document.
type pruner struct {
	doc  []byte
	head string // opening of the object, with the members that mark it
	// longValues holds the spans of long values in order of their start, so
	// that nested ones are not scanned once for each level.
	longValues []span
	out        []byte
}

// longValueSize is the size from which a value is indexed.
const longValueSize = 1024

// indexLong scans the value at doc[i] and indexes the long ones, down to
// maxPruneDepth.
func (p *pruner) indexLong(i, depth int) int {
	at := len(p.longValues)
	p.longValues = append(p.longValues, span{start: i})
	var end int
	if c := p.doc[i]; c != '{' && c != '[' || depth == maxPruneDepth {
		end = jsonlex.Skip(p.doc, i)
	} else {
		for end = i + 1; p.doc[end] != '}' && p.doc[end] != ']'; {
			switch p.doc[end] {
			case ',', ':':
				end++
			default:
				end = p.indexLong(end, depth+1)
			}
		}
		end++
	}
	if end-i < longValueSize {
		p.longValues = p.longValues[:at] // nothing in it is long either
	} else {
		p.longValues[at].end = end
	}
	return end
}

// end returns the end of the value at doc[i].
func (p *pruner) end(i int) int {
	if at, ok := slices.BinarySearchFunc(p.longValues, i, func(s span, i int) int { return s.start - i }); ok {
		return p.longValues[at].end
	}
	return jsonlex.Skip(p.doc, i)
}

// document writes the document into limit bytes.
func (p *pruner) document(limit int) []byte {
	switch {
	case limit < 1:
		return nil
	case limit == 1:
		return []byte("0")
	case limit < len(truncatedMember)+1:
		return []byte("{}")
	}
	p.out = make([]byte, 0, limit)
	whole := span{0, len(p.doc)}
	if p.doc[0] == '{' {
		p.container(whole, limit, 0, p.head)
		return p.out
	}
	if room := limit - len(p.head) - len(valueMember) - 1; room >= 2 {
		p.out = append(append(p.out, p.head...), valueMember...)
		if p.value(whole, room, 1) {
			return append(p.out, '}')
		}
	}
	return append(append(p.out[:0], p.head...), '}')
}

// value writes the value into room bytes, cut if necessary, or reports that it
// does not fit.
func (p *pruner) value(s span, room, depth int) bool {
	switch c := p.doc[s.start]; {
	case s.end-s.start <= room:
		p.out = append(p.out, p.doc[s.start:s.end]...)
		return true
	case c == '"':
		return p.truncatedString(s, room)
	case (c == '{' || c == '[') && room >= 2:
		p.container(s, room, depth, "")
		return true
	}
	return false
}

// ellipsis ends a cut string.
const ellipsis = "…"

// truncatedString writes the beginning of a string.
func (p *pruner) truncatedString(s span, room int) bool {
	room -= 2 + len(ellipsis)
	if room < 1 {
		return false
	}
	content, end := p.doc[s.start+1:s.end-1], 0
	for end < len(content) { // without splitting a character or an escape
		next := end + charLength(content[end:])
		if next > room {
			break
		}
		end = next
	}
	p.out = append(p.out, '"')
	p.out = append(p.out, content[:end]...)
	p.out = append(p.out, ellipsis...)
	p.out = append(p.out, '"')
	return true
}

// charLength returns the length of the character or escape at the beginning.
func charLength(content []byte) int {
	switch {
	case content[0] != '\\':
		_, n := utf8.DecodeRune(content)
		return n
	case content[1] != 'u':
		return 2
	case len(content) >= 12 && bytes.EqualFold(content[2:3], []byte("d")) && content[6] == '\\' && content[7] == 'u':
		return 12 // usually a surrogate pair; keeping two escapes together is harmless
	}
	return 6
}

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
		if !top || !p.marks(p.doc[c.name.start:c.name.end]) {
			all = append(all, c)
		}
	}
	return all
}

// marks reports whether the head has a member of this name, which is quoted.
func (p *pruner) marks(name []byte) bool {
	return string(name) == `"_truncated"` || string(name) == `"_original_size"` && len(p.head) > len(truncatedMember)
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
