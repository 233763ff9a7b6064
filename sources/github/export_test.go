package github

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// Exports for tests.
var (
	Limited = rateLimited
	Matches = matchesPattern
	UserID  = userID
)

// NewBranch validates the name of a new branch and returns its short form.
func NewBranch(name string) (string, error) {
	if err := (branchParams{Branch: name}).check(writeRules{}); err != nil {
		return "", err
	}
	return branchName("branch", name)
}

// Base validates a base branch against the settings.
func Base(settings json.RawMessage, name string) error {
	r, err := parseRules(settings)
	if err == nil {
		_, err = r.checkBase(name)
	}
	return err
}

// Resume decodes a cursor and encodes it again.
func Resume(cursor string) (query url.Values, again string, err error) {
	p, err := parseCursor(cursor, 30)
	return url.Values(p), p.cursor(), err
}

// Next returns the parameters of the next page in a Link header, or nil.
func Next(link string) url.Values {
	return url.Values(pagePosition{"per_page": {"30"}}.next(http.Header{"Link": {link}}))
}
