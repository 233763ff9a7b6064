package cli

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

// request is a command that calls one operation: its flags and arguments are
// those of the operation's input. New creates it with a route and a printer.
type request[In, Out any] struct {
	clientFlags
	In In `embed:""`

	operation api.Route[In, Out]
	show      func(context.Context, io.Writer, *request[In, Out], *Out)
}

func (r *request[In, Out]) route() api.Operation { return r.operation.Operation }

// Run calls the operation and prints the answer, with its warning if it has one.
func (r *request[In, Out]) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &r.clientFlags, std, r.operation, r.In, func(w io.Writer, out *Out) {
		std.Warn(fieldText(reflect.ValueOf(out).Elem(), "warning"))
		r.show(ctx, w, r, out)
	})
}

// shows returns a command that prints the answer with a function.
func shows[In, Out any](route api.Route[In, Out], show func(io.Writer, *Out)) request[In, Out] {
	return request[In, Out]{operation: route, show: func(_ context.Context, w io.Writer, _ *request[In, Out], out *Out) { show(w, out) }}
}

// showsWith is [shows] for a function that prints commands or names of other
// resources.
func showsWith[In, Out any](route api.Route[In, Out], show func(context.Context, io.Writer, *clientFlags, *Out)) request[In, Out] {
	return request[In, Out]{operation: route, show: func(ctx context.Context, w io.Writer, r *request[In, Out], out *Out) {
		show(ctx, w, &r.clientFlags, out)
	}}
}

// lists returns a command that prints a list as a table; see [columns].
func lists[In, T any](route api.Route[In, api.List[T]], layout string) request[In, api.List[T]] {
	return shows(route, columns[T](layout))
}

// listsNamed is [shows] for a table whose rows contain names of other resources,
// which it loads.
func listsNamed[In, T any](route api.Route[In, api.List[T]], named []api.Operation, heads string, row func(labels, *T) []string) request[In, api.List[T]] {
	return showsWith(route, func(ctx context.Context, w io.Writer, c *clientFlags, all *api.List[T]) {
		names := c.loadLabels(ctx, named...)
		table(heads, func(item *T) []string { return row(names, item) })(w, all)
	})
}

// says returns a command that prints lines. {name} in a line stands for a field
// of the answer, or else of the input, by its name in the API.
func says[In, Out any](route api.Route[In, Out], lines ...string) request[In, Out] {
	return request[In, Out]{operation: route, show: func(_ context.Context, w io.Writer, r *request[In, Out], out *Out) {
		field := regexp.MustCompile(`\{(\w+)\}`)
		for _, line := range lines {
			printLine(w, field.ReplaceAllStringFunc(line, func(name string) string {
				name = strings.Trim(name, "{}")
				if text := fieldText(reflect.ValueOf(out).Elem(), name); text != "" {
					return text
				}
				return fieldText(reflect.ValueOf(&r.In).Elem(), name)
			}))
		}
	}}
}

// fieldText formats the field of a struct with a name in the API. It is empty if
// there is none.
func fieldText(v reflect.Value, name string) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	field := findField(v.Type(), name)
	if field == nil {
		return ""
	}
	return fmt.Sprint(v.FieldByIndex(field).Interface())
}
