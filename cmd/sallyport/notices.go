package main

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"sallyport/action"
	"sallyport/dashboard/notify"
	"sallyport/internal/outbound"
)

// noticesKept is how long people see what was told of calls that ended.
const noticesKept = 7 * 24 * time.Hour

// notices tell approvers elsewhere of held calls.
type notices struct {
	*notify.Sender
	sender runSender
}

func (g *gateway) openNotices() error {
	n := &notices{sender: newRunSender(g.guard())}
	var err error
	n.Sender, err = notify.New(notify.Config{
		Rows: g.db, Vault: g.vault, JSON: g.json, Do: n.sender.Do, Slack: slackCalls{g}.Call, Worker: g.instance, PublicURL: g.url, NewID: newID,
		UserAgent: "sallyport/" + version(), Every: cmp.Or(g.options.Intervals.NotifyEvery, time.Second), Now: g.db.Now, Log: g.log,
	})
	g.notices = n
	return err
}

// tellApprovers does so until ctx ends.
func (g *gateway) tellApprovers(ctx context.Context) error {
	defer g.coord.Subscribe(g.notices.Hint)()
	return g.notices.Run(ctx)
}

// slackCalls are methods of Slack's API with the token of an integration.
type slackCalls struct{ *gateway }

// Call implements notify.Slack.
func (s slackCalls) Call(ctx context.Context, organization, integration, method string, body []byte) ([]byte, error) {
	in, err := s.db.Integration(ctx, organization, integration, "")
	if err != nil {
		return nil, err
	}
	if in.Provider != "slack" || in.Status != action.IntegrationActive {
		return nil, action.NewError("integration_unusable")
	}
	conn, err := s.speak(ctx, in)
	if err != nil {
		return nil, err
	}
	resp, err := conn.HTTP.Do(ctx, &outbound.Request{
		Method: http.MethodPost, Path: outbound.Path(method), Body: body,
		Header: http.Header{"Authorization": {"Bearer " + conn.Token}, "Accept": {"application/json"}, "Content-Type": {"application/json; charset=utf-8"}},
	})
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
