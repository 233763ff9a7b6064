package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sallyport/api"
	apiclient "sallyport/client"
)

// perform calls an operation of the server and prints its answer: as JSON with
// --json, and otherwise as human writes it.
func perform[In, Out any](ctx context.Context, r *remote, std *stdio, route api.Route[In, Out], in In, human func(io.Writer, *Out)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	out, raw, err := fetch(ctx, server, route, in)
	if err != nil {
		return err
	}
	return r.print(std, raw, func(w io.Writer) { human(w, out) })
}

// fetch calls an operation and returns its answer, and the same as it came. With
// an error the answer is empty, for callers that can do without it.
func fetch[In, Out any](ctx context.Context, server *client, route api.Route[In, Out], in In) (*Out, json.RawMessage, error) {
	out := new(Out)
	request, err := (&apiclient.Client{Base: server.base, Key: server.key}).NewRequest(ctx, &route.Operation, in)
	if err != nil {
		return out, nil, err
	}
	response, err := server.dispatch(request)
	if err != nil {
		return out, nil, err
	}
	_, raw, err := whole(response)
	if err != nil || len(raw) == 0 {
		return out, raw, err
	}
	return out, raw, decode(raw, out)
}

// done is a sentence for an operation that answers nothing, for [perform].
func done(sentence string) func(io.Writer, *api.None) {
	return func(w io.Writer, _ *api.None) { said(sentence)(w) }
}

// columns prints a list as a table. Each word of layout is the head of a column
// and the JSON name of the field in it, such as "STATE=enabled"; _ in a head is
// a space. It panics for a name that no field has.
func columns[T any](layout string) func(io.Writer, *api.List[T]) {
	return func(w io.Writer, all *api.List[T]) {
		var heads []string
		var fields [][]int
		for column := range strings.FieldsSeq(layout) {
			head, name, _ := strings.Cut(column, "=")
			heads = append(heads, strings.ReplaceAll(head, "_", " "))
			field := fieldNamed(reflect.TypeFor[T](), name)
			if field == nil {
				panic(fmt.Sprintf("%T has no field %s", *new(T), name))
			}
			fields = append(fields, field)
		}
		rows := make([][]string, len(all.Items))
		for i := range all.Items {
			for j, field := range fields {
				rows[i] = append(rows[i], tableCell(heads[j], reflect.ValueOf(&all.Items[i]).Elem().FieldByIndex(field)))
			}
		}
		table(w, heads, rows)
		more(w, all.NextCursor)
	}
}

// fieldNamed finds the field with a JSON name; one of the struct itself goes
// before one of what it embeds.
func fieldNamed(t reflect.Type, name string) []int {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return []int{i}
		}
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Type.Kind() == reflect.Struct {
			if rest := fieldNamed(f.Type, name); rest != nil {
				return append([]int{i}, rest...)
			}
		}
	}
	return nil
}

// tableCell shows a value in a table.
func tableCell(head string, v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Time:
		return since(&value)
	case *time.Time:
		return since(value)
	case bool:
		if head == "STATE" {
			return onOff(value)
		}
	case []string:
		return strings.Join(value, ", ")
	case json.RawMessage:
		return string(value)
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}

// readJSON reads a flag that is a JSON object.
func readJSON(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("JSON", &text); err != nil {
		return err
	}
	var o object
	if err := o.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	target.Set(reflect.ValueOf(o.raw))
	return nil
}

// readSeconds reads a duration into a number of seconds.
func readSeconds(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := span(text)
	if err != nil {
		return fmt.Errorf("%q is no duration; write one such as 8h or 90d", text)
	}
	seconds := int64(d / time.Second)
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	target.SetInt(seconds)
	return nil
}
