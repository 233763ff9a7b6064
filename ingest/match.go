package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
)

const (
	keptShown = 10_000 // bytes of a payload that are kept for people
	keptLine  = 300    // bytes of what foreign text is kept in a line
	keptURL   = 2000
	keptError = 500
)

// matcher makes records of events: it asks the triggers, and shows and seals
// what is kept. Deliveries, polls and schedules share it.
type matcher struct {
	providers registry
	vault     action.Vault
	json      *redact.JSON
	newID     func() string
	now       func() time.Time
	log       *slog.Logger
}

// matches returns what an event is to those of the triggers that are of its
// type: one match each, skipped where it does not pass the filters. The event
// came with a receipt, unless it is empty.
func (m *matcher) matches(ctx context.Context, triggers []event.Trigger, e event.Event, receipt string) (all []event.Match) {
	var draft event.Record // made once for all triggers, and only where there is one
	for _, t := range triggers {
		if t.Provider != e.Provider || t.Type != e.Type {
			continue
		}
		if draft.Key == "" {
			draft = m.record(e, receipt)
		}
		r := draft
		r.Organization, r.Trigger, r.Automation = t.Organization, t.ID, t.Automation
		passed, err := m.passes(ctx, t, e)
		switch {
		case err != nil:
			r.Skip, r.Error = event.SkipRunFailed, m.forPeople(err)
		case !passed:
			if r.Skip, r.Error = event.SkipFilter, m.why(ctx, t, e); receipt != "" {
				r.Shown = nil // its delivery has it, once for all triggers
			}
		}
		all = append(all, m.match(ctx, r, e.Context))
	}
	return all
}

// passes asks the module whether an event passes the filters of a trigger.
func (m *matcher) passes(ctx context.Context, t event.Trigger, e event.Event) (passed bool, err error) {
	kind := m.kind(e)
	if kind == nil {
		return false, action.NewError("no_type", m.line(t.Type, keptLine))
	}
	err = m.safely(ctx, "asking the filters of trigger "+t.ID, func() error {
		passed = kind.Matches(&e, t.Config)
		return nil
	})
	return passed, err
}

// why tells people which filters of a trigger an event does not pass.
func (m *matcher) why(ctx context.Context, t event.Trigger, e event.Event) (text string) {
	_ = m.safely(ctx, "asking single filters of trigger "+t.ID, func() error {
		text = m.line(unfit(m.kind(e), &e, t.Config), keptError)
		return nil
	}) // it is logged; nothing more is known then
	return text
}

func (m *matcher) kind(e event.Event) *event.Type {
	if p := m.providers[e.Provider]; p != nil {
		return p.Type(e.Type)
	}
	return nil
}

// record returns an event as it is kept, of no trigger yet.
func (m *matcher) record(e event.Event, receipt string) event.Record {
	r := event.Record{
		Receipt: receipt, Provider: e.Provider, Type: e.Type, CreatedAt: m.now().UTC(),
		Native: m.line(e.Native, keptLine), Key: m.key(e.Key), Title: m.line(e.Title, keptLine), URL: m.line(e.URL, keptURL),
		Shown: m.shown(e.Context),
	}
	if !e.OccurredAt.IsZero() {
		at := e.OccurredAt.UTC()
		r.OccurredAt = &at
	}
	return r
}

// match completes a record with its id and, unless it is skipped, those of its
// run and the sealed context.
func (m *matcher) match(ctx context.Context, r event.Record, whole json.RawMessage) event.Match {
	r.ID = m.newID()
	if r.Skip != "" {
		return event.Match{Record: r}
	}
	sealed, err := m.vault.Seal(recordRef(r.Organization, r.ID), whole)
	if err != nil {
		m.log.ErrorContext(ctx, "the context of an event could not be sealed", "trigger", r.Trigger, "error", err)
		r.Skip, r.Error = event.SkipRunFailed, "What happened could not be sealed, so nothing was started; the gateway's log has the details."
		return event.Match{Record: r}
	}
	return event.Match{Record: r, Run: m.newID(), Sealed: sealed}
}

// recordRef is the place of a record's sealed context.
func recordRef(organization, id string) action.Ref {
	return action.Ref{Organization: organization, Table: "events", Row: id, Column: "sealed"}
}

// shown returns a payload as people see it.
func (m *matcher) shown(raw json.RawMessage) []byte {
	return m.json.Prune(m.json.Redact(raw, nil), keptShown)
}

// line returns foreign text as a line for people.
func (m *matcher) line(text string, limit int) string {
	return line(m.json.RedactText(text, nil), limit)
}

// key returns the key of an event as it is kept: itself, or a keyed hash where it
// is too long, no text or looks like a secret.
func (m *matcher) key(key string) string {
	if key != "" && key == m.line(key, keptLine) {
		return key
	}
	return "hash:" + keyed(m.vault, "key", []byte(key))
}

// safely calls a module, whose panic is an error.
func (m *matcher) safely(ctx context.Context, doing string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			what := fmt.Sprintf("%T", p) // its text may be foreign, unless Go's runtime says it
			if e, is := p.(runtime.Error); is {
				what = line(e.Error(), keptLine)
			}
			m.log.ErrorContext(ctx, "a module panicked", "doing", doing, "panic", what, "stack", string(debug.Stack()))
			err = &action.Error{Code: "internal", Message: "The gateway broke down " + doing + "; its log has the details."}
		}
	}()
	return do()
}

// forPeople returns what people may know of an error, in a line.
func (m *matcher) forPeople(err error) string { return m.line(action.Public(err).Message, keptError) }

// line makes foreign text harmless in a line: what nobody sees becomes a space,
// and there are at most limit bytes.
func line(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "\ufffd"))
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}
