package redact

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
)

// NewHandler returns a handler that passes records to inner with secrets
// redacted, in messages and in attributes of any type that has a text form. An
// attribute or group whose name indicates a secret is redacted as a whole,
// except for numbers, times, durations and booleans.
//
// secrets returns the secrets known at the moment, and may be called for every
// record; nil means none. Records without secrets are passed on unchanged.
func NewHandler(inner slog.Handler, j *JSON, secrets func() []string) slog.Handler {
	if secrets == nil {
		secrets = func() []string { return nil }
	}
	return &handler{inner: inner, json: *j, secrets: secrets, cache: new(atomic.Pointer[knownCache])}
}

// Unredacted returns a logger that writes to the same output as l without
// redaction. Use it for lines that every call writes and whose values cannot
// come from a client.
func Unredacted(l *slog.Logger) *slog.Logger {
	if h, ok := l.Handler().(*handler); ok {
		return slog.New(h.inner)
	}
	return l
}

type handler struct {
	inner       slog.Handler
	json        JSON
	secrets     func() []string
	cache       *atomic.Pointer[knownCache]
	secretGroup bool // within a group whose name indicates a secret
}

// knownCache caches the forms of the secrets, which seldom change.
type knownCache struct {
	secrets []string
	known   *known
}

// cleaner redacts one record.
type cleaner struct {
	JSON
	known *known
}

func (h *handler) cleaner() cleaner {
	now, m := h.secrets(), h.cache.Load()
	if m == nil || !slices.Equal(m.secrets, now) {
		m = &knownCache{slices.Clone(now), newKnown(now)}
		h.cache.Store(m)
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
		clean, other := c.attr(a, h.secretGroup)
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
	clean, _ := h.cleaner().attrs(attrs, h.secretGroup)
	with := *h
	with.inner = h.inner.WithAttrs(clean)
	return &with
}

func (h *handler) WithGroup(name string) slog.Handler {
	with := *h
	with.inner = h.inner.WithGroup(name)
	with.secretGroup = h.secretGroup || secretName([]byte(name))
	return &with
}

// attrs returns the list itself if it has no secrets.
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
	case roleSecret:
		return true
	case roleSecretText:
		return a.Value.Kind() == slog.KindString && !isAuthScheme([]byte(a.Value.String()))
	}
	return false
}

func (c cleaner) value(v slog.Value, secret bool) (clean slog.Value, changed bool) {
	if v.Kind() == slog.KindLogValuer {
		clean, _ = c.value(v.Resolve(), secret)
		return clean, true // a second call might return another value
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

// any redacts a value of any type by the texts that handlers produce from it.
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

// encoded returns x as JSON, or nothing if it cannot be encoded.
func encoded(x any) (text string) {
	defer func() {
		if recover() != nil { // a method of x panicked
			text = ""
		}
	}()
	raw, err := json.Marshal(x)
	if err != nil {
		return ""
	}
	return string(raw)
}

// text redacts the secrets in a text, or all of it.
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
