package dashboard

import (
	"net/http"
	"net/url"
	"slices"

	"sallyport/api"
)

// filters are what a page's list is narrowed to. They are in its address, so
// that they can be linked and need no script.
type filters struct {
	path   string
	names  []string
	values url.Values
}

func readFilters(r *http.Request, names ...string) filters {
	f := filters{path: r.URL.Path, names: names, values: url.Values{}}
	for _, name := range append(names, "cursor") {
		if v := r.URL.Query().Get(name); v != "" {
			f.values.Set(name, v)
		}
	}
	return f
}

// Get returns what a filter is set to; empty: it lets everything pass.
func (f filters) Get(name string) string { return f.values.Get(name) }

// With is the address of the list's beginning with one filter set otherwise.
func (f filters) With(name, value string) string {
	v := f.copy()
	v.Del("cursor")
	if v.Del(name); value != "" {
		v.Set(name, value)
	}
	return f.address(v)
}

// Older is the address of the page after this one; empty: there is none.
func (f filters) Older(cursor string) string {
	if cursor == "" {
		return ""
	}
	v := f.copy()
	v.Set("cursor", cursor)
	return f.address(v)
}

// Newest is the address of the list's beginning; empty: this is it.
func (f filters) Newest() string {
	if f.Get("cursor") == "" {
		return ""
	}
	return f.With("cursor", "")
}

// All is the address of the list with nothing left out.
func (f filters) All() string { return f.path }

// Any reports whether something is left out.
func (f filters) Any() bool {
	return slices.ContainsFunc(f.names, func(name string) bool { return f.Get(name) != "" })
}

// paging is the part of a list that is asked for.
func (f filters) paging() api.Paging { return api.Paging{Limit: 50, Cursor: f.Get("cursor")} }

func (f filters) copy() url.Values {
	v := url.Values{}
	for name := range f.values {
		v.Set(name, f.Get(name))
	}
	return v
}

func (f filters) address(v url.Values) string {
	if len(v) == 0 {
		return f.path
	}
	return f.path + "?" + v.Encode()
}

// oneOf refuses a filter that is none of those that there are.
func (f filters) oneOf(name string, known ...string) error {
	if v := f.Get(name); v != "" && !slices.Contains(known, v) {
		return invalid("/"+name, "There is no such "+name+"; go back to the whole list.")
	}
	return nil
}
