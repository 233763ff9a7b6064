package main

import (
	"sallyport/action"
	"sallyport/sources"
	"sallyport/sources/platform"
)

// platform is what the gateway itself does for agents.
func (g *gateway) platform() (*sources.Platform, error) {
	return platform.Source(platform.Config{
		Rows: g.db, JSON: g.json, Hash: g.vault.Hash, Completed: g.completed, Asked: g.askedForVariables, PublicURL: g.url, Stays: g.options.Intervals.CompletionStays,
	})
}

// askedForVariables tells inboxes.
func (g *gateway) askedForVariables(organization, session string) {
	g.coord.Publish(action.Hint{Kind: action.HintPolicy, Organization: organization, Session: session})
}

// completed tells everybody that an agent ended its run.
func (g *gateway) completed(organization, session string, c *action.Completed) {
	g.coord.Publish(action.Hint{Kind: action.HintRun, Organization: organization, Run: c.Run, Status: c.Status})
	g.coord.Publish(action.Hint{Kind: action.HintSession, Organization: organization, Session: session})
	g.withdrew(c.Withdrew)
	g.log.Info("run completed by its agent", "run", c.Run, "status", c.Status, "withdrew", len(c.Withdrew))
}
