package redact_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sallyport/internal/redact"
)

func TestHandlerIsAHandler(t *testing.T) {
	var out bytes.Buffer
	slogtest.Run(t, func(*testing.T) slog.Handler {
		out.Reset()
		return redact.NewHandler(slog.NewJSONHandler(&out, nil), &redact.JSON{}, nil)
	}, func(t *testing.T) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(out.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		return m
	})
}

const canary = "canary-7h4t-n0body-may-see"

type shown struct{ text string }

func (s shown) String() string { return s.text }

type marshaled struct{ text string }

func (m marshaled) MarshalText() ([]byte, error) { return []byte(m.text), nil }

type valued struct{ v slog.Value }

func (v valued) LogValue() slog.Value { return v.v }

type account struct {
	User     string
	Password string
	hidden   string
}

type angry struct{}

func (angry) MarshalJSON() ([]byte, error) { panic("no") }

// However a secret gets into a record, no handler sees it.
func TestHandlerHidesSecrets(t *testing.T) {
	known := func() []string { return []string{canary} }
	var nobody *url.URL
	for name, log := range map[string]func(*slog.Logger){
		"message":       func(l *slog.Logger) { l.Info("got " + canary) },
		"string":        func(l *slog.Logger) { l.Info("m", "a", "x "+canary) },
		"key":           func(l *slog.Logger) { l.Info("m", canary, 1) },
		"name":          func(l *slog.Logger) { l.Info("m", "api_key", "unknown-canary") },
		"error":         func(l *slog.Logger) { l.Info("m", "error", fmt.Errorf("a: %w", errors.New(canary))) },
		"secret error":  func(l *slog.Logger) { l.Info("m", "token", errors.New("unknown-canary")) },
		"Stringer":      func(l *slog.Logger) { l.Info("m", "a", shown{canary}) },
		"TextMarshaler": func(l *slog.Logger) { l.Info("m", "a", marshaled{canary}) },
		"LogValuer":     func(l *slog.Logger) { l.Info("m", "a", valued{slog.StringValue(canary)}) },
		"LogValuer, deep": func(l *slog.Logger) {
			l.Info("m", "a", valued{slog.GroupValue(slog.Any("b", valued{slog.StringValue(canary)}), slog.String("password", "unknown-canary"))})
		},
		"bytes":        func(l *slog.Logger) { l.Info("m", "a", []byte(canary)) },
		"RawMessage":   func(l *slog.Logger) { l.Info("m", "a", json.RawMessage(`{"password":"unknown-canary","n":1}`)) },
		"broken JSON":  func(l *slog.Logger) { l.Info("m", "a", json.RawMessage(`{"password":"unknown-canary"`)) },
		"JSON text":    func(l *slog.Logger) { l.Info("m", "a", `{"credentials":{"a":"unknown-canary"}}`) },
		"struct":       func(l *slog.Logger) { l.Info("m", "a", account{"me", "unknown-canary", ""}) },
		"hidden field": func(l *slog.Logger) { l.Info("m", "a", &account{"me", "", canary}) },
		"headers":      func(l *slog.Logger) { l.Info("m", "a", http.Header{"Authorization": {"token unknown-canary"}}) },
		"map": func(l *slog.Logger) {
			l.Info("m", "a", map[string]any{"x": []any{map[string]string{"token": "unknown-canary"}}})
		},
		"slice": func(l *slog.Logger) { l.Info("m", "a", []string{"--token", "unknown-canary"}) },
		"URL": func(l *slog.Logger) {
			l.Info("m", "a", &url.URL{Scheme: "https", Host: "h", RawQuery: "token=unknown-canary"})
		},
		"group":        func(l *slog.Logger) { l.Info("m", slog.Group("g", slog.Group("h", "a", canary))) },
		"secret group": func(l *slog.Logger) { l.Info("m", slog.Group("credentials", slog.Group("h", "a", "unknown-canary"))) },
		"With":         func(l *slog.Logger) { l.With("a", canary, "secret", "unknown-canary").Info("m") },
		"WithGroup":    func(l *slog.Logger) { l.WithGroup("g").With("a", canary).Info("m", "b", canary) },
		"WithGroup, secret": func(l *slog.Logger) {
			l.WithGroup("credentials").With("a", "unknown-canary").WithGroup("h").Info("m", "b", "unknown-canary")
		},
		"nil and angry": func(l *slog.Logger) { l.Info(canary, "a", nil, "b", nobody, "c", angry{}, "d", error(nil)) },
	} {
		for kind, inner := range map[string]func(io.Writer) slog.Handler{
			"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
			"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
		} {
			var out bytes.Buffer
			log(slog.New(redact.NewHandler(inner(&out), &hashed, known)))
			if s := out.String(); strings.Contains(s, canary) || strings.Contains(s, "unknown-canary") || !strings.Contains(s, "[redacted:") {
				t.Errorf("%s, %s: %s", name, kind, s)
			}
		}
	}
}

