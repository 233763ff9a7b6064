package page

import (
	"cmp"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"sallyport/dashboard"
)

// filters are what a page's list is narrowed to. They are in its URL, so that
// they can be linked and need no script.
type filters struct {
	path    string
	values  url.Values
	options map[string][]string // the values that there are, by parameter
}

// readFilters reads the first value of each parameter.
func (p *pageRequest) readFilters(names ...string) filters {
	f := filters{path: p.r.URL.Path, values: url.Values{}, options: map[string][]string{}}
	for _, name := range append(names, "cursor") {
		if v := p.query(name); v != "" {
			f.values.Set(name, v)
		}
	}
	return f
}

// readQuery decodes the page's URL into the input of an API operation by the
// tags of its fields, and reads more parameters of the page's own. Lists may
// be repeated or separated by commas. The size of a page is not for the URL.
func readQuery[T any](p *pageRequest, in *T, more ...string) filters {
	f, v := p.readFilters(more...), reflect.ValueOf(in).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		if field.Anonymous {
			continue
		}
		param := dashboard.NewParam(field)
		text := param.Fallback
		if param.Name != "limit" {
			f.read(p, param.Name, field.Type.Kind() == reflect.Slice)
			f.oneOf(p, param.Name, enumOf(field))
			text = cmp.Or(strings.Join(f.values[param.Name], ","), text)
		}
		if text == "" || p.err != nil {
			continue
		}
		if _, err := param.Set(v.FieldByIndex(field.Index), text); err != nil {
			p.setError(dashboard.Invalid("/"+param.Name, param.Name+" "+err.Error()+"."))
		}
	}
	return f
}

// read reads a parameter, trimmed: its first value, or all of a list.
func (f filters) read(p *pageRequest, name string, list bool) {
	values := p.r.URL.Query()[name]
	if list {
		values = strings.Split(strings.Join(values, ","), ",")
	}
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" && (!f.values.Has(name) || list && !f.Has(name, v)) {
			f.values.Add(name, v)
		}
	}
}

// enumOf returns the values that the tag of a field lists.
func enumOf(field reflect.StructField) []string {
	return strings.FieldsFunc(field.Tag.Get("enum"), func(r rune) bool { return r == ',' })
}

// oneOf refuses a filter that is none of its options.
func (f filters) oneOf(p *pageRequest, name string, options []string) {
	if len(options) == 0 {
		return
	}
	f.options[name] = options
	for _, v := range f.values[name] {
		if !slices.Contains(options, v) {
			p.setError(dashboard.Invalid("/"+name, "There is no such "+name+"; use one of: "+strings.Join(options, ", ")+"."))
		}
	}
}

// Options returns the values that a filter can have.
func (f filters) Options(name string) []string { return f.options[name] }

// Get returns what a filter is set to; empty: it lets everything pass.
func (f filters) Get(name string) string { return f.values.Get(name) }

// Has reports whether a filter has a value, of several.
func (f filters) Has(name, value string) bool { return slices.Contains(f.values[name], value) }

// With is the address of the list's beginning with one filter set otherwise.
func (f filters) With(name, value string) string {
	v := f.copy(name, "cursor")
	if value != "" {
		v.Set(name, value)
	}
	return address(f.path, v)
}

// Without is the address of the list's beginning without some filters.
func (f filters) Without(names ...string) string {
	return address(f.path, f.copy(append(names, "cursor")...))
}

// Older is the address of the page after this one; empty: there is none.
func (f filters) Older(cursor string) string {
	if cursor == "" {
		return ""
	}
	v := f.copy()
	v.Set("cursor", cursor)
	return address(f.path, v)
}

// Newest is the address of the list's beginning; empty: this is it.
func (f filters) Newest() string {
	if f.Get("cursor") == "" {
		return ""
	}
	return f.Without()
}

// All is the address of the list with nothing left out.
func (f filters) All() string { return f.path }

// Any reports whether something is left out.
func (f filters) Any() bool { return len(f.copy("cursor")) > 0 }

// copy leaves some filters out.
func (f filters) copy(without ...string) url.Values {
	v := maps.Clone(f.values)
	for _, name := range without {
		v.Del(name)
	}
	return v
}

func address(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
