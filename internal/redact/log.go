package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
)

// NewHandler returns a handler that hands inner what is logged without
// secrets: messages, and attributes of any type that has a text. An attribute
// or group whose name says that it is secret is redacted as a whole, but for
// numbers, times, durations and truth values, which stay what they are.
//
// secrets returns those that are known at the moment, and may be called for
// every record; nil: none are. What is clean is handed on as it came.
func NewHandler(inner slog.Handler, j *JSON, secrets func() []string) slog.Handler {
	if secrets == nil {
		secrets = func() []string { return nil }
	}
	return &handler{inner: inner, json: *j, secrets: secrets, last: new(atomic.Pointer[memory])}
}

// Bare returns a logger that writes where l does, and cleans nothing: for lines
// that come with every call, and of whose values each is known to be none that
// somebody sent.
func Bare(l *slog.Logger) *slog.Logger {
	if h, ok := l.Handler().(*handler); ok {
		return slog.New(h.inner)
	}
	return l
}

type handler struct {
	inner   slog.Handler
	json    JSON
	secrets func() []string
	last    *atomic.Pointer[memory]
	secret  bool // it is in a group that is secret
}

// memory keeps what was made of the secrets: they seldom change.
type memory struct {
	secrets []string
	known   *known
}

// cleaner cleans what belongs to one record.
type cleaner struct {
	JSON
	known *known
}

func (h *handler) cleaner() cleaner {
	now, m := h.secrets(), h.last.Load()
	if m == nil || !slices.Equal(m.secrets, now) {
		m = &memory{slices.Clone(now), newKnown(now)}
		h.last.Store(m)
	}
	return cleaner{h.json, m.known}
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.inner.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	c := h.cleaner()
	message, changed := c.line(r.Message)
	var few [8]slog.Attr
	attrs := few[:0]
	r.Attrs(func(a slog.Attr) bool {
		clean, other := c.attr(a, h.secret)
		attrs, changed = append(attrs, clean), changed || other
		return true
	})
	if !changed {
		return h.inner.Handle(ctx, r)
	}
	clean := slog.NewRecord(r.Time, r.Level, message, r.PC)
	clean.AddAttrs(attrs...)
	return h.inner.Handle(ctx, clean)
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean, _ := h.cleaner().attrs(attrs, h.secret)
	with := *h
	with.inner = h.inner.WithAttrs(clean)
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.inner = h.inner.WithGroup(name)
	with.secret = h.secret || secretName([]byte(name))
	return &with
}

// attrs returns the list itself when it is clean.
func (c cleaner) attrs(attrs []slog.Attr, secret bool) (clean []slog.Attr, changed bool) {
	clean = attrs
	for i, a := range attrs {
		if a, other := c.attr(a, secret); other {
			if !changed {
				clean, changed = slices.Clone(attrs), true
			}
			clean[i] = a
		}
	}
	return clean, changed
}

func (c cleaner) attr(a slog.Attr, secret bool) (clean slog.Attr, changed bool) {
	key, changed := c.line(a.Key)
	value, other := c.value(a.Value, secret || holdsSecret(a))
	return slog.Attr{Key: key, Value: value}, changed || other
}

func holdsSecret(a slog.Attr) bool {
	switch roleOf([]byte(a.Key)) {
	case secretNamed:
		return true
	case textNamed:
		return a.Value.Kind() == slog.KindString && !isKind([]byte(a.Value.String()))
	}
	return false
}

func (c cleaner) value(v slog.Value, secret bool) (clean slog.Value, changed bool) {
	if v.Kind() == slog.KindLogValuer {
		clean, _ = c.value(v.Resolve(), secret)
		return clean, true // asked again, it might say something else
	}
	switch v.Kind() {
	case slog.KindString:
		text, changed := c.text(v.String(), secret)
		return slog.StringValue(text), changed
	case slog.KindGroup:
		attrs, changed := c.attrs(v.Group(), secret)
		return slog.GroupValue(attrs...), changed
	case slog.KindAny:
		return c.any(v, secret)
	}
	return v, false
}

// any cleans a value of any type, by the texts that handlers make of it.
func (c cleaner) any(v slog.Value, secret bool) (clean slog.Value, changed bool) {
	switch x := v.Any().(type) {
	case nil:
		return v, false
	case []byte:
		text, changed := c.text(string(x), secret)
		return textOr(v, text, changed)
	case json.RawMessage:
		text, changed := c.text(string(x), secret)
		if changed && json.Valid([]byte(text)) {
			return slog.AnyValue(json.RawMessage(text)), true
		}
		return textOr(v, text, changed)
	case error:
		text, changed := c.text(fmt.Sprintf("%+v", x), secret)
		return textOr(v, text, changed)
	default:
		if text, changed := c.text(encoded(x), secret); changed {
			return slog.StringValue(text), true
		}
		text, changed := c.text(fmt.Sprintf("%+v", x), secret)
		return textOr(v, text, changed)
	}
}

func textOr(v slog.Value, text string, changed bool) (slog.Value, bool) {
	if changed {
		return slog.StringValue(text), true
	}
	return v, false
}

// encoded returns x as JSON, or nothing when it has no such form.
func encoded(x any) (text string) {
	defer func() {
		if recover() != nil { // a method of x that did not expect to be called
			text = ""
		}
	}()
	raw, err := json.Marshal(x)
	if err != nil {
		return ""
	}
	return string(raw)
}

// text cleans a text, or replaces the whole of it.
func (c cleaner) text(text string, secret bool) (clean string, changed bool) {
	if !secret {
		return c.line(text)
	}
	if text == "" || isMark([]byte(text)) {
		return text, false
	}
	return string(c.mark(nil, []byte(text))), true
}

func (c cleaner) line(text string) (clean string, changed bool) {
	return c.clean(text, c.known)
}