// What is no secret is handed on as it is, in its type.
func TestHandlerKeepsTheRest(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	err := errors.New("plain")
	attrs := []slog.Attr{
		slog.Int("token", 5), slog.Bool("secret", true), slog.Time("password", at), slog.Duration("api_key", time.Second), slog.Float64("f", 1.5),
		slog.Uint64("u", 7), slog.String("s", "x"), slog.Any("error", err), slog.Any("level", slog.LevelWarn), slog.Any("nil", nil),
		slog.Group("g", slog.String("a", "b")), slog.String("token", ""), slog.String("token", "[redacted:7]"), slog.Any("raw", json.RawMessage(`{"a":1}`)),
	}
	var got slog.Record
	h := redact.NewHandler(keep{&got}, &redact.JSON{}, nil)
	r := slog.NewRecord(at, slog.LevelWarn, "message", 7)
	r.AddAttrs(attrs...)
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	check := func(message string) {
		t.Helper()
		if got.Time != at || got.Level != slog.LevelWarn || got.PC != 7 || got.Message != message {
			t.Errorf("got %+v", got)
		}
		i := 0
		got.Attrs(func(a slog.Attr) bool {
			if i < len(attrs) && a.Key != "raw" && !a.Equal(attrs[i]) {
				t.Errorf("got %v; want %v", a, attrs[i])
			}
			i++
			return true
		})
		if i < len(attrs) {
			t.Errorf("%d attributes of %d", i, len(attrs))
		}
	}
	check("message")
	r.Message = "password=hunter2" // and the same when something is found
	if err := h.Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	check("password=[redacted:7]")
}

// keep is a handler that keeps the last record.
type keep struct{ r *slog.Record }

func (keep) Enabled(context.Context, slog.Level) bool        { return true }
func (k keep) Handle(_ context.Context, r slog.Record) error { *k.r = r; return nil }
func (k keep) WithAttrs([]slog.Attr) slog.Handler            { return k }
func (k keep) WithGroup(string) slog.Handler                 { return k }

func TestHandlerAsksForSecretsEachTime(t *testing.T) {
	var out bytes.Buffer
	var secrets []string
	log := slog.New(redact.NewHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: noTime}), &redact.JSON{}, func() []string { return secrets }))
	for _, secrets = range [][]string{nil, {canary}, {"another-secret", canary}, {"another-secret"}} {
		log.Info(canary + " and another-secret")
	}
	want := `level=INFO msg="canary-7h4t-n0body-may-see and another-secret"
level=INFO msg="[redacted:26] and another-secret"
level=INFO msg="[redacted:26] and [redacted:14]"
level=INFO msg="canary-7h4t-n0body-may-see and [redacted:14]"
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func noTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

func BenchmarkHandler(b *testing.B) {
	for name, h := range map[string]slog.Handler{
		"inner": slog.NewTextHandler(io.Discard, nil),
		"clean": redact.NewHandler(slog.NewTextHandler(io.Discard, nil), &hashed, func() []string { return []string{ghp, canary} }),
	} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(h)
			b.ReportAllocs()
			for b.Loop() {
				log.Info("a call ended", "invocation", "0193a1b2-c3d4-7e5f-8a9b-0c1d2e3f4a5b", "status", "completed", "ms", 12, "error", io.EOF)
			}
		})
	}
}
