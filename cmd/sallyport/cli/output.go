package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

// columns prints a list as a table. Each word of layout is a column: its head
// and the JSON name of its field, such as "STATE=enabled"; _ in a head stands
// for a space. It panics if the type lacks the field.
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

// table prints a list as a table with one row per item; _ in a head stands for
// a space.
func table[T any](heads string, row func(*T) []string) func(io.Writer, *api.List[T]) {
	return func(w io.Writer, all *api.List[T]) {
		printTable(w, heads, all.Items, row)
		printNextPage(w, all.NextCursor)
	}
}

// printTable is [table] for items that are not a list response.
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

// findField returns the index of the field with a name in the API: of JSON, a
// path or a query. A field of the struct itself takes precedence over an
// embedded one.
func findField(t reflect.Type, name string) []int {
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		if json, _, _ := strings.Cut(tag.Get("json"), ","); name == cmp.Or(json, tag.Get("path"), tag.Get("query")) {
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

// tableCell formats a value for a table.
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

// maxCell is the maximum length of a table cell, in characters.
const maxCell = 60

// truncate shortens text to the length of a table cell.
func truncate(text string) string {
	runes := []rune(text)
	if len(runes) <= maxCell {
		return text
	}
	return string(runes[:maxCell-1]) + "…"
}

// relativeTime formats a time relative to now, such as "in 4m" or "2h ago".
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

// printNextPage prints the cursor of the next page, if there is one.
func printNextPage(w io.Writer, cursor string) {
	if cursor != "" {
		fmt.Fprintf(w, "there are more: continue with --cursor %s\n", cursor)
	}
}

// expiryText describes an expiry; nil means never.
func expiryText(t *time.Time) string {
	switch {
	case t == nil:
		return "never expires"
	case t.Before(time.Now()):
		return "expired " + relativeTime(t)
	}
	return "expires " + relativeTime(t)
}

// printJSON prints indented JSON with control characters escaped.
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

// statusFilter returns the status to filter by; "all" means no filter.
func statusFilter[S ~string](status S) S {
	if status == "all" {
		return ""
	}
	return status
}

func printLine(w io.Writer, text string) { fmt.Fprintln(w, command.Printable(text)) }

// lineText returns a printer of one line.
func lineText(text string) func(io.Writer) {
	return func(w io.Writer) { printLine(w, text) }
}

// confirmation returns a printer of a message, for an operation without a
// response body.
func confirmation(message string) func(io.Writer, *api.None) {
	return func(w io.Writer, _ *api.None) { printLine(w, message) }
}
