package cli

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

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
)

// readJSON parses a flag that is a JSON object.
func readJSON(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("JSON", &text); err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		return fmt.Errorf(`%q is not a JSON object; write one, such as '{"name": "value"}'`, text)
	}
	target.Set(reflect.ValueOf(json.RawMessage(text)))
	return nil
}

// readAnyJSON parses a flag that is any JSON value.
func readAnyJSON(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("JSON", &text); err != nil {
		return err
	}
	if !json.Valid([]byte(text)) {
		return fmt.Errorf(`%q is not valid JSON; a text has quotes: '"done"'`, text)
	}
	target.SetBytes([]byte(text))
	return nil
}

// readMode parses a mode of policy. "ask" is short for require_approval.
func readMode(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("mode", &text); err != nil {
		return err
	}
	if text == "ask" {
		text = string(action.ModeRequireApproval)
	}
	target.SetString(text)
	return nil
}

// readDuration parses a duration, with a unit for days, into the form of the
// API.
func readDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := parseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is not a duration; write a duration such as 8h or 90d", text)
	}
	target.SetString(d.String())
	return nil
}

// readOptionalDuration is [readDuration] with zero as unset.
func readOptionalDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	err := readDuration(ctx, target)
	if target.String() == "0s" {
		target.SetString("")
	}
	return err
}

// readSeconds parses a duration into a number of seconds.
func readSeconds(ctx *kong.DecodeContext, target reflect.Value) error {
	return readValidSeconds(ctx, target, "is not a duration; write a duration such as 8h or 90d", func(time.Duration) bool { return true })
}

// readLimit parses the page size of a list. It rejects zero, which a request
// would omit as unset.
func readLimit(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("limit", &text); err != nil {
		return err
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return fmt.Errorf("%q is not a limit; write a number from 1 to 100", text)
	}
	target.SetInt(int64(limit))
	return nil
}

// readWindow parses the window of a rate limit into a number of seconds.
func readWindow(ctx *kong.DecodeContext, target reflect.Value) error {
	return readValidSeconds(ctx, target, invalidWindow, validWindow)
}

// invalidWindow is the error for a window that [validWindow] rejects.
const invalidWindow = "is not a window; write a duration of whole seconds from 1s to 24h, such as 1m"

func validWindow(d time.Duration) bool {
	return d >= time.Second && d <= 24*time.Hour && d%time.Second == 0
}

// readCallTimeout parses the timeout of a call into a number of seconds.
func readCallTimeout(ctx *kong.DecodeContext, target reflect.Value) error {
	return readValidSeconds(ctx, target, "is not a timeout; write a duration of whole seconds up to 2m, such as 90s, or 0 for the gateway timeout", func(d time.Duration) bool {
		return d >= 0 && d <= action.MaxTimeout && d%time.Second == 0
	})
}

// readValidSeconds parses a duration into a number of seconds, and fails with
// message if it is not valid.
func readValidSeconds(ctx *kong.DecodeContext, target reflect.Value, message string, valid func(time.Duration) bool) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := parseDuration(text)
	if err != nil || !valid(d) {
		return fmt.Errorf("%q %s", text, message)
	}
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	target.SetInt(int64(d / time.Second))
	return nil
}

// readFolder parses the path of a folder. It rejects an empty path, which an
// unset shell variable causes and which would mean the current folder.
func readFolder(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("folder", &path); err != nil {
		return err
	}
	if path == "" {
		return errors.New("the path is empty, perhaps because a variable is not set; name a folder (. for the current one), or leave it out")
	}
	target.SetString(kong.ExpandPath(path))
	return nil
}

// readNetwork parses a network in CIDR notation.
func readNetwork(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("network", &text); err != nil {
		return err
	}
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("%q is not a network; write a network such as 10.1.0.0/16, or 127.0.0.1/32 for one address", text)
	}
	target.Set(reflect.ValueOf(network))
	return nil
}

// parseDuration parses a duration, with a unit for days, such as 90d.
func parseDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 16) // larger values overflow a duration
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// expiry is a duration such as 24h, or a time. Its zero value means no expiry.
type expiry struct{ api.Lifetime }

