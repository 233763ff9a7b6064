package policy

import (
	"sallyport/action"
)

// drift is the difference between a tool and its reviewed version.
type drift int

const (
	unchanged   drift = iota
	textIgnored       // its texts changed, which this connector ignores
	textChanged
	changed
	unreviewed
)

// drift compares a connector's tool with its reviewed version. Other actions
// are the gateway's own code and count as unchanged.
func (p *Policy) drift(a *action.Action) drift {
	if a.Review == "" {
		return unchanged
	}
	reviewed, ok := p.reviewed[a.Key()]
	switch {
	case !ok:
		return unreviewed
	case reviewed.Behaviour != a.Hashes.Behaviour:
		return changed
	case reviewed.Text == a.Hashes.Text:
		return unchanged
	case a.Review.CountsText():
		return textChanged
	}
	return textIgnored
}

// drifted reports whether rules for the tool were made for another version of
// it.
func (f drift) drifted() bool { return f >= textChanged }

// withReviewedRisk returns the action with its reviewed risk if the tool
// drifted and now declares a milder one. Otherwise a server could escape a
// denial or a ceiling by withdrawing a hint.
func (p *Policy) withReviewedRisk(a *action.Action, found drift) *action.Action {
	then, ok := p.risks[a.Key()]
	if !found.drifted() || !ok || then.Level() <= a.Risk.Level() {
		return a
	}
	worse := *a
	worse.Risk = then
	return &worse
}

// applyDrift requires approval for calls of a drifted tool, or denies them if
// the connector requires a review first.
func applyDrift(d *action.Decision, a *action.Action, found drift) {
	step := action.Step{Layer: action.LayerDrift, Note: found.note()}
	if found.drifted() {
		step.Alert = true
		switch {
		case d.Mode == action.ModeDeny:
			step.Note += ", and stays denied."
		case a.Review == action.ReviewRequired:
			step.Mode = action.ModeDeny
			step.Note += ", and its connector requires a review before any call. An admin must review it."
		case d.Mode == action.ModeAllow:
			step.Mode = action.ModeRequireApproval
			step.Note += ", so a person must approve each call until an admin has reviewed it."
		default:
			step.Note += ", so earlier grants do not cover it. Check the tool before you approve."
		}
	}
	if step.Mode != "" {
		d.Mode, d.Source = step.Mode, step.Layer
	}
	d.Steps = append(d.Steps, step)
}

// note describes the drift; for a drifted tool it is the beginning of a
// sentence.
func (f drift) note() string {
	switch f {
	case unchanged:
		return "The tool is unchanged since its review or first listing."
	case textIgnored:
		return "The tool behaves as reviewed; its texts changed, which this connector ignores."
	case textChanged:
		return "The tool's texts changed since the review"
	case changed:
		return "The tool changed since the review"
	}
	return "The tool has not been reviewed"
}
