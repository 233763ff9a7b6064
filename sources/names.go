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
	maxToolName           = 50
	maxPrefixedPromptName = 64
)

// nameRequest is a tool or a prompt that wants a name: the place of its source among
// the others, its source's slug, and its own name there.
type nameRequest struct {
	created time.Time // of the source
	source  string
	slug    string
	name    string
	prompt  bool
}

// names gives every origin the name that agents see, in the order of
// origins. A name depends on nothing but the sources that are older and the
// tools of its own: a new source renames nobody. All are tools, or all prompts.
func names(origins []nameRequest, reserved []string) []string {
	taken := make(map[string]bool, len(origins)+len(reserved))
	for _, name := range reserved {
		taken[strings.ToLower(name)] = true
	}
	order := make([]int, len(origins))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return byPriority(&origins[a], &origins[b]) })
	out := make([]string, len(origins))
	for _, i := range order {
		out[i] = origins[i].unusedName(taken)
		taken[origins[i].conflictKey(out[i])] = true
	}
	return out
}

// byPriority orders those who may choose first: older sources, and in a source
// the tools whose names can stay as they are.
func byPriority(a, b *nameRequest) int {
	return cmp.Or(
		a.created.Compare(b.created),
		strings.Compare(a.source, b.source),
		cmp.Compare(a.changesName(), b.changesName()),
		strings.Compare(a.name, b.name),
	)
}

// changesName tells, as 0 or 1, whether the wanted name differs from what the
// source calls the tool.
func (o *nameRequest) changesName() int {
	if plain := o.preferred(); len(plain) > o.maxLength() || !strings.HasSuffix(plain, o.name) {
		return 1
	}
	return 0
}

// keepsName tells that the name stays as it is, whatever its letters: clients
// show the names of prompts to people, and models never write them.
func (o *nameRequest) keepsName() bool { return o.prompt && o.slug == "" }

// conflictKey is the same for names that may not both be there.
func (o *nameRequest) conflictKey(name string) string {
	if o.prompt {
		return name
	}
	return strings.ToLower(name)
}

func (o *nameRequest) maxLength() int {
	switch {
	case o.keepsName():
		return maxPromptName
	case o.prompt:
		return maxPrefixedPromptName
	}
	return maxToolName
}

// preferred is the wanted name: what agents allow, not yet cut.
func (o *nameRequest) preferred() string {
	if o.keepsName() {
		return o.name
	}
	return o.sanitized()
}

// sanitized is the wanted name of nothing but letters, digits, _ and -.
func (o *nameRequest) sanitized() string {
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

// unusedName returns the plain name, or when it is too long or taken the beginning
// of it with a suffix that is the tool's own. Longer suffixes are for the
// case that somebody took that too, on purpose.
func (o *nameRequest) unusedName(taken map[string]bool) string {
	if name := o.preferred(); len(name) <= o.maxLength() && !taken[o.conflictKey(name)] {
		return name
	}
	name := o.sanitized()
	sum := sha256.Sum256([]byte(o.source + "\x00" + o.name))
	mark := hex.EncodeToString(sum[:])
	for n := 6; ; n += 6 {
		suffixed := name[:min(len(name), min(o.maxLength(), maxPrefixedPromptName)-1-n)] + "_" + mark[:n]
		if n >= 42 || !taken[o.conflictKey(suffixed)] {
			return suffixed
		}
	}
}
