package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// expiry is when something ends: after a while, such as 24h, or at a time.
// Not given, it never ends.
type expiry struct{ field, value string }

// UnmarshalText reads a flag.
func (e *expiry) UnmarshalText(text []byte) error {
	e.value = string(text)
	if _, err := time.ParseDuration(e.value); err == nil {
		e.field = "expires_in"
		return nil
	}
	if _, err := time.Parse(time.RFC3339, e.value); err == nil {
		e.field = "expires_at"
		return nil
	}
	return notTime(e.value)
}

func (e expiry) into(body map[string]any) {
	if e.field != "" {
		body[e.field] = e.value
	}
}

func notTime(text string) error {
	return fmt.Errorf("%q is neither a duration such as 24h nor a time such as 2026-01-02T15:04:05Z", text)
}

// moment is a time in the past: a time, or how long ago it was.
type moment struct{ time.Time }

// UnmarshalText reads a flag.
func (m *moment) UnmarshalText(text []byte) error {
	if d, err := time.ParseDuration(string(text)); err == nil {
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
type rate struct {
	Calls   int `json:"calls"`
	Seconds int `json:"seconds"`
}

// UnmarshalText reads a flag.
func (r *rate) UnmarshalText(text []byte) (err error) {
	calls, window, _ := strings.Cut(string(text), "/")
	wrong := fmt.Errorf("%q is no rate; write calls and window, such as 10/1m", text)
	if r.Calls, err = strconv.Atoi(calls); err != nil {
		return wrong
	}
	d, err := time.ParseDuration(window)
	if err != nil {
		return wrong
	}
	r.Seconds, err = seconds(d)
	return err
}

// seconds refuses what would be cut off without a word.
func seconds(d time.Duration) (int, error) {
	if d%time.Second != 0 {
		return 0, fmt.Errorf("a window has whole seconds; %s has not", d)
	}
	return int(d / time.Second), nil
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

// bounds are the flags that narrow a grant.
type bounds struct {
	MaxCalls *int64 `placeholder:"N" help:"Calls that it lets through in all (default: any number)."`
	Expires  expiry `placeholder:"D|TIME" help:"When it ends, such as 24h or 2026-01-02T15:04:05Z (default: never)."`
}

func (b *bounds) given() bool { return b.MaxCalls != nil || b.Expires.field != "" }

func (b *bounds) into(body map[string]any) {
	if b.MaxCalls != nil {
		body["max_calls"] = *b.MaxCalls
	}
	b.Expires.into(body)
}
