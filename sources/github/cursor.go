package github

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sallyport/sources"
)

// position is where a list goes on: those params of GitHub's own link to the
// next page that tell the page. Of the rest of the link nothing is believed.
type position url.Values

// alphanumeric is what names and marks are made of, beside a few others.
const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// isMark reports whether a param of a position is one, and what it may be.
func isMark(name, value string) bool {
	switch name {
	case "page":
		return natural(value, 9_999_999)
	case "per_page":
		return natural(value, 100)
	case "skip": // our own: as many of the page were seen before
		return natural(value, 99)
	case "after":
		return 0 < len(value) && len(value) <= 500 && strings.Trim(value, alphanumeric+"+/=_:.-") == ""
	}
	return false
}

// natural reports whether a text is a number from 1 to most, written as we do.
func natural(text string, most int) bool {
	n, err := strconv.Atoi(text)
	return err == nil && 1 <= n && n <= most && strconv.Itoa(n) == text
}

// start is the first page.
func start(limit sources.Integer) position {
	if limit == 0 {
		limit = 30
	}
	return position{"per_page": {limit.String()}}
}

// resume is where a list starts, or goes on with a cursor.
func resume(cursor string, limit sources.Integer) (position, error) {
	if cursor == "" {
		return start(limit), nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil {
		return nil, badCursor()
	}
	values, err := url.ParseQuery(string(raw))
	if err != nil || !sound(values) || len(values["per_page"]) == 0 {
		return nil, badCursor()
	}
	return position(values), nil
}

func sound(values url.Values) bool {
	for name, value := range values {
		if len(value) != 1 || !isMark(name, value[0]) {
			return false
		}
	}
	return true
}

func badCursor() error {
	return &sources.Refusal{Code: "invalid_cursor", Message: "The param /cursor is none of this action's; give next_cursor of its last answer as it is, or leave it out to start again."}
}

// cursor is what an agent gives back to go on here.
func (p position) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(url.Values(p).Encode()))
}

// get returns a mark; empty: there is none.
func (p position) get(name string) string { return url.Values(p).Get(name) }

// query returns the params of the list's page, beside the filters.
func (p position) query(filters url.Values) url.Values {
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

// next returns the position after this one by the Link header of its page; nil:
// there is none.
func (p position) next(h http.Header) position {
	next := position{}
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
	if len(next) == 0 || !sound(url.Values(next)) {
		return nil
	}
	next["per_page"] = p["per_page"]
	return next
}
