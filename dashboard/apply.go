package dashboard

import (
	"fmt"
	"reflect"
	"slices"
)

// apply sets the fields of a word that an input of the API names: those of the
// same name, unless the input leaves them out (a nil pointer, or a zero value).
// Word and input are pointers to structs. The fields in own are the handler's to
// set, such as references that it resolves; fields that the word lacks are left
// alone. It panics when a field of one name has two types, which is a mistake in
// the declaration of either.
func apply(word, input any, own ...string) {
	to, from := reflect.ValueOf(word).Elem(), reflect.ValueOf(input).Elem()
	for _, f := range reflect.VisibleFields(from.Type()) {
		target, ok := to.Type().FieldByName(f.Name)
		value := from.FieldByIndex(f.Index)
		if f.Anonymous || !ok || slices.Contains(own, f.Name) {
			continue
		}
		optional := f.Type.Kind() == reflect.Pointer && f.Type != target.Type
		if f.Type != target.Type && (!optional || f.Type.Elem() != target.Type) {
			panic(fmt.Sprintf("dashboard: %s of %T is no %s of %T", f.Name, input, target.Type, word))
		}
		if value.IsZero() {
			continue
		}
		if optional {
			value = value.Elem()
		}
		to.FieldByIndex(target.Index).Set(value)
	}
}
