// Package defaults fills in the values that a configuration leaves out, from
// the tags of its struct: a default is written once, beside its field, where
// flags that embed the struct read it too.
package defaults

import (
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"time"
)

// Set gives every exported field of the struct at c that is zero the value of
// its `default` tag, embedded structs included, and those that an `embed` tag makes flags of. Durations are written like 5m,
// whole numbers in decimal, the clock of a func() time.Time as time.Now, and a
// *slog.Logger that discards as discard. It panics on any other tag: that is a
// mistake in the program.
func Set(c any) { set(reflect.ValueOf(c).Elem()) }

func set(v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if _, flags := field.Tag.Lookup("embed"); (field.Anonymous || flags) && value.Kind() == reflect.Struct {
			set(value)
			continue
		}
		text, ok := field.Tag.Lookup("default")
		if !ok || !value.IsZero() {
			continue
		}
		parsed, err := parse(value, text)
		if err != nil {
			panic(fmt.Sprintf("the default of %s.%s: %v", v.Type(), field.Name, err))
		}
		value.Set(reflect.ValueOf(parsed).Convert(value.Type()))
	}
}

func parse(value reflect.Value, text string) (any, error) {
	switch value.Interface().(type) {
	case time.Duration:
		return time.ParseDuration(text)
	case func() time.Time:
		if text == "time.Now" {
			return time.Now, nil
		}
	case *slog.Logger:
		if text == "discard" {
			return slog.New(slog.DiscardHandler), nil
		}
	default:
		if value.CanInt() {
			return strconv.ParseInt(text, 10, 64)
		}
	}
	return nil, fmt.Errorf("a %s has no default %q", value.Type(), text)
}
