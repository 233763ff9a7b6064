package ingest

import (
	"context"
	"slices"
	"sync"
	"time"

	"sallyport/ingest/event"
)

const (
	// roundsAtOnce is how often a service that has more is looked at without a
	// pause.
	roundsAtOnce = 20
	// longestPoll is how far failures put off the next look, and longestTold how
	// far a service can.
	longestPoll = time.Hour
	longestTold = 24 * time.Hour
)

// look asks the service, and the triggers what they make of what it says. The
// result is that of [PollerConfig.Looked].
func (p *Poller) look(ctx context.Context, g event.PollGroup) (l event.Look, result string) {
	triggers, polled, err := p.poll(ctx, g)
	switch {
	case err != nil && asked(err) > 0:
		result = "backoff"
	case err != nil:
		result = "failed"
	}
	if err != nil && ctx.Err() == nil {
		p.Log.WarnContext(ctx, "a look at a service failed", "provider", g.Provider, "integration", g.Integration, "error", p.JSON.RedactText(err.Error(), nil))
	}
	if err != nil {
		return p.failed(g, err), result
	}
	l = event.Look{Group: g, Cursor: polled.Cursor, Lost: p.match.line(polled.Lost, keptLine), NextAt: p.next(g, polled)}
	if l.Lost != "" {
		p.Log.WarnContext(ctx, "a service may have events that no look finds", "provider", g.Provider, "integration", g.Integration, "lost", l.Lost)
	}
	for _, e := range polled.Events {
		l.Matches = append(l.Matches, p.match.matches(ctx, triggers, e, "")...)
	}
	return l, "found"
}

// poll returns the triggers of a group and what is new for them, as they are
// when the service has answered: that takes a while. A group without triggers
// asks nobody.
func (p *Poller) poll(ctx context.Context, g event.PollGroup) (triggers []event.Trigger, polled event.Polled, err error) {
	if triggers, err = p.triggers(ctx, g); err != nil || len(triggers) == 0 {
		return nil, polled, err
	}
	within, stop := context.WithTimeout(ctx, p.Longest)
	defer stop()
	err = p.match.safely(ctx, "looking for events of "+g.Provider, func() error {
		polled, err = p.Integrations.Poll(within, g.Organization, g.Integration, g.Cursor)
		return err
	})
	if err == nil && len(polled.Events) > 0 {
		triggers, err = p.triggers(ctx, g)
	}
	return triggers, polled, err
}

// triggers are the enabled ones of a group.
func (p *Poller) triggers(ctx context.Context, g event.PollGroup) (list []event.Trigger, err error) {
	err = patient(ctx, func() error {
		list, err = p.Rows.ActiveTriggers(ctx, g.Organization, g.Provider)
		return err
	})
	return slices.DeleteFunc(list, func(t event.Trigger) bool {
		return t.Kind != event.Polling || t.Integration != g.Integration
	}), err
}

// next returns when to look again.
func (p *Poller) next(g event.PollGroup, polled event.Polled) time.Time {
	if p.rounds.more(g.ID, polled.More) {
		return p.Now()
	}
	return p.Now().Add(max(pollEvery(g), polled.Wait))
}

// failed says when to look again after a failure: later each time, or when the
// service says.
func (p *Poller) failed(g event.PollGroup, err error) event.Look {
	p.rounds.more(g.ID, false)
	wait := backoff(pollEvery(g), max(longestPoll, pollEvery(g)), g.Failures+1)
	if told := asked(err); told > 0 {
		wait = max(min(told, longestTold), pollEvery(g))
	}
	return event.Look{Group: g, NextAt: p.Now().Add(wait), LastError: p.match.forPeople(err)}
}

func pollEvery(g event.PollGroup) time.Duration {
	return time.Duration(max(g.PollSeconds, 1)) * time.Second
}

// rounds count how often a group was looked at without a pause.
type rounds struct {
	mu sync.Mutex
	of map[string]int
}

// more reports whether a group that has more, or has not, is looked at at once.
func (r *rounds) more(group string, has bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !has || r.of[group]+1 >= roundsAtOnce {
		delete(r.of, group)
		return false
	}
	if r.of == nil {
		r.of = map[string]int{}
	}
	r.of[group]++
	return true
}
