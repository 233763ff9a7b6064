package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"sallyport/action"
	"sallyport/api"
)

type notifyCommand struct {
	Webhook notifyWebhook `cmd:"" help:"Have held calls told to a URL; prints the secret that signs them, once."`
	Slack   notifySlack   `cmd:"" help:"Have held calls told in Slack, by an incoming webhook (its URL on standard input) or an integration."`
	Show    notifyShow    `cmd:"" help:"Show where approvers hear of held calls."`
	Log     notifyLog     `cmd:"" help:"List what they were told."`
	Test    notifyTest    `cmd:"" help:"Send a test message now, and say what was answered."`
	Rotate  notifyRotate  `cmd:"" help:"Replace the secret that signs webhooks."`
	Remove  notifyRemove  `cmd:"" help:"Tell nobody this way any more."`
}

// telling is what every channel has.
type telling struct {
	remote
	Wants string `enum:"all,danger,unattended," default:"" help:"Which held calls: all (default), danger, or those of unattended sessions. Left out, it stays as it is."`
	Off   bool   `xor:"state" help:"Set it up, and tell of nothing yet; or no more."`
	On    bool   `xor:"state" help:"Tell again. A new one tells at once; left out, one that is there stays as it is."`
}

// change is what was said of a channel of the kind.
func (t *telling) change(kind action.NotifyKind) (in api.ByNotifyKindWith[api.NotifyChange]) {
	in.Kind, in.Body.Wants = kind, action.NotifyWants(t.Wants)
	if t.On || t.Off {
		in.Body.Enabled = &t.On
	}
	return in
}

type notifyWebhook struct {
	telling
	Target      string `arg:"" optional:"" name:"url" help:"https, or http on this machine. Left out, it stays as it is."`
	SecretStdin bool   `help:"Read the secret from standard input instead of making one."`
}

func (c *notifyWebhook) Run(ctx context.Context, std *stdio) (err error) {
	in := c.change(action.NotifyWebhook)
	in.Body.URL = c.Target
	if c.SecretStdin {
		if in.Body.Secret, err = readSecret(std, "notify webhook URL --secret-stdin"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.remote, std, api.PutNotify, in, func(w io.Writer, now *api.MintedNotify) {
		showNotify(w, &now.NotifyView)
		said("try it with: " + c.hint("notify", "test", "webhook"))(w)
		sayOnce(w, std, "the secret is "+now.Secret, now.Secret)
	})
}

type notifySlack struct {
	telling
	URLStdin    bool   `name:"url-stdin" help:"Read the URL of an incoming webhook from standard input, also when other flags are given."`
	Integration string `placeholder:"ID" help:"Post by the token of this integration with Slack, instead of an incoming webhook."`
	Channel     string `placeholder:"CHANNEL" help:"With --integration: the id of the channel."`
}

func (c *notifySlack) Run(ctx context.Context, std *stdio) (err error) {
	in := c.change(action.NotifySlack)
	switch {
	case c.Integration != "", c.Channel != "":
		in.Body.Integration, in.Body.Channel = c.Integration, c.Channel
	case c.URLStdin, c.Wants == "" && !c.On && !c.Off:
		if in.Body.URL, err = readSecret(std, "notify slack"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.remote, std, api.PutNotify, in, func(w io.Writer, now *api.MintedNotify) {
		showNotify(w, &now.NotifyView)
		said("try it with: " + c.hint("notify", "test", "slack"))(w)
	})
}

func showNotify(w io.Writer, v *api.NotifyView) {
	to := v.URL
	switch {
	case v.Channel != "":
		to = "the channel " + v.Channel
	case to == "":
		to = "an incoming webhook"
	}
	state := "tells of"
	if !v.Enabled {
		state = "is off; it would tell of"
	}
	said(fmt.Sprintf("%s %s %s calls, to %s", v.Kind, state, v.Wants, to))(w)
	if v.Failures > 0 {
		said(fmt.Sprintf("it failed %s in a row, last %s: %s", number(v.Failures, "time"), since(v.LastErrorAt), v.LastError))(w)
	}
}

type notifyShow struct{ remote }

func (c *notifyShow) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListNotify, api.None{}, func(w io.Writer, all *api.List[api.NotifyView]) {
		if len(all.Items) == 0 {
			said("nobody hears of held calls elsewhere; set it up with: " + c.hint("notify", "webhook", "URL"))(w)
		}
		for i := range all.Items {
			showNotify(w, &all.Items[i])
		}
	})
}

type notifyLog struct{ remote }

func (c *notifyLog) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListNotifications, api.None{}, func(w io.Writer, all *api.List[api.NotificationView]) {
		rows := make([][]string, 0, len(all.Items))
		for _, n := range all.Items {
			rows = append(rows, []string{cmp.Or(n.Invocation, n.EnvRequest), string(n.Kind), string(n.Event), string(n.Status), number(n.Failures, "failure"), since(&n.CreatedAt)})
		}
		table(w, []string{"OF", "BY", "TELLS", "STATUS", "FAILED", "MADE"}, rows)
	})
}

// theNotify names a channel.
type theNotify struct {
	remote
	Kind string `arg:"" enum:"webhook,slack" help:"webhook or slack."`
}

type notifyTest struct{ theNotify }

func (c *notifyTest) Run(ctx context.Context, std *stdio) error {
	ok := false
	err := perform(ctx, &c.remote, std, api.TestNotify, api.ByNotifyKind{Kind: action.NotifyKind(c.Kind)}, func(w io.Writer, a *api.NotifyTest) {
		ok = a.OK
		said(a.Detail)(w)
	})
	if err == nil && !ok && !c.JSON {
		return errors.New("the test did not arrive")
	}
	return err
}

type notifyRotate struct {
	remote
	replacement
}

func (c *notifyRotate) Run(ctx context.Context, std *stdio) error {
	r, err := c.rotation(std, "notify rotate")
	if err != nil {
		return err
	}
	return perform(ctx, &c.remote, std, api.RotateNotifySecret, api.Body[*api.Rotation]{Body: r}, c.replaced(std, "the webhook for held calls"))
}

type notifyRemove struct{ theNotify }

func (c *notifyRemove) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.DeleteNotify, api.ByNotifyKind{Kind: action.NotifyKind(c.Kind)}, done("nobody hears of held calls by "+c.Kind+" any more"))
}
