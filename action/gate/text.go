package gate

import (
	"encoding/json"
	"fmt"

	"sallyport/action"
)

// summary describes in one line what the call would do.
func (g *Gate) summary(act *action.Action, params, redacted json.RawMessage) string {
	if act.Summarize != nil {
		if text := act.Summarize(params); text != "" {
			return clipped(g.JSON.RedactText(text, nil), g.KeepSummary)
		}
	}
	return g.JSON.Summary(redacted, g.KeepSummary)
}

// clipped cuts text to at most limit bytes, between two runes.
func clipped(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := 0
	for i := range text {
		if i > limit-len("…") {
			break
		}
		end = i
	}
	return text[:end] + "…"
}

// clip redacts and bounds a line of foreign text.
func (g *Gate) clip(text string, secrets []string) string {
	text = g.JSON.RedactText(text, secrets)
	if r := []rune(text); len(r) > 500 {
		text = string(r[:500]) + "…"
	}
	return text
}

func problemText(problem json.RawMessage) string {
	var p struct {
		Code    json.Number `json:"code"`
		Message string      `json:"message"`
	}
	if json.Unmarshal(problem, &p) != nil {
		return "the source answered with an error"
	}
	return fmt.Sprintf("%s (%s)", p.Message, p.Code)
}

func toolText(body json.RawMessage) string {
	var r struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(body, &r) == nil {
		for _, c := range r.Content {
			if c.Text != "" {
				return c.Text
			}
		}
	}
	return "the tool reported an error"
}