// UnmarshalText parses a flag.
func (e *expiry) UnmarshalText(text []byte) error {
	value := string(text)
	if d, err := parseDuration(value); err == nil {
		e.ExpiresIn = value
		if strings.HasSuffix(value, "d") { // the server has no unit for days
			e.ExpiresIn = d.String()
		}
		return nil
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		return invalidTime(value)
	}
	e.ExpiresAt = &at
	return nil
}

func (e *expiry) isSet() bool { return e.Lifetime != (api.Lifetime{}) }

func invalidTime(text string) error {
	return fmt.Errorf("%q is neither a duration such as 24h or 90d nor a time such as 2026-01-02T15:04:05Z", text)
}

// readPastTime parses a time in the past, or its age, into the form of the API.
func readPastTime(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	at, err := parsePastTime(text)
	target.SetString(at.UTC().Format(time.RFC3339Nano))
	return err
}

func parsePastTime(text string) (time.Time, error) {
	if d, err := parseDuration(text); err == nil {
		return time.Now().Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		err = invalidTime(text)
	}
	return at, err
}

// rate is a rate limit such as 10/1m.
type rate api.NewRate

// UnmarshalText parses a flag.
func (r *rate) UnmarshalText(text []byte) (err error) {
	calls, windowText, _ := strings.Cut(string(text), "/")
	if r.Calls, err = strconv.Atoi(calls); err != nil {
		return fmt.Errorf("%q is not a rate; write calls and window, such as 10/1m", text)
	}
	window, err := parseDuration(windowText)
	if err != nil || !validWindow(window) {
		return fmt.Errorf("%q %s", windowText, invalidWindow)
	}
	r.Seconds = int(window / time.Second)
	return nil
}

// pin requires a param to have exactly one value: /channel="C1".
type pin struct {
	pointer string
	value   json.RawMessage
}

// UnmarshalText parses a flag. The name of a param may contain "=", so the
// first one that valid JSON follows is the separator.
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
	quoted, _ := json.Marshal(value) // a string cannot fail to encode
	return fmt.Errorf("a pin is a param and its value as JSON, with quotes around a string: --pin '%s=%s'", pointer, quoted)
}

// grantLimits are the flags that narrow a grant. They ignore environment
// variables, of which the approver may not be aware.
type grantLimits struct {
	MaxCalls *int64 `env:"-" placeholder:"N" help:"Maximum number of calls${of_grant} (default: unlimited)."`
	Expires  expiry `field:"expires_in,expires_at" env:"-" placeholder:"D|TIME" help:"Expiry${of_grant}, such as 24h, 90d or 2026-01-02T15:04:05Z (default: no expiry)."`
}

func (b *grantLimits) isSet() bool { return b.MaxCalls != nil || b.Expires.isSet() }

// Vars returns the variables of help texts.
func Vars() kong.Vars {
	return kong.Vars{"data": command.DataFolder(), "event_kinds": strings.Join(action.EventKinds(), ","), "clients": ClientNames()}
}

// ClientNames returns the supported clients, separated by commas.
func ClientNames() string {
	clients := agent.Clients()
	names := make([]string, len(clients))
	for i, c := range clients {
		names[i] = string(c)
	}
	return strings.Join(names, ",")
}

// FlagTypes returns the decoders of custom flag types.
func FlagTypes() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		for name, read := range map[string]kong.MapperFunc{
			"folder": readFolder, "seconds": readSeconds, "period": readDuration, "span": readOptionalDuration, "window": readWindow,
			"limit": readLimit, "calltime": readCallTimeout, "anyjson": readAnyJSON, "moment": readPastTime,
		} {
			if err := kong.NamedMapper(name, read).Apply(k); err != nil {
				return err
			}
		}
		if err := kong.TypeMapper(reflect.TypeFor[json.RawMessage](), kong.MapperFunc(readJSON)).Apply(k); err != nil {
			return err
		}
		if err := kong.TypeMapper(reflect.TypeFor[action.Mode](), kong.MapperFunc(readMode)).Apply(k); err != nil {
			return err
		}
		return kong.TypeMapper(reflect.TypeFor[netip.Prefix](), kong.MapperFunc(readNetwork)).Apply(k)
	})
}
