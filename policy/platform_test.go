package policy_test

import (
	"testing"
	"time"

	"sallyport/action"
	"sallyport/policy"
)

// Whose sessions have the gateway's own tools, and what policy may still say.
func TestOwnTools(t *testing.T) {
	setup := &action.Action{Source: action.Platform, Name: "save_env_files", Risk: action.RiskWrite, Platform: &action.PlatformTool{SessionTypes: []action.SessionType{action.TypeSetup}}}
	complete := &action.Action{Source: action.Platform, Name: "automation_complete", Risk: action.RiskWrite, Platform: &action.PlatformTool{SessionTypes: []action.SessionType{action.TypeAutomation}, RunsOnly: true}}
	everybody := &action.Action{Source: action.Platform, Name: "verify", Risk: action.RiskWrite, Platform: &action.PlatformTool{}}
	ofRun := action.Session{ID: "s", Type: action.TypeAutomation, Automation: "a", Event: "e", CreatedBy: action.AutomationCreator("a")}
	byHand := ofRun
	byHand.CreatedBy = "alice"
	held := action.Override{Key: action.Key{Source: action.Platform, Action: "*"}, Mode: action.ModeRequireApproval}
	allowed := action.Override{Key: action.Key{Source: "*", Action: "*"}, Mode: action.ModeAllow}
	for _, tt := range []struct {
		name     string
		session  action.Session
		act      *action.Action
		override *action.Override
		mode     action.Mode
		source   action.Layer
	}{
		{"a setup tool in a setup session", action.Session{ID: "s", Type: action.TypeSetup}, setup, nil, action.ModeAllow, action.LayerInferred},
		{"in one of a group, which has no capability here", action.Session{ID: "s", Type: action.TypeSetup, Group: "developer"}, setup, nil, action.ModeAllow, action.LayerInferred},
		{"in a coding session", action.Session{ID: "s", Type: action.TypeCoding}, setup, nil, action.ModeDeny, action.LayerCeiling},
		{"which no mode changes", action.Session{ID: "s", Type: action.TypeCoding}, setup, &allowed, action.ModeDeny, action.LayerCeiling},
		{"a completion in the session of a run", ofRun, complete, nil, action.ModeAllow, action.LayerInferred},
		{"allowed, though an event started it", ofRun, complete, &allowed, action.ModeAllow, action.LayerOrganization},
		{"in one that a person made look like it", byHand, complete, nil, action.ModeDeny, action.LayerCeiling},
		{"in an automation's session without a run", action.Session{ID: "s", Type: action.TypeAutomation}, complete, nil, action.ModeDeny, action.LayerCeiling},
		{"a tool for everybody", action.Session{ID: "s", Type: action.TypeCoding}, everybody, nil, action.ModeAllow, action.LayerInferred},
		{"that the organization holds", action.Session{ID: "s", Type: action.TypeCoding}, everybody, &held, action.ModeRequireApproval, action.LayerOrganization},
		{"asked for no session", action.Session{Group: "developer"}, setup, nil, action.ModeAllow, action.LayerInferred},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules := action.Rules{Version: 1}
			if tt.override != nil {
				rules.Overrides = []action.Override{*tt.override}
			}
			d := policy.New(rules).Decide(time.Now(), &tt.session, tt.act)
			if d.Mode != tt.mode || d.Source != tt.source {
				t.Errorf("decided %s by %s: %v", d.Mode, d.Source, d.Steps)
			}
		})
	}
}

// Sessions that see other tools have other views.
func TestViewsOfTypes(t *testing.T) {
	p := policy.New(action.Rules{Version: 1})
	ofRun := action.Session{Type: action.TypeAutomation, Automation: "a", Event: "e", CreatedBy: action.AutomationCreator("a")}
	byHand := ofRun
	byHand.CreatedBy = "alice"
	seen := map[string]bool{}
	for _, s := range []action.Session{{Type: action.TypeCoding}, {Type: action.TypeSetup}, {Type: action.TypeAutomation}, ofRun, byHand} {
		seen[p.View(time.Now(), &s)] = true
	}
	if len(seen) != 5 {
		t.Errorf("%d views of 5 that differ: %v", len(seen), seen)
	}
}
