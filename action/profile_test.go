package action_test

import (
	"encoding/json"
	"testing"

	"sallyport/action"
)

func TestModesOfProfiles(t *testing.T) {
	const harmless, destructive = `{"annotations":{"destructiveHint":false}}`, `{"annotations":{"destructiveHint":true}}`
	const allow, ask, deny = action.ModeAllow, action.ModeRequireApproval, action.ModeDeny
	tools := []struct {
		name, definition string
		risk             action.Risk
	}{
		{"read", `{"annotations":{"readOnlyHint":true}}`, action.RiskRead},
		{"write", `{}`, action.RiskWrite},
		{"harmless", harmless, action.RiskWrite},
		{"risky", harmless, action.RiskDanger}, // an admin's risk counts more than a hint
		{"destroy", destructive, action.RiskDanger},
		{"search_all", destructive, action.RiskDanger},
		{"search_private", `{}`, action.RiskRead},
		{"unknown", `not JSON`, ""},
	}
	preset := map[string]action.Mode{"search_*": allow, "search_private": ask, "sea*": deny}
	for profile, want := range map[action.Profile][]action.Mode{
		action.ProfileAsk:        {allow, ask, ask, ask, ask, allow, ask, ask},
		action.ProfileStrict:     {allow, ask, ask, deny, deny, deny, allow, deny},
		action.ProfileReadOnly:   {allow, deny, deny, deny, deny, deny, allow, deny},
		action.ProfileTrustHints: {allow, ask, allow, ask, ask, allow, ask, ask},
	} {
		c := action.ModeChange{Profile: profile, Preset: preset}
		for i, tool := range tools {
			if got := c.ModeOf(tool.name, tool.risk, json.RawMessage(tool.definition)); got != want[i] {
				t.Errorf("%s under %s: %s, want %s", tool.name, profile, got, want[i])
			}
		}
	}
}

func TestMatchTool(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"API-*", "API-post-page", true},
		{"API-*", "API-", true},
		{"API-*", "api-x", false},
		{"*", "anything", true},
		{"*-page", "API-post-page", true},
		{"a*b*c", "a1b2c", true},
		{"a*b*c", "acb", false},
		{"ab*ba", "aba", false},
		{"get", "get", true},
		{"get", "get_x", false},
		{"a**c", "ac", true},
	} {
		if got := action.MatchTool(test.pattern, test.name); got != test.want {
			t.Errorf("%q matches %q: %t", test.pattern, test.name, got)
		}
	}
}
