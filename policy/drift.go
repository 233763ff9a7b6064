package policy

import "sallyport/action"

// drift is how a tool stands to its review.
type drift int

const (
	unchanged   drift = iota
	textIgnored       // its texts changed, which this connector ignores
	textChanged
	changed
	unreviewed
)

// drift looks whether a connector's tool is what was reviewed. Any other
// action is the gateway's own code, and as reviewed as that.
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

// drifted tells whether what is allowed of the tool was said of another.
func (f drift) drifted() bool { return f >= textChanged }

// withReviewedRisk returns the action with the risk that it had when it was reviewed,
// where it drifted and now claims to be milder: a server cannot talk its way
// out of a denial, or under a ceiling, by taking a hint back.
func (p *Policy) withReviewedRisk(a *action.Action, found drift) *action.Action {
	then, ok := p.risks[a.Key()]
	if !found.drifted() || !ok || then.Level() <= a.Risk.Level() {
		return a
	}
	worse := *a
	worse.Risk = then
	return &worse
}

// applyDrift lets a drifted tool have an approval at most, and none where the
// connector wants a review first.
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

// note says what was found; of a drifted tool, without its end.
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
