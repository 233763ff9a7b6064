package sources

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// Maximum length of the names that agents see. Tools: some clients add a prefix
// of their own and allow 64 characters in total.
const (
	maxToolName           = 50
	maxPrefixedPromptName = 64
)

// nameRequest is a tool or a prompt that needs a name.
type nameRequest struct {
	created time.Time // of the source
	source  string
	slug    string
	name    string // at the source
	prompt  bool
}

// names assigns to each request the name that agents see, in the order of the
// requests. A name depends only on older sources and on the other tools of the
// same source, so that a new source renames nothing. All requests are for
// tools, or all for prompts.
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

// byPriority orders requests: older sources first, and within a source the
// tools that keep their names.
func byPriority(a, b *nameRequest) int {
	return cmp.Or(
		a.created.Compare(b.created),
		strings.Compare(a.source, b.source),
		cmp.Compare(a.changesName(), b.changesName()),
		strings.Compare(a.name, b.name),
	)
}

// changesName is 1 if the preferred name differs from the name at the source,
// otherwise 0.
func (o *nameRequest) changesName() int {
	if plain := o.preferred(); len(plain) > o.maxLength() || !strings.HasSuffix(plain, o.name) {
		return 1
	}
	return 0
}

// keepsName reports whether the name stays unchanged, whatever its characters:
// clients show prompt names to people, and models never write them.
func (o *nameRequest) keepsName() bool { return o.prompt && o.slug == "" }

// conflictKey is equal for names that conflict.
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

// preferred returns the name with only valid characters, before it is
// truncated.
func (o *nameRequest) preferred() string {
	if o.keepsName() {
		return o.name
	}
	return o.sanitized()
}

// sanitized returns the prefixed name with only letters, digits, _ and -.
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

// unusedName returns the preferred name. If that is too long or taken, it
// returns a prefix of it with a hash of source and name, and with a longer hash
// if somebody chose the short form on purpose.
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
