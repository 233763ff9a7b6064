package database

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"sallyport/action"
)

func FuzzCursor(f *testing.F) {
	for _, c := range []Cursor{{NewTimestamp(time.Now()), "id"}, {NewTimestamp(time.Now()), "01a1fc54-2071-764d-97ed-96478a3f8078"}, {Epoch, strings.Repeat("x", 64)}} {
		f.Add(c.String())
	}
	for _, s := range []string{"", "x", "====", "MjAyNi0xMS0yMVQwMDowMDowMC4wMDAwMDBaJyBPUiAxPTE", base64.RawURLEncoding.EncodeToString([]byte("2026-11-21T00:00:00,000000Zid"))} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCursor(text)
		switch {
		case err != nil && !errors.Is(err, action.ErrInvalid):
			t.Fatalf("%q: %v", text, err)
		case err == nil && text != "" && c.String() != text:
			t.Fatalf("%q reads as %q", text, c.String())
		case err == nil && strings.ContainsAny(c.ID, "\x00\n "):
			t.Fatalf("%q holds the id %q", text, c.ID)
		}
	})
}

func TestTextOrderIsTimeOrder(t *testing.T) {
	base := time.Date(2026, 11, 21, 4, 5, 6, 0, time.UTC)
	last := ""
	for _, d := range []time.Duration{-time.Hour, 0, time.Microsecond, 10 * time.Microsecond, 999_999 * time.Microsecond, time.Second, 24 * time.Hour, 365 * 24 * time.Hour} {
		v, err := NewTimestamp(base.Add(d).In(time.FixedZone("x", -7200))).Value()
		if err != nil {
			t.Fatal(err)
		}
		text := v.(string)
		if len(text) != len(Layout) || text <= last {
			t.Errorf("%q after %q", text, last)
		}
		var back Timestamp
		if err := back.Scan(text); err != nil || !back.Time.Equal(base.Add(d)) {
			t.Errorf("%q reads as %v (%v)", text, back.Time, err)
		}
		last = text
	}
}
