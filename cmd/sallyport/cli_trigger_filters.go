package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// filter is what of a JSON Schema a person needs to write a filter.
type filter struct {
	Type        any               `json:"type"`
	Description string            `json:"description"`
	Enum        []any             `json:"enum"`
	Items       *filter           `json:"items"`
	Properties  map[string]filter `json:"properties"`
}

// showFilters shows the filters of a schema, and how one is written.
func showFilters(w io.Writer, schema json.RawMessage) {
	var all filter
	if json.Unmarshal(schema, &all) != nil || len(all.Properties) == 0 {
		said("    no filters")(w)
		return
	}
	names := slices.Sorted(maps.Keys(all.Properties))
	for _, name := range names {
		f := all.Properties[name]
		f.show(w, "    "+name)
		for _, part := range slices.Sorted(maps.Keys(f.Properties)) {
			inner := f.Properties[part]
			inner.show(w, "        "+part)
		}
	}
	for _, name := range names {
		if f := all.Properties[name]; len(f.Properties) == 0 && f.example() != nil {
			line, _ := json.Marshal(map[string]any{name: f.example()}) // of strings, numbers and booleans
			said("    such as --config '" + string(line) + "'")(w)
			return
		}
	}
}

// show is one filter in a line.
func (f *filter) show(w io.Writer, name string) {
	text := name + " (" + f.kind() + ")"
	if f.Description != "" {
		text += ": " + strings.ReplaceAll(f.Description, "`", "")
	}
	said(text)(w)
}

// kind says what a filter's value may be.
func (f *filter) kind() string {
	choices := f.Enum
	if f.Items != nil && len(f.Items.Enum) > 0 {
		choices = f.Items.Enum
	}
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = fmt.Sprint(c)
	}
	switch {
	case f.Items != nil && len(words) > 0:
		return "list of " + strings.Join(words, ", ")
	case f.Items != nil:
		return "list of " + f.Items.kind() + "s"
	case len(words) > 0:
		return strings.Join(words, ", ")
	}
	if kind, ok := f.Type.(string); ok {
		return kind
	}
	return "value"
}

// example is a value that fits, or nil.
func (f *filter) example() any {
	switch {
	case len(f.Enum) > 0:
		return f.Enum[0]
	case f.Items != nil:
		if one := f.Items.example(); one != nil {
			return []any{one}
		}
		return nil
	}
	switch f.Type {
	case "boolean":
		return true
	case "string":
		return "…"
	}
	return nil
}
