package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type notifyCommand struct {
	Webhook notifyWebhook                                     `cmd:"" help:"Send pending calls, requests, and runs that need attention to a URL; prints the signing secret once."`
	Slack   notifySlack                                       `cmd:"" help:"Send pending calls, requests, and runs that need attention to Slack, by an incoming webhook (URL on standard input) or an integration."`
	Show    request[api.None, api.List[api.NotifyView]]       `cmd:"" help:"Show the notification channels."`
	Log     request[api.None, api.List[api.NotificationView]] `cmd:"" help:"List recent notifications."`
	Test    notifyTest                                        `cmd:"" help:"Send a test notification and show the response."`
	Rotate  notifyRotate                                      `cmd:"" help:"Replace the signing secret of the webhook."`
	Remove  request[api.ByNotifyKind, api.None]               `cmd:"" help:"Remove a notification channel."`
}

// channelFlags are the flags of every notification channel.
type channelFlags struct {
	clientFlags
	api.NotifyChange
	Off bool `xor:"state" help:"Turn the channel off."`
	On  bool `xor:"state" help:"Turn the channel on."`
}

// change returns the request for a channel of this kind.
func (t *channelFlags) change(kind action.NotifyKind) api.ByNotifyKindWith[api.NotifyChange] {
	if t.On || t.Off {
		t.Enabled = &t.On
	}
	return api.ByNotifyKindWith[api.NotifyChange]{ByNotifyKind: api.ByNotifyKind{Kind: kind}, Body: t.NotifyChange}
}

// putNotify returns [api.PutNotify] for one kind of channel.
func putNotify(kind action.NotifyKind) api.Operation {
	op := api.PutNotify.Operation
	op.Path = strings.Replace(op.Path, "{kind}", string(kind), 1)
	return op
}

type notifyWebhook struct {
	channelFlags
	Target      string `arg:"" optional:"" name:"url" help:"URL, https or http on this machine (default: unchanged)."`
	SecretStdin bool   `help:"Read the secret from standard input instead of generating one."`
}

func (*notifyWebhook) route() api.Operation { return putNotify(action.NotifyWebhook) }

func (c *notifyWebhook) Run(ctx context.Context, std *command.Streams) (err error) {
	c.NotifyChange.URL = c.Target
	if c.SecretStdin {
		if c.Secret, err = readSecret(std, "notify webhook URL --secret-stdin"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.clientFlags, std, api.PutNotify, c.change(action.NotifyWebhook), func(w io.Writer, channel *api.MintedNotify) {
		showNotify(w, &channel.NotifyView)
		printLine(w, "test it with: "+c.hint("notify", "test", "webhook"))
		printSecretOnce(w, std, "signing secret: "+channel.Secret, channel.Secret)
	})
}

type notifySlack struct {
	channelFlags
	URLStdin    bool   `name:"url-stdin" help:"Read the incoming webhook URL from standard input."`
	Integration string `placeholder:"ID" help:"Post with this Slack integration instead of an incoming webhook."`
	Channel     string `placeholder:"CHANNEL" help:"Slack channel ID; needs --integration."`
}

func (*notifySlack) route() api.Operation { return putNotify(action.NotifySlack) }

func (c *notifySlack) Run(ctx context.Context, std *command.Streams) (err error) {
	switch {
	case c.Integration != "", c.Channel != "":
		c.NotifyChange.Integration, c.NotifyChange.Channel = c.Integration, c.Channel
	case c.URLStdin, c.Wants == "" && !c.On && !c.Off:
		if c.NotifyChange.URL, err = readSecret(std, "notify slack"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.clientFlags, std, api.PutNotify, c.change(action.NotifySlack), func(w io.Writer, channel *api.MintedNotify) {
		showNotify(w, &channel.NotifyView)
		printLine(w, "test it with: "+c.hint("notify", "test", "slack"))
	})
}

func showNotify(w io.Writer, v *api.NotifyView) {
	to := v.URL
	switch {
	case v.Channel != "":
		to = "channel " + v.Channel
	case to == "":
		to = "an incoming webhook"
	}
	state := "receives"
	if !v.Enabled {
		state = "is off; it would receive"
	}
	printLine(w, fmt.Sprintf("%s %s %s calls at %s", v.Kind, state, v.Wants, to))
	if v.Failures > 0 {
		printLine(w, fmt.Sprintf("it failed %s in a row, last %s: %s", command.Plural(v.Failures, "time"), relativeTime(v.LastErrorAt), v.LastError))
	}
}

// channelRef is the argument that names a channel.
type channelRef struct {
	clientFlags
	api.ByNotifyKind
}

type notifyTest struct{ channelRef }

func (c *notifyTest) Run(ctx context.Context, std *command.Streams) error {
	ok := false
	err := perform(ctx, &c.clientFlags, std, api.TestNotify, c.ByNotifyKind, func(w io.Writer, a *api.NotifyTest) {
		ok = a.OK
		printLine(w, a.Detail)
	})
	if err == nil && !ok && !c.JSON {
		return errors.New("the test notification was not delivered; see the response above")
	}
	return err
}

type notifyRotate struct {
	clientFlags
	rotationFlags
}

func (c *notifyRotate) Run(ctx context.Context, std *command.Streams) error {
	r, err := c.rotation(std, "notify rotate")
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.RotateNotifySecret, api.Body[*api.Rotation]{Body: r}, c.showRotated(std, "the notification webhook"))
}

func showChannels(_ context.Context, w io.Writer, c *clientFlags, all *api.List[api.NotifyView]) {
	if len(all.Items) == 0 {
		printLine(w, "no notification channels are configured; add one: "+c.hint("notify", "webhook", "URL"))
	}
	for i := range all.Items {
		showNotify(w, &all.Items[i])
	}
}

func notificationRow(n *api.NotificationView) []string {
	return []string{cmp.Or(n.Invocation, n.EnvRequest, n.GrantRequest, n.Run), string(n.Kind), string(n.Event), string(n.Status), command.Plural(n.Failures, "failure"), relativeTime(&n.CreatedAt)}
}
