package github

import (
	"cmp"
	"context"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

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
				if at = pagePosition(at.query(nil)); i > 0 {
					at["skip"] = []string{strconv.Itoa(i)}
				}
				result.Next = at.cursor()
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

// pagePosition is a position in a list: the pagination parameters of GitHub's
// link to the next page. The rest of the link is ignored.
type pagePosition url.Values

// alphanumeric is the base alphabet of names and cursors.
const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// isInRange reports whether text is a canonical number from 1 to most.
func isInRange(text string, most int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && 1 <= n && n <= most && strconv.Itoa(n) == text
}

// parseCursor returns the position of a cursor, or the first page.
func parseCursor(cursor string, limit sources.Integer) (pagePosition, error) {
	if cursor == "" {
		return pagePosition{"per_page": {cmp.Or(limit, 30).String()}}, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return nil, invalidCursor()
	}
	values, err := url.ParseQuery(string(raw))
	if err != nil || !validParams(values) || len(values["per_page"]) == 0 {
		return nil, invalidCursor()
	}
	return pagePosition(values), nil
}

// validParams reports whether all pagination parameters are known and their
// values valid.
func validParams(values url.Values) bool {
	for name, list := range values {
		if len(list) != 1 {
			return false
		}
		value, valid := list[0], false
		switch name {
		case "page":
			valid = isInRange(value, 9_999_999)
		case "per_page":
			valid = isInRange(value, 100)
		case "skip": // our own: items of the page to skip
			valid = isInRange(value, 99)
		case "after":
			valid = 0 < len(value) && len(value) <= 500 && strings.Trim(value, alphanumeric+"+/=_:.-") == ""
		}
		if !valid {
			return false
		}
	}
	return true
}

func invalidCursor() error {
	return &sources.Refusal{Code: "invalid_cursor", Message: "The param /cursor is not valid for this action. Pass next_cursor of its last answer unchanged, or omit it to start again."}
}

// cursor encodes the position for agents.
func (p pagePosition) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(url.Values(p).Encode()))
}

// get returns a parameter, or "".
func (p pagePosition) get(name string) string { return url.Values(p).Get(name) }

// query returns the filters and the position as a query.
func (p pagePosition) query(filters url.Values) url.Values {
	q := maps.Clone(filters)
	if q == nil {
		q = url.Values{}
	}
	for name, value := range p {
		if name != "skip" {
			q[name] = value
		}
	}
	return q
}

// next returns the position in the Link header of a page, or nil on the last
// page.
func (p pagePosition) next(h http.Header) pagePosition {
	next := pagePosition{}
	for _, link := range strings.Split(strings.Join(h.Values("Link"), ","), ",") {
		target, params, _ := strings.Cut(strings.TrimSpace(link), ">")
		if !slices.Contains(strings.Split(strings.ReplaceAll(params, " ", ""), ";"), `rel="next"`) {
			continue
		}
		u, err := url.Parse(strings.TrimPrefix(target, "<"))
		if err != nil {
			return nil
		}
		for _, name := range []string{"page", "after"} {
			if value := u.Query()[name]; value != nil {
				next[name] = value
			}
		}
	}
	if len(next) == 0 || !validParams(url.Values(next)) {
		return nil
	}
	next["per_page"] = p["per_page"]
	return next
}
