package notify

import (
	"context"

	"sallyport/action"
)

// Test sends a test message through a channel now, even if the channel is
// disabled, and returns the endpoint's response. ErrNotFound without such a
// channel.
func (s *Sender) Test(ctx context.Context, organization string, kind action.NotifyKind) (action.NotifyTestResult, error) {
	c, err := s.Rows.NotifyChannel(ctx, organization, kind)
	if err != nil {
		return action.NotifyTestResult{}, err
	}
	ctx, stop := context.WithTimeout(ctx, s.Timeout)
	defer stop()
	var a response
	if kind == action.NotifySlack {
		a, err = s.toSlack(ctx, &c, s.testPost(), "")
	} else {
		a, err = s.toWebhook(ctx, &c, s.NewID(), typeTest, struct {
			Text string `json:"text"`
			URL  string `json:"url"`
		}{testText, s.PublicURL})
	}
	return action.NotifyTestResult{OK: a.ok, Status: a.status, Detail: a.detail}, err
}

const testText = "A test by Sallyport: held calls will be told of here."

func (s *Sender) testPost() post {
	p := titledPost(testText)
	p.Blocks = append(p.Blocks, linkBlock("Open the inbox", s.PublicURL+"/"))
	return p
}
