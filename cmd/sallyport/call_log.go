package main

import (
	"context"
	"log/slog"

	"sallyport/action"
	"sallyport/action/gate"
	"sallyport/internal/redact"
)

// callLog is an [gate.Observer] that writes a line for every call at its end,
// beside what another does. It says who called what and how it went, and nothing
// of params and results.
type callLog struct {
	gate.Observer
	log *slog.Logger
}

// newCallLog writes to log. Looking for secrets would cost a call more than the
// line; ids, the gateway's own words and names of actions (of a few characters
// that [sources] lets pass) need none.
func newCallLog(beside gate.Observer, log *slog.Logger) callLog {
	return callLog{beside, redact.Bare(log)}
}

// Changed implements gate.Observer.
func (l callLog) Changed(inv *action.Invocation) {
	l.Observer.Changed(inv)
	ctx := context.Background()
	if !inv.Status.Terminal() || !l.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	line := []slog.Attr{
		slog.String("invocation", inv.ID),
		slog.String("session", inv.Session),
		slog.String("organization", inv.Organization),
		slog.String("source", inv.Source),
		slog.String("action", inv.Action),
		slog.String("mode", string(inv.Mode)),
		slog.String("mode_source", string(inv.ModeSource)),
		slog.String("status", string(inv.Status)),
	}
	switch {
	case inv.Error != nil:
		line = append(line, slog.String("error", inv.Error.Code))
	case inv.DeniedReason != "":
		line = append(line, slog.String("denied", inv.DeniedReason))
	}
	if inv.DurationMS != nil { // it ran
		line = append(line, slog.Int64("duration_ms", *inv.DurationMS))
	}
	if inv.CompletedAt != nil {
		line = append(line, slog.Int64("total_ms", inv.CompletedAt.Sub(inv.CreatedAt).Milliseconds()))
	}
	l.log.LogAttrs(ctx, slog.LevelInfo, "call", line...)
}
