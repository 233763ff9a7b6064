package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sallyport/action"
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
	_, out, raw, err := fetchStatus(ctx, server, route, in)
	return out, raw, err
}

// fetchStatus is fetch with the status of the answer.
func fetchStatus[In, Out any](ctx context.Context, server *client, route api.Route[In, Out], in In) (status int, out *Out, raw json.RawMessage, err error) {
	answer, err := apiclient.Do(ctx, &server.Client, route, in)
	if answer == nil {
		return 0, new(Out), nil, server.explain(err)
	}
	return answer.Status, &answer.Body, answer.Raw, err
}

// done is a sentence for an operation that answers nothing, for [perform].
func done(sentence string) func(io.Writer, *api.None) {
	return func(w io.Writer, _ *api.None) { said(sentence)(w) }
}

// columns prints a list as a table. Each word of layout is the head of a column
// and the JSON name of the field in it, such as "STATE=enabled"; _ in a head is
// a space. It panics for a name that no field has.
func columns[T any](layout string) func(io.Writer, *api.List[T]) {
	var heads []string
	var fields [][]int
	for column := range strings.FieldsSeq(layout) {
		head, name, _ := strings.Cut(column, "=")
		field := fieldNamed(reflect.TypeFor[T](), name)
		if field == nil {
			panic(fmt.Sprintf("%T has no field %s", *new(T), name))
		}
		heads, fields = append(heads, head), append(fields, field)
	}
	return cells(strings.Join(heads, " "), func(item *T) []string {
		row := make([]string, len(fields))
		for i, field := range fields {
			row[i] = tableCell(heads[i], reflect.ValueOf(item).Elem().FieldByIndex(field))
		}
		return row
	})
}

// cells prints a list as a table of what row says of each item; _ in a head is a
// space.
func cells[T any](heads string, row func(*T) []string) func(io.Writer, *api.List[T]) {
	return func(w io.Writer, all *api.List[T]) {
		tableOf(w, heads, all.Items, row)
		more(w, all.NextCursor)
	}
}

// tableOf is the table of [cells] for items that are no answer of their own.
func tableOf[T any](w io.Writer, heads string, items []T, row func(*T) []string) {
	rows := make([][]string, len(items))
	for i := range items {
		rows[i] = row(&items[i])
	}
	names := strings.Fields(heads)
	for i := range names {
		names[i] = strings.ReplaceAll(names[i], "_", " ")
	}
	table(w, names, rows)
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
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil || members == nil {
		return fmt.Errorf(`%q is no JSON object; write one, such as '{"name": "value"}'`, text)
	}
	target.Set(reflect.ValueOf(json.RawMessage(text)))
	return nil
}

// readAnyJSON reads a flag that is any JSON.
func readAnyJSON(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("JSON", &text); err != nil {
		return err
	}
	if !json.Valid([]byte(text)) {
		return fmt.Errorf(`%q is no JSON; a text has quotes: '"done"'`, text)
	}
	target.SetBytes([]byte(text))
	return nil
}

// readPeriod reads a duration, also one of days, as the API takes it.
func readPeriod(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := span(text)
	if err != nil {
		return fmt.Errorf("%q is no duration; write one such as 8h or 90d", text)
	}
	target.SetString(d.String())
	return nil
}

// readSpan is readPeriod for a duration of which zero is as if nothing was given.
func readSpan(ctx *kong.DecodeContext, target reflect.Value) error {
	err := readPeriod(ctx, target)
	if target.String() == "0s" {
		target.SetString("")
	}
	return err
}

// readSeconds reads a duration into a number of seconds.
func readSeconds(ctx *kong.DecodeContext, target reflect.Value) error {
	return seconds(ctx, target, "is no duration; write one such as 8h or 90d", func(time.Duration) bool { return true })
}

// readLimit reads how long a list may be. Zero is refused here: a request leaves
// it out, as a limit that was not given.
func readLimit(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("limit", &text); err != nil {
		return err
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 {
		return fmt.Errorf("%q is no limit; write a number from 1 to 100", text)
	}
	target.SetInt(int64(limit))
	return nil
}

// readWindow reads the time in which calls are counted into a number of seconds.
func readWindow(ctx *kong.DecodeContext, target reflect.Value) error {
	return seconds(ctx, target, notWindow, inWindow)
}

// notWindow refuses a time that [inWindow] does.
const notWindow = "is no window; write whole seconds from 1s to 24h, such as 1m"

func inWindow(d time.Duration) bool {
	return d >= time.Second && d <= 24*time.Hour && d%time.Second == 0
}

// readCallTime reads how long one call may take into a number of seconds.
func readCallTime(ctx *kong.DecodeContext, target reflect.Value) error {
	return seconds(ctx, target, "is no time for a call; write whole seconds up to 2m, such as 90s, or 0 for the gateway's", func(d time.Duration) bool {
		return d >= 0 && d <= action.MaxTimeout && d%time.Second == 0
	})
}

// seconds reads an accepted duration into a number of seconds, and says wrong
// of any other text.
func seconds(ctx *kong.DecodeContext, target reflect.Value, wrong string, good func(time.Duration) bool) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return err
	}
	d, err := span(text)
	if err != nil || !good(d) {
		return fmt.Errorf("%q %s", text, wrong)
	}
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	target.SetInt(int64(d / time.Second))
	return nil
}
