package notify

import (
	"context"

	"sallyport/action"
)

// Test sends a message by a channel now, also where that is disabled, and says
// what was answered. ErrNotFound when there is no such channel.
func (s *Sender) Test(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyTestResult, error) {
	c, err := s.Rows.NotifyChannel(ctx, organization, kind)
	if err != nil {
		return action.NotifyTestResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.Timeout)
	defer stop()
	var a answer
	if kind == action.NotifySlack {
		a, err = s.toSlack(ctx, &c, s.trial(), "")
	} else {
		a, err = s.toWebhook(ctx, &c, s.NewID(), typeTest, struct {
			Text string `json:"text"`
			URL  string `json:"url"`
		}{trialText, s.PublicURL})
	}
	return action.NotifyTestResult{OK: a.ok, Status: a.code, Detail: a.said}, err
}

const trialText = "A test by Sallyport: held calls will be told of here."

func (s *Sender) trial() post {
	p := headed(trialText)
	p.Blocks = append(p.Blocks, link("Open the inbox", s.PublicURL+"/"))
	return p
}
