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

// filters narrow the list of a page. They are in its URL, so that links work
// without scripts.
type filters struct {
	path    string
	values  url.Values
	options map[string][]string // allowed values by parameter
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

// readQuery decodes the page's URL into the input of an API operation, by the
// tags of its fields, and reads the page's own parameters. Lists may be
// repeated or comma-separated. The page size is not read from the URL.
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

// read reads a parameter, trimmed: its first value, or all values of a list.
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

// enumOf returns the enumeration in a field's tag.
func enumOf(field reflect.StructField) []string {
	return strings.FieldsFunc(field.Tag.Get("enum"), func(r rune) bool { return r == ',' })
}

// oneOf refuses a filter value that is not an option.
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

// Options returns the allowed values of a filter.
func (f filters) Options(name string) []string { return f.options[name] }

// Get returns the value of a filter, or "" if it is not set.
func (f filters) Get(name string) string { return f.values.Get(name) }

// Has reports whether a list filter contains a value.
func (f filters) Has(name, value string) bool { return slices.Contains(f.values[name], value) }

// With returns the URL of the first page with one filter changed.
func (f filters) With(name, value string) string {
	v := f.copy(name, "cursor")
	if value != "" {
		v.Set(name, value)
	}
	return address(f.path, v)
}

// Without returns the URL of the first page without some filters.
func (f filters) Without(names ...string) string {
	return address(f.path, f.copy(append(names, "cursor")...))
}

// Older returns the URL of the next page, or "".
func (f filters) Older(cursor string) string {
	if cursor == "" {
		return ""
	}
	v := f.copy()
	v.Set("cursor", cursor)
	return address(f.path, v)
}

// Newest returns the URL of the first page, or "" on it.
func (f filters) Newest() string {
	if f.Get("cursor") == "" {
		return ""
	}
	return f.Without()
}

// All returns the URL of the list without filters.
func (f filters) All() string { return f.path }

// Any reports whether a filter is set.
func (f filters) Any() bool { return len(f.copy("cursor")) > 0 }

// copy returns the parameters without some filters.
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
