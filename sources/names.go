package sources

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// How long the names are that agents see. Of tools: some clients add a prefix
// of their own and allow 64 in all.
const (
	maxToolName    = 50
	longPromptName = 64
)

// origin is a tool or a prompt that wants a name: the place of its source among
// the others, its source's slug, and its own name there.
type origin struct {
	created time.Time // of the source
	source  string
	slug    string
	name    string
	prompt  bool
}

// names gives every origin the name that agents see, in the order of
// origins. A name depends on nothing but the sources that are older and the
// tools of its own: a new source renames nobody. All are tools, or all prompts.
func names(origins []origin, reserved []string) []string {
	taken := make(map[string]bool, len(origins)+len(reserved))
	for _, name := range reserved {
		taken[strings.ToLower(name)] = true
	}
	order := make([]int, len(origins))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return seniority(&origins[a], &origins[b]) })
	out := make([]string, len(origins))
	for _, i := range order {
		out[i] = origins[i].free(taken)
		taken[origins[i].mark(out[i])] = true
	}
	return out
}

// seniority orders those who may choose first: older sources, and in a source
// the tools whose names can stay as they are.
func seniority(a, b *origin) int {
	return cmp.Or(
		a.created.Compare(b.created),
		strings.Compare(a.source, b.source),
		cmp.Compare(a.changes(), b.changes()),
		strings.Compare(a.name, b.name),
	)
}

// changes tells, as 0 or 1, whether the wanted name differs from what the
// source calls the tool.
func (o *origin) changes() int {
	if plain := o.plain(); len(plain) > o.longest() || !strings.HasSuffix(plain, o.name) {
		return 1
	}
	return 0
}

// verbatim tells that the name stays as it is, whatever its letters: clients
// show the names of prompts to people, and models never write them.
func (o *origin) verbatim() bool { return o.prompt && o.slug == "" }

// mark is the same for names that may not both be there.
func (o *origin) mark(name string) string {
	if o.prompt {
		return name
	}
	return strings.ToLower(name)
}

func (o *origin) longest() int {
	switch {
	case o.verbatim():
		return maxPromptName
	case o.prompt:
		return longPromptName
	}
	return maxToolName
}

// plain is the wanted name: what agents allow, not yet cut.
func (o *origin) plain() string {
	if o.verbatim() {
		return o.name
	}
	return o.clean()
}

// clean is the wanted name of nothing but letters, digits, _ and -.
func (o *origin) clean() string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, o.name)
	if o.slug == "" {
		return name
	}
	return o.slug + "_" + name
}

// free returns the plain name, or when it is too long or taken the beginning
// of it with a suffix that is the tool's own. Longer suffixes are for the
// case that somebody took that too, on purpose.
func (o *origin) free(taken map[string]bool) string {
	if name := o.plain(); len(name) <= o.longest() && !taken[o.mark(name)] {
		return name
	}
	name := o.clean()
	sum := sha256.Sum256([]byte(o.source + "\x00" + o.name))
	mark := hex.EncodeToString(sum[:])
	for n := 6; ; n += 6 {
		suffixed := name[:min(len(name), min(o.longest(), longPromptName)-1-n)] + "_" + mark[:n]
		if n >= 42 || !taken[o.mark(suffixed)] {
			return suffixed
		}
	}
}
