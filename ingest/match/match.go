// Package match turns events into matches: it knows the providers, among them the
// provider of custom webhooks, asks the triggers' filters, and prepares the records
// that are stored. Deliveries, polls and schedules share it.
package match

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
	"sallyport/internal/redact"
)

const (
	keptShown = 10_000 // bytes of a payload that are stored for display
	MaxLine   = 300    // bytes of untrusted text in one line
	maxURL    = 2000
	maxError  = 500
)

// Matcher creates the records of events: it asks the triggers, and redacts and seals
// what is stored.
type Matcher struct {
	Providers Registry
	Vault     action.Vault
	JSON      *redact.JSON
	NewID     func() string
	Now       func() time.Time
	Log       *slog.Logger
}

// Matches returns the result of an event for each trigger of its type; skipped if it
// does not pass the filters. receipt is the id of the delivery with the event, or
// empty.
func (m *Matcher) Matches(ctx context.Context, triggers []event.Trigger, e event.Event, receipt string) (all []event.Match) {
	var draft event.Record // created once, on the first trigger
	for _, t := range triggers {
		if t.Provider != e.Provider || t.Type != e.Type {
			continue
		}
		if draft.Key == "" {
			draft = m.Record(e, receipt)
		}
		r := draft
		r.Organization, r.Trigger, r.Automation = t.Organization, t.ID, t.Automation
		passed, err := m.matchesFilters(ctx, t, e)
		switch {
		case err != nil:
			r.Skip, r.Error = event.SkipRunFailed, m.PublicText(err)
		case !passed:
			if r.Skip, r.Error = event.SkipFilter, m.filterText(ctx, t, e); receipt != "" {
				r.Redacted = nil // stored with the delivery, once for all triggers
			}
		}
		all = append(all, m.NewMatch(ctx, r, e.Context))
	}
	return all
}

// matchesFilters asks the module whether an event passes the filters of a trigger.
func (m *Matcher) matchesFilters(ctx context.Context, t event.Trigger, e event.Event) (passed bool, err error) {
	kind := m.eventType(e)
	if kind == nil {
		return false, action.NewError("no_type", m.Line(t.Type, MaxLine))
	}
	err = m.Recovering(ctx, "asking the filters of trigger "+t.ID, func() error {
		passed = kind.Matches(&e, t.Config)
		return nil
	})
	return passed, err
}

// filterText tells people which filters of a trigger an event does not pass.
func (m *Matcher) filterText(ctx context.Context, t event.Trigger, e event.Event) (text string) {
	_ = m.Recovering(ctx, "asking single filters of trigger "+t.ID, func() error {
		text = m.Line(failedFilters(m.eventType(e), &e, t.Config), maxError)
		return nil
	}) // a panic is logged
	return text
}

func (m *Matcher) eventType(e event.Event) *event.Type {
	if p := m.Providers[e.Provider]; p != nil {
		return p.Type(e.Type)
	}
	return nil
}

// Record returns the stored form of an event, without a trigger.
func (m *Matcher) Record(e event.Event, receipt string) event.Record {
	r := event.Record{
		Receipt: receipt, Provider: e.Provider, Type: e.Type, CreatedAt: m.Now().UTC(),
		Native: m.Line(e.Native, MaxLine), Key: m.key(e.Key), Title: m.Line(e.Title, MaxLine), URL: m.Line(e.URL, maxURL),
		Redacted: m.shown(e.Context),
	}
	if !e.OccurredAt.IsZero() {
		at := e.OccurredAt.UTC()
		r.OccurredAt = &at
	}
	return r
}

// NewMatch completes a record with its id and, unless it is skipped, with the id of
// its run and the sealed context.
func (m *Matcher) NewMatch(ctx context.Context, r event.Record, whole json.RawMessage) event.Match {
	r.ID = m.NewID()
	if r.Skip != "" {
		return event.Match{Record: r}
	}
	sealed, err := m.Vault.Seal(ContextRef(r.Organization, r.ID), whole)
	if err != nil {
		m.Log.ErrorContext(ctx, "the context of an event could not be encrypted", "trigger", r.Trigger, "error", err)
		r.Skip, r.Error = event.SkipRunFailed, "The event could not be encrypted, so nothing was started. The gateway log has the details."
		return event.Match{Record: r}
	}
	return event.Match{Record: r, Run: m.NewID(), Sealed: sealed}
}

// ContextRef is the place of a record's sealed context.
func ContextRef(organization, id string) action.Ref {
	return action.Ref{Organization: organization, Table: "events", Row: id, Column: "sealed"}
}

// shown returns a payload as it is shown to people.
func (m *Matcher) shown(raw json.RawMessage) []byte {
	return m.JSON.Prune(m.JSON.Redact(raw, nil), keptShown)
}

// Line returns untrusted text as one redacted line.
func (m *Matcher) Line(text string, limit int) string {
	return Line(m.JSON.RedactText(text, nil), limit)
}

// key returns the stored key of an event: the key itself, or a keyed hash if it is
// too long, not printable or looks like a secret.
func (m *Matcher) key(key string) string {
	if key != "" && key == m.Line(key, MaxLine) {
		return key
	}
	return "hash:" + Hash(m.Vault, "key", []byte(key))
}

