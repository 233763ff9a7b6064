// Package defaults fills in the values that a configuration leaves out, from
// the tags of its struct: a default is written once, beside its field, where
// flags that embed the struct read it too.
package defaults

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// Set gives every exported field of the struct at c that is zero the value of
// its `default` tag, embedded structs included. Durations are written like 5m,
// whole numbers in decimal. It panics on a tag that is no such value: that is a
// mistake in the program.
func Set(c any) { set(reflect.ValueOf(c).Elem()) }

func set(v reflect.Value) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if field.Anonymous && value.Kind() == reflect.Struct {
			set(value)
			continue
		}
		text, ok := field.Tag.Lookup("default")
		if !ok || !value.IsZero() {
			continue
		}
		n, err := parse(value, text)
		if err != nil {
			panic(fmt.Sprintf("the default of %s.%s: %v", v.Type(), field.Name, err))
		}
		value.SetInt(n)
	}
}

func parse(value reflect.Value, text string) (int64, error) {
	switch {
	case value.Type() == reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		return int64(d), err
	case value.CanInt():
		return strconv.ParseInt(text, 10, 64)
	}
	return 0, fmt.Errorf("a %s has no default here", value.Type())
}
