package dashboard

import (
	"sallyport/action"
	"sallyport/api"
)

// settingsData is what the page of settings shows.
type settingsData struct {
	Decides bool
	Webhook *api.NotifyView // nil: nobody set it up
	Slack   *api.NotifyView
	Told    []api.NotificationView
	Slacks  []action.Integration // that can post to Slack
	Names   map[string]string
	Public  string
	MCP     string
	Version string
}

func (p *pageRequest) settingsPage() error {
	d := settingsData{Decides: p.decides(), Names: p.loadNames(), Public: p.PublicURL, MCP: p.MCPURL, Version: p.Version}
	channels := load(p, p.notifyViews, p.org)
	for i, c := range channels {
		if c.Kind == action.NotifyWebhook {
			d.Webhook = &channels[i]
		} else {
			d.Slack = &channels[i]
		}
	}
	if d.Decides {
		d.Told = load2(p, p.notifications, p.org, 20)
		for _, in := range load2(p, p.Sources.ListIntegrations, p.org, p.me.viewer()) {
			if in.Provider == "slack" && in.User == "" && in.Visibility == action.VisibleOrganization {
				d.Slacks = append(d.Slacks, in)
			}
		}
	}
	return p.show("settings", "settings", "Settings", d)
}

// wantsWords says which held calls a channel tells of.
func wantsWords(w action.NotifyWants) string {
	switch w {
	case action.WantsDanger:
		return "Dangerous calls only"
	case action.WantsUnattended:
		return "Calls of unattended sessions only"
	case action.WantsAll:
	}
	return "All pending approvals"
}

// toldWords says what became of a notification.
func toldWords(n api.NotificationView) string {
	switch {
	case n.Status == action.NotifyPending && n.Failures > 0:
		return "retrying"
	case n.Status == action.NotifyPending:
		return "queued"
	case n.Status == action.NotifyVoid && n.Event == action.NotifyHeld:
		return "skipped: the call ended or the channel was disabled"
	case n.Status == action.NotifyVoid:
		return "failed"
	}
	return "sent"
}
