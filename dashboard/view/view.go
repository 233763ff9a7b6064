// Package view reads what both the JSON API and the web page show: rows as the
// API's types, with the names of what they refer to.
package view

import (
	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
)

// Reader reads rows of the server's organizations. It is safe for concurrent
// use.
type Reader struct{ *dashboard.Server }

// NewReader returns a reader of the server's rows.
func NewReader(server *dashboard.Server) *Reader {
	return &Reader{server}
}

// ListOf returns a complete list.
func ListOf[T any](items []T) api.List[T] {
	return api.List[T]{Items: dashboard.NonNil(items), Total: len(items)}
}

// PageOf converts a page of rows, item by item.
func PageOf[T, U any](p action.Page[T], show func(T) U) api.List[U] {
	out := api.List[U]{Items: make([]U, len(p.Items)), NextCursor: p.Next, Total: p.Total, TotalCapped: p.Capped}
	for i, item := range p.Items {
		out.Items[i] = show(item)
	}
	return out
}
