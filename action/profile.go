package action

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Profile is how the modes of a connector's tools follow from what the server
// declares about them.
type Profile string

// The profiles. Without one, tools have the default mode of their risk.
const (
	ProfileAsk        Profile = "ask"         // reads run; everything else needs approval, even destructive tools
	ProfileStrict     Profile = "strict"      // the default modes: destructive tools are denied
	ProfileReadOnly   Profile = "read-only"   // reads run; everything else is denied
	ProfileTrustHints Profile = "trust-hints" // as ask, and tools that are declared as not destructive run
)

// Valid reports whether p is one of the profiles.
func (p Profile) Valid() bool {
	return slices.Contains([]Profile{ProfileAsk, ProfileStrict, ProfileReadOnly, ProfileTrustHints}, p)
}

// DefaultMode returns the mode of a tool of this risk if no rule decides. An
// unknown risk counts as danger.
func (r Risk) DefaultMode() Mode {
	switch r {
	case RiskRead:
		return ModeAllow
	case RiskWrite:
		return ModeRequireApproval
	case RiskDanger:
	}
	return ModeDeny
}

// strictness orders modes, the mildest first.
func (m Mode) strictness() int {
	return slices.Index([]Mode{ModeAllow, ModeRequireApproval, ModeDeny}, m)
}

// StricterThan reports whether m lets fewer calls run than other.
func (m Mode) StricterThan(other Mode) bool { return m.strictness() > other.strictness() }

// ModeChange sets the modes of a connector's tools, by a profile or to one mode.
type ModeChange struct {
	Organization string
	Connector    string
	Profile      Profile // or Mode
	Mode         Mode
	// Preset has the modes that a preset proposes, by tool or pattern. The
	// profiles ask and trust-hints prefer them to hints.
	Preset map[string]Mode
	// Tools are names or patterns with *; nil: all tools. Each must match.
	Tools      []string
	OnlyDenied bool // only tools that are denied now
	By         string
}

// All reports whether the change is for all tools.
func (c *ModeChange) All() bool { return len(c.Tools) == 0 && !c.OnlyDenied }

const maxToolPatterns = 200

// Check validates the change.
func (c *ModeChange) Check() error {
	switch {
	case (c.Profile == "") == (c.Mode == ""):
		return invalidField("/profile", "Set either profile or mode.")
	case c.Profile != "" && !c.Profile.Valid():
		return invalid("/profile", "A profile is ask, strict, read-only or trust-hints.")
	case c.Mode != "" && !c.Mode.Valid():
		return invalid("/mode", "A mode is allow, deny or require_approval.")
	case len(c.Tools) > maxToolPatterns:
		return invalid("/tools", fmt.Sprintf("A change can name at most %d tools or patterns.", maxToolPatterns))
	}
	for i, pattern := range c.Tools {
		if pattern == "" || len(pattern) > maxActionName || !isOneLine(pattern, maxActionName) {
			return invalid(fmt.Sprintf("/tools/%d", i), "Use the name of a tool, or a pattern such as API-*.")
		}
	}
	return nil
}

// ModeOf returns the mode that the change sets for a tool of the given risk.
func (c *ModeChange) ModeOf(tool string, risk Risk, definition json.RawMessage) Mode {
	switch c.Profile {
	case ProfileStrict:
		return risk.DefaultMode()
	case ProfileReadOnly:
		if risk == RiskRead {
			return ModeAllow
		}
		return ModeDeny
	case ProfileAsk, ProfileTrustHints:
		if mode, ok := presetMode(c.Preset, tool); ok {
			return mode
		}
		if risk == RiskRead || c.Profile == ProfileTrustHints && risk == RiskWrite && declaredHarmless(definition) {
			return ModeAllow
		}
		return ModeRequireApproval
	}
	return c.Mode
}

// presetMode returns the mode of the tool's name, or of the longest pattern that
// matches it.
func presetMode(modes map[string]Mode, tool string) (Mode, bool) {
	best := ""
	for pattern := range modes {
		if MatchTool(pattern, tool) && (pattern == tool || best != tool && cmp.Or(cmp.Compare(len(pattern), len(best)), strings.Compare(pattern, best)) > 0) {
			best = pattern
		}
	}
	return modes[best], best != ""
}

// MatchTool reports whether a name matches a pattern, in which * stands for any
// text.
func MatchTool(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(name, first) || !strings.HasSuffix(name[len(first):], last) {
		return false
	}
	rest := name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			return false
		}
		rest = after
	}
	return true
}

// declaredHarmless reports whether a tool declares destructiveHint: false.
func declaredHarmless(definition json.RawMessage) bool {
	var tool struct {
		Annotations struct {
			Destructive *bool `json:"destructiveHint"`
		} `json:"annotations"`
	}
	return json.Unmarshal(definition, &tool) == nil && tool.Annotations.Destructive != nil && !*tool.Annotations.Destructive
}
