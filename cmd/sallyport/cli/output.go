package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

// confirmation is a sentence for an operation that answers nothing, for [perform].
func confirmation(message string) func(io.Writer, *api.None) {
	return func(w io.Writer, _ *api.None) { printLine(w, message) }
}

// columns prints a list as a table. Each word of layout is the head of a column
// and the JSON name of the field in it, such as "STATE=enabled"; _ in a head is
// a space. It panics for a name that no field has.
func columns[T any](layout string) func(io.Writer, *api.List[T]) {
	var heads []string
	var fields [][]int
	for column := range strings.FieldsSeq(layout) {
		head, name, _ := strings.Cut(column, "=")
		field := findField(reflect.TypeFor[T](), name)
		if field == nil {
			panic(fmt.Sprintf("%T has no field %s", *new(T), name))
		}
		heads, fields = append(heads, head), append(fields, field)
	}
	return table(strings.Join(heads, " "), func(item *T) []string {
		row := make([]string, len(fields))
		for i, field := range fields {
			row[i] = tableCell(heads[i], reflect.ValueOf(item).Elem().FieldByIndex(field))
		}
		return row
	})
}

// table prints a list as a table of what row says of each item; _ in a head is a
// space.
func table[T any](heads string, row func(*T) []string) func(io.Writer, *api.List[T]) {
	return func(w io.Writer, all *api.List[T]) {
		printTable(w, heads, all.Items, row)
		printNextPage(w, all.NextCursor)
	}
}

// printTable is the table of [cells] for items that are no answer of their own.
func printTable[T any](w io.Writer, heads string, items []T, row func(*T) []string) {
	rows := make([][]string, len(items))
	for i := range items {
		rows[i] = row(&items[i])
	}
	names := strings.Fields(heads)
	for i := range names {
		names[i] = strings.ReplaceAll(names[i], "_", " ")
	}
	command.Table(w, names, rows)
}

// findField finds the field with a JSON name; one of the struct itself goes
// before one of what it embeds.
func findField(t reflect.Type, name string) []int {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return []int{i}
		}
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Type.Kind() == reflect.Struct {
			if rest := findField(f.Type, name); rest != nil {
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
		return relativeTime(&value)
	case *time.Time:
		return relativeTime(value)
	case bool:
		if head == "STATE" {
			return enabledText(value)
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

// maxCell is how much of a sentence a table shows, in characters; what is shown
// alone has all of it.
const maxCell = 60

// truncate is the beginning of a sentence, for a table.
func truncate(text string) string {
	runes := []rune(text)
	if len(runes) <= maxCell {
		return text
	}
	return string(runes[:maxCell-1]) + "…"
}

// relativeTime tells a time as a person would: in 4m, 2h ago.
func relativeTime(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	d := time.Until(*t).Round(time.Second)
	if d > 0 {
		return "in " + shortDuration(d)
	}
	return shortDuration(-d) + " ago"
}

func shortDuration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d.Round(time.Minute) < time.Hour:
		return fmt.Sprintf("%dm", d.Round(time.Minute)/time.Minute)
	case d.Round(time.Hour) < 48*time.Hour:
		return fmt.Sprintf("%dh", d.Round(time.Hour)/time.Hour)
	}
	return fmt.Sprintf("%dd", d.Round(24*time.Hour)/(24*time.Hour))
}

// printNextPage says that a list goes on at a cursor, unless that is empty.
func printNextPage(w io.Writer, cursor string) {
	if cursor != "" {
		fmt.Fprintf(w, "and more: the same command goes on with --cursor %s\n", cursor)
	}
}

// expiryText tells when something that may last for ever ends.
func expiryText(t *time.Time) string {
	switch {
	case t == nil:
		return "never expires"
	case t.Before(time.Now()):
		return "expired " + relativeTime(t)
	}
	return "expires " + relativeTime(t)
}

// printJSON shows JSON on lines of its own, indented and harmless.
func printJSON(w io.Writer, indent string, raw json.RawMessage) {
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		out.Reset()
		out.Write(raw)
	}
	for line := range strings.Lines(out.String()) {
		fmt.Fprintf(w, "%s%s\n", indent, command.Printable(strings.TrimSuffix(line, "\n")))
	}
}

func enabledText(enabled bool) string {
	if enabled {
		return "enabled"
	}
	return "disabled"
}

// statusFilter is the status by which a list of agents' requests is asked for; all
// is none.
func statusFilter[S ~string](status S) S {
	if status == "all" {
		return ""
	}
	return status
}

func printLine(w io.Writer, text string) { fmt.Fprintln(w, command.Printable(text)) }

func lineText(text string) func(io.Writer) {
	return func(w io.Writer) { printLine(w, text) }
}