// Recovering calls a module and turns a panic into an error.
func (m *Matcher) Recovering(ctx context.Context, doing string, do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			what := fmt.Sprintf("%T", p) // the text of a panic is untrusted unless it is Go's
			if e, is := p.(runtime.Error); is {
				what = Line(e.Error(), MaxLine)
			}
			m.Log.ErrorContext(ctx, "a module panicked", "doing", doing, "panic", what, "stack", string(debug.Stack()))
			err = &action.Error{Code: "internal", Message: "The gateway failed while " + doing + ". Its log has the details."}
		}
	}()
	return do()
}

// PublicText returns the public message of an error in one line.
func (m *Matcher) PublicText(err error) string { return m.Line(action.Public(err).Message, maxError) }

// Line makes untrusted text safe as one line of at most limit bytes: characters that
// are not printable become spaces.
func Line(text string, limit int) string {
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

// Hash returns a keyed hash of parts for one purpose. Without the key, a reader of
// the rows could find stored values by guessing.
func Hash(v action.Vault, what string, parts ...[]byte) string {
	plain := []byte("sallyport inbound " + what + "\x00")
	for _, part := range parts { // bounds the size and separates the parts
		sum := sha256.Sum256(part)
		plain = append(plain, sum[:]...)
	}
	return v.Hash(plain)
}

// MaxID bounds ids of others, in bytes: of deliveries, connections, in URLs.
const MaxID = 200

// botsFilter is the modules' name of the filter that admits events caused by programs,
// which are excluded by default.
const botsFilter = "bots"

// failedFilters tells people which filters an event does not pass. A module only
// reports whether all filters pass, so they are added one by one: those with which
// the event no longer passes are the ones.
func failedFilters(kind *event.Type, e *event.Event, config json.RawMessage) string {
	var filters map[string]json.RawMessage
	if json.Unmarshal(config, &filters) != nil {
		return "" // it was checked when it was written
	}
	bots := filters[botsFilter]
	tried := map[string]json.RawMessage{botsFilter: json.RawMessage("true")}
	if !matchesWith(kind, e, tried) {
		return "The event would not match without filters either: it is not of this trigger's type."
	}
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		if name == botsFilter {
			continue
		}
		if tried[name] = filters[name]; !matchesWith(kind, e, tried) {
			failed = append(failed, fmt.Sprintf("%s (%s)", name, filters[name]))
			delete(tried, name)
		}
	}
	if tried[botsFilter] = bots; bots == nil {
		delete(tried, botsFilter)
	}
	if !matchesWith(kind, e, tried) {
		failed = append(failed, botsFilter+" (not set, and a bot or an app caused it)")
	}
	if len(failed) == 0 {
		return ""
	}
	return "The event does not match " + strings.Join(failed, "; ") + "."
}

func matchesWith(kind *event.Type, e *event.Event, filters map[string]json.RawMessage) bool {
	config, err := json.Marshal(filters)
	return err == nil && kind.Matches(e, config)
}

// Unreadable is the error of a delivery that can never be parsed.
func (m *Matcher) Unreadable(err error) error {
	return action.Errorf(action.ErrInvalid, codeUnreadable, "The delivery cannot be parsed: %s", m.Line(parseErrorText(err), MaxLine))
}

const codeUnreadable = "unreadable"

// IsPermanent reports whether another attempt would fail in the same way.
func IsPermanent(err error) bool {
	var e *action.Error
	return errors.As(err, &e) && e.Code == codeUnreadable
}

// parseErrorText describes a parse error without Go's terms.
func parseErrorText(err error) string {
	var shape *json.UnmarshalTypeError
	var number *strconv.NumError
	switch {
	case errors.As(err, &shape) && shape.Field != "":
		return fmt.Sprintf("its member %s must not be of type %s.", shape.Field, shape.Value)
	case errors.As(err, &shape):
		return fmt.Sprintf("it must not be of type %s.", shape.Value)
	case errors.As(err, new(*json.SyntaxError)), errors.Is(err, io.ErrUnexpectedEOF):
		return "it is not valid JSON."
	case errors.As(err, &number):
		return fmt.Sprintf("%q is not a number.", number.Num)
	}
	return err.Error()
}

// maxRedacted is the largest body that is redacted and shown, in bytes.
const maxRedacted = 1 << 20

// Payload returns a body as it is shown to people.
func (m *Matcher) Payload(body []byte) []byte {
	if len(body) > maxRedacted {
		return fmt.Appendf(nil, `{"_truncated":true,"_original_size":%d}`, len(body))
	}
	if form, is := bytes.CutPrefix(body, []byte("payload=")); is {
		if text, err := url.QueryUnescape(string(form)); err == nil && json.Valid([]byte(text)) {
			body = []byte(text)
		}
	}
	return m.shown(body)
}

// Registry maps ids to providers.
type Registry map[string]*event.Provider

// NewRegistry returns the providers of modules and the provider of custom webhooks,
// [Custom].
func NewRegistry(modules []event.Provider) (Registry, error) {
	r := Registry{}
	for _, p := range append([]event.Provider{Custom()}, modules...) {
		switch {
		case p.ID == "" || p.ID == NangoProvider:
			return nil, fmt.Errorf("a provider may not have the id %q", p.ID)
		case r[p.ID] != nil:
			return nil, fmt.Errorf("two providers have the id %s", p.ID)
		case p.Webhook != nil && (p.Webhook.Verify == nil || p.Webhook.Parse == nil):
			return nil, errors.New(p.ID + ": a webhook needs Verify and Parse")
		}
		r[p.ID] = &p
	}
	return r, nil
}

// NangoProvider is the provider of deliveries through Nango and the id of its signing key
// in the configuration. No module may have this id.
const NangoProvider = "nango"
