package github

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"sallyport/sources"
)

// maxPagesPerList bounds how many of GitHub's pages are read for one of ours.
const maxPagesPerList = 5

// pageParams are the pagination params of a list.
type pageParams struct {
	Limit  sources.Integer `json:"limit"`
	Cursor string          `json:"cursor"`
}

// list reads one page of a list. Keep prepares an item and reports whether to
// include it. If many are excluded, such as pull requests among issues, more
// pages are read until ours is full, and the cursor can point into one of
// GitHub's pages.
func list[T any](ctx context.Context, c *sources.Conn, p pageParams, r request, keep func(*T) bool) (page[T], error) {
	return listOf(ctx, c, p, r, func(items *[]T) (any, func() []T) {
		return items, func() []T { return *items }
	}, keep)
}

// listOf is list for responses that wrap the list. Shape returns the value to
// decode into and a function for the items.
func listOf[T any](ctx context.Context, c *sources.Conn, p pageParams, r request, shape func(*[]T) (any, func() []T), keep func(*T) bool) (page[T], error) {
	result := page[T]{Items: []T{}}
	at, err := parseCursor(p.Cursor, p.Limit)
	if err != nil {
		return result, err
	}
	limit, filters := atoi(at.get("per_page")), r.query
	for range maxPagesPerList {
		var items []T
		into, get := shape(&items)
		r.query = at.query(filters)
		var header http.Header
		if header, err = r.send(ctx, c, into); err != nil {
			return result, err
		}
		items = get()
		for i := atoi(at.get("skip")); i < len(items); i++ {
			if len(result.Items) == limit {
				result.Next = at.atItem(i).cursor()
				return result, nil
			}
			if keep(&items[i]) {
				result.Items = append(result.Items, items[i])
			}
		}
		if at = at.next(header); at == nil {
			return result, nil
		}
		if len(result.Items) == limit {
			break
		}
	}
	result.Next = at.cursor()
	return result, nil
}

// atItem returns the position of an item in the current page.
func (p pagePosition) atItem(item int) pagePosition {
	at := pagePosition(p.query(nil))
	if item > 0 {
		at["skip"] = []string{strconv.Itoa(item)}
	}
	return at
}

// atoi parses a validated parameter; "" is 0.
func atoi(mark string) int {
	n, _ := strconv.Atoi(mark) //nolint:errcheck // as above
	return n
}

// queryOf returns the non-empty parameters.
func queryOf(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}
