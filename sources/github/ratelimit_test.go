package github_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/internal/outbound"
	"sallyport/sources/github"
)

const (
	hour      = `{"message":"API rate limit exceeded for user ID 583231.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api"}`
	tooFast   = `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	tooFast2  = `{"message":"Wait.","documentation_url":"https://docs.github.com/rest/using-the-rest-api/rate-limits?apiVersion=2022-11-28#about-secondary-rate-limits"}`
	abuse     = `{"message":"You have triggered an abuse detection mechanism.","documentation_url":"https://developer.github.com/v3/#abuse-rate-limits"}`
	forbidden = `{"message":"Resource not accessible by integration","documentation_url":"https://docs.github.com/rest"}`
	noRights  = `{"message":"Must have admin rights to Repository.","documentation_url":"https://docs.github.com/rest"}`
)

func TestLimits(t *testing.T) {
	const date, reset, past = "Fri, 02 Oct 2026 08:00:00 GMT", "1790928300", "1790928000" // 2026-10-02, 08:05 and 08:00
	for _, test := range []struct {
		name    string
		status  int
		header  map[string]string
		body    string
		wait    time.Duration
		limited bool
	}{
		{"the hour's", 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset, "Date": date}, hour, 5 * time.Minute, true},
		{"the hour's, 429", 429, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset, "Date": date}, hour, 5 * time.Minute, true},
		{"over by now", 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": past, "Date": date}, hour, time.Second, true},
		{"a reset in years", 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "9790928300", "Date": date}, hour, 2 * time.Hour, true},
		{"a reset that is none", 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "soon"}, hour, time.Minute, true},
		{"too fast", 403, map[string]string{"X-Ratelimit-Remaining": "4000"}, tooFast, time.Minute, true},
		{"too fast, 429", 429, nil, tooFast2, time.Minute, true},
		{"too fast by the link", 403, nil, tooFast2, time.Minute, true},
		{"too fast, with a wait", 403, map[string]string{"Retry-After": "30", "X-Ratelimit-Remaining": "4000"}, tooFast, 30 * time.Second, true},
		{"too fast, and the hour's", 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset, "Date": date}, tooFast, 5 * time.Minute, true},
		{"abuse", 403, nil, abuse, time.Minute, true},
		{"429 of a proxy", 429, map[string]string{"Retry-After": "2"}, `<html>`, 2 * time.Second, true},
		{"429 of a proxy without a wait", 429, nil, `<html>`, time.Minute, true},
		{"a wait of years", 429, map[string]string{"Retry-After": "99999999"}, tooFast, 2 * time.Hour, true},
		{"a wait without a word", 403, map[string]string{"Retry-After": "90"}, `{}`, 90 * time.Second, true},
		{"not permitted", 403, map[string]string{"X-Ratelimit-Remaining": "4999"}, noRights, 0, false},
		{"not permitted with the last request", 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": reset, "Date": date}, forbidden, 0, false},
		{"single sign-on with the last request", 403, map[string]string{"X-Ratelimit-Remaining": "0", "X-Github-Sso": "required"}, noRights, 0, false},
		{"good, with the last request", 200, map[string]string{"X-Ratelimit-Remaining": "0", "Retry-After": "3"}, `{}`, 0, false},
		{"not there", 404, map[string]string{"X-Ratelimit-Remaining": "0"}, `{}`, 0, false},
	} {
		header := http.Header{}
		for name, value := range test.header {
			header.Set(name, value)
		}
		wait, limited := github.Limited(&outbound.Response{Status: test.status, Header: header, Body: []byte(test.body)})
		if wait != test.wait || limited != test.limited {
			t.Errorf("%s: %v, %v", test.name, wait, limited)
		}
	}
}

// TestLimitsAreToldWithTheWait has the client leave GitHub alone as long as it
// asks for, after a write that it did not do.
func TestLimitsAreToldWithTheWait(t *testing.T) {
	s := newServer(t, map[string][]reply{"POST /repos/octocat/hello/issues": {{status: 403, body: tooFast}}})
	c := s.conn(t)
	for range 2 {
		_, err := run(t, c, "create_issue", openIssue)
		var shown *action.Error
		if !errors.As(err, &shown) || !errors.Is(err, action.ErrUnavailable) || shown.Code != "upstream_rate_limited" || shown.RetryAfter <= 30*time.Second {
			t.Fatalf("%v", err)
		}
	}
	if n := len(s.requests()); n != 1 {
		t.Errorf("%d requests were made", n)
	}
}

func TestAWriteThatWasHeldBackIsMadeOnce(t *testing.T) {
	s := newServer(t, map[string][]reply{"POST /repos/octocat/hello/issues": {{status: 429, header: map[string]string{"Retry-After": "1"}, body: tooFast}, {status: 201, body: issueJSON}}})
	result, err := run(t, s.conn(t), "create_issue", openIssue)
	if err != nil || !strings.Contains(string(result), `"number":7`) || len(s.requests()) != 2 {
		t.Errorf("%s, %v after %d requests", result, err, len(s.requests()))
	}
}
