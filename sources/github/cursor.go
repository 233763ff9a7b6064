package github

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"sallyport/sources"
)

// position is where a list goes on: those params of GitHub's own link to the
// next page that tell the page. Of the rest of the link nothing is believed.
type position url.Values

// marks are the params of a position, and what each may be.
func marks() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"page":     regexp.MustCompile(`^[1-9][0-9]{0,6}$`),
		"after":    regexp.MustCompile(`^[A-Za-z0-9+/=_:.-]{1,500}$`),
		"per_page": regexp.MustCompile(`^([1-9][0-9]?|100)$`),
		"skip":     regexp.MustCompile(`^[1-9][0-9]?$`), // our own: as many of the page were seen before
	}
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
	allowed := marks()
	for name, value := range values {
		if mark := allowed[name]; mark == nil || len(value) != 1 || !mark.MatchString(value[0]) {
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
