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

// readMoment reads a time in the past, or how long ago it was, as the API takes it.
func readMoment(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	at, err := moment(text)
	target.SetString(at.UTC().Format(time.RFC3339Nano))
	return err
}

func moment(text string) (time.Time, error) {
	if d, err := span(text); err == nil {
		return time.Now().Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = notTime(text)
	}
	return at, err
}

// rate is a number of calls in a window, such as 10/1m.
type rate api.NewRate

// UnmarshalText reads a flag.
func (r *rate) UnmarshalText(text []byte) (err error) {
	calls, in, _ := strings.Cut(string(text), "/")
	if r.Calls, err = strconv.Atoi(calls); err != nil {
		return fmt.Errorf("%q is no rate; write calls and window, such as 10/1m", text)
	}
	window, err := span(in)
	if err != nil || !inWindow(window) {
		return fmt.Errorf("%q %s", in, notWindow)
	}
	r.Seconds = int(window / time.Second)
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
