package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sallyport/api"
)

// readFolder reads the path of a folder. An empty one, of a variable that is not
// set, would otherwise be the folder in which the command runs.
func readFolder(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("folder", &path); err != nil {
		return err
	}
	if path == "" {
		return errors.New("it is empty (a variable that is not set?); name a folder, . for this one, or leave it out")
	}
	target.SetString(kong.ExpandPath(path))
	return nil
}

// readNetwork reads a network in CIDR.
func readNetwork(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("network", &text); err != nil {
		return err
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("%q is no network; write one such as 10.1.0.0/16, or 127.0.0.1/32 for one address", text)
	}
	target.Set(reflect.ValueOf(network))
	return nil
}

// span reads a duration, also one of days, such as 90d.
func span(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 16) // more would not fit
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// lasting is how long something is good, such as 8h or 90d; zero: not given.
type lasting struct{ time.Duration }

// UnmarshalText reads a flag.
func (l *lasting) UnmarshalText(text []byte) (err error) {
	if l.Duration, err = span(string(text)); err != nil {
		return fmt.Errorf("%q is no duration; write one such as 8h or 90d", text)
	}
	return nil
}

// expiry is when something ends: after a while, such as 24h, or at a time.
// Not given, it never ends.
type expiry struct{ api.Lifetime }

// UnmarshalText reads a flag.
func (e *expiry) UnmarshalText(text []byte) error {
	value := string(text)
	if d, err := span(value); err == nil {
		e.ExpiresIn = value
		if strings.HasSuffix(value, "d") { // the server knows no days
			e.ExpiresIn = d.String()
		}
		return nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return notTime(value)
	}
	e.ExpiresAt = &at
	return nil
}

func (e *expiry) given() bool { return e.Lifetime != (api.Lifetime{}) }

func notTime(text string) error {
	return fmt.Errorf("%q is neither a duration such as 24h or 90d nor a time such as 2026-01-02T15:04:05Z", text)
}

// moment is a time in the past: a time, or how long ago it was.
type moment struct{ time.Time }

// UnmarshalText reads a flag.
func (m *moment) UnmarshalText(text []byte) error {
	if d, err := span(string(text)); err == nil {
		m.Time = time.Now().Add(-d)
		return nil
	}
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return notTime(string(text))
	}
	m.Time = t
	return nil
}

// String is the time as the API reads it; empty: not given.
func (m moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.UTC().Format(time.RFC3339Nano)
}

// rate is a number of calls in a window, such as 10/1m.
type rate api.NewRate

// UnmarshalText reads a flag.
func (r *rate) UnmarshalText(text []byte) (err error) {
	calls, in, _ := strings.Cut(string(text), "/")
	if r.Calls, err = strconv.Atoi(calls); err != nil {
		return fmt.Errorf("%q is no rate; write calls and window, such as 10/1m", text)
	}
	var w window
	err = w.UnmarshalText([]byte(in))
	r.Seconds = w.seconds
	return err
}

// window is the time in which calls are counted, such as 1m or 24h.
type window struct{ seconds int }

// UnmarshalText reads a flag.
func (w *window) UnmarshalText(text []byte) error {
	d, err := span(string(text))
	if err != nil || d < time.Second || d > 24*time.Hour || d%time.Second != 0 {
		return fmt.Errorf("%q is no window; write whole seconds from 1s to 24h, such as 1m", text)
	}
	w.seconds = int(d / time.Second)
	return nil
}

// pin is a param that must have exactly one value: /channel="C1".
type pin struct {
	pointer string
	value   json.RawMessage
}

// UnmarshalText reads a flag. A param's name may have a = in it, so that the
// first one which JSON follows counts.
func (p *pin) UnmarshalText(text []byte) error {
	for i, b := range text {
		if b == '=' && json.Valid(text[i+1:]) {
			p.pointer, p.value = string(text[:i]), bytes.Clone(text[i+1:])
			return nil
		}
	}
	pointer, value, ok := strings.Cut(string(text), "=")
	if !ok {
		pointer, value = string(text), "C1"
	}
	quoted, _ := json.Marshal(value) // a string always encodes
	return fmt.Errorf("a pin is a param and its value as JSON; a text has quotes: --pin '%s=%s'", pointer, quoted)
}

// bounds are the flags that narrow a grant. None of what a decision lets through comes
// from a variable, which whoever decides may not know of.
type bounds struct {
	MaxCalls *int64 `env:"-" placeholder:"N" help:"Maximum number of calls (default: unlimited)."`
	Expires  expiry `field:"expires_in,expires_at" env:"-" placeholder:"D|TIME" help:"Expiry, such as 24h, 90d or 2026-01-02T15:04:05Z (default: no expiry)."`
}

func (b *bounds) given() bool { return b.MaxCalls != nil || b.Expires.given() }
