package github

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"sallyport/sources"
)

// pages bounds how many of GitHub's pages are read for one of ours.
const pages = 5

// paged are the params of a list.
type paged struct {
	Limit  sources.Integer `json:"limit"`
	Cursor string          `json:"cursor"`
}

// list reads one page of a list. Keep makes items ready and says which of them
// count; where many do not, as pull requests among issues, more pages are read
// until ours is full, and the cursor may stand within one of GitHub's.
func list[T any](ctx context.Context, c *sources.Conn, p paged, r request, keep func(*T) bool) (page[T], error) {
	return listOf(ctx, c, p, r, func(items *[]T) (any, func() []T) {
		return items, func() []T { return *items }
	}, keep)
}

// listOf is a list whose answer is not the list itself: shape returns what to
// read an answer into, and how to get at the items then.
func listOf[T any](ctx context.Context, c *sources.Conn, p paged, r request, shape func(*[]T) (any, func() []T), keep func(*T) bool) (page[T], error) {
	result := page[T]{Items: []T{}}
	at, err := resume(p.Cursor, p.Limit)
	if err != nil {
		return result, err
	}
	limit, filters := number(at.get("per_page")), r.query
	for range pages {
		var items []T
		into, get := shape(&items)
		r.query = at.query(filters)
		var header http.Header
		if header, err = r.send(ctx, c, into); err != nil {
			return result, err
		}
		items = get()
		for i := number(at.get("skip")); i < len(items); i++ {
			if len(result.Items) == limit {
				result.Next = at.within(i).cursor()
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

// within is the position of an item of the page here.
func (p position) within(item int) position {
	at := position(p.query(nil))
	if item > 0 {
		at["skip"] = []string{strconv.Itoa(item)}
	}
	return at
}

// number reads a mark, which was found sound; empty: 0.
func number(mark string) int {
	n, _ := strconv.Atoi(mark) //nolint:errcheck // as above
	return n
}

// filters returns the params of a list that are not empty.
func filters(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}
