package github

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// What tests look at from within.
var (
	Limited = limited
	Matches = matches
	UserID  = userID
)

// NewBranch checks the name of a branch that is to be created.
func NewBranch(name string) (string, error) { return rules{}.newBranch(name) }

// Base checks a base branch by settings.
func Base(settings json.RawMessage, name string) error {
	r, err := readRules(settings)
	if err == nil {
		_, err = r.base(name)
	}
	return err
}

// Resume returns the params that a cursor stands for, and the cursor that
// stands for them.
func Resume(cursor string) (query url.Values, again string, err error) {
	p, err := resume(cursor, 30)
	return url.Values(p), p.cursor(), err
}

// Next returns the params of the next page by a Link header; nil: there is none.
func Next(link string) url.Values {
	return url.Values(start(30).next(http.Header{"Link": {link}}))
}
