package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
)

// args is a JSON object: of a request, or of a call.
type args = map[string]any

// api speaks to /api/v1 with one credential.
type api struct {
	t   *testing.T
	url string
	key string
}

// as returns the API as somebody else sees it.
func (a *api) as(key string) *api { return &api{t: a.t, url: a.url, key: key} }

// send sends a request and returns its status; one that is no success is an
// error as well. Out, if not nil, gets the answer.
func (a *api) send(ctx context.Context, method, path string, body, out any) (int, error) {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		in = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, in)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+a.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, response.StatusCode, raw)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(raw, out)
	}
	return response.StatusCode, err
}

// must sends a request that has to succeed, and reads the answer into out.
func (a *api) must(method, path string, body, out any) {
	a.t.Helper()
	if _, err := a.send(a.t.Context(), method, path, body, out); err != nil {
		a.t.Fatal(err)
	}
}

// status sends a request and returns the status of its answer.
func (a *api) status(method, path string, body any) int {
	a.t.Helper()
	status, err := a.send(a.t.Context(), method, path, body, nil)
	if status == 0 {
		a.t.Fatal(err)
	}
	return status
}

// mode sets what policy says of an action, as in "demo:write", until the story
// ends.
func (a *api) mode(key, mode string) {
	a.t.Helper()
	path := "/api/v1/policy/modes/" + url.PathEscape(key)
	a.must("PUT", path, args{"mode": mode}, nil)
	a.t.Cleanup(func() {
		if _, err := a.send(context.Background(), "DELETE", path, nil, nil); err != nil {
			a.t.Error(err)
		}
	})
}

// invocation is an invocation as the API shows it.
type invocation struct {
	ID         string `json:"id"`
	Session    string `json:"session_id"`
	Source     string `json:"source_id"`
	Action     string `json:"action"`
	Status     string `json:"status"`
	DeniedNote string `json:"denied_note"`
	Reason     string `json:"denied_reason"`
	ApprovedBy string `json:"approved_by"`
	Grant      string `json:"grant_id"`
}

func (a *api) invocation(id string) (i invocation) {
	a.t.Helper()
	a.must("GET", "/api/v1/invocations/"+id, nil, &i)
	return i
}

// invocations lists the newest; query as in "status=pending&session=…".
func (a *api) invocations(query string) []invocation {
	a.t.Helper()
	var list struct {
		Items []invocation `json:"items"`
	}
	a.must("GET", "/api/v1/invocations?limit=100&"+query, nil, &list)
	return list.Items
}

// ends waits until the invocation has the status.
func (a *api) ends(id, status string) (i invocation) {
	a.t.Helper()
	await(a.t, id+" to be "+status, func() bool { i = a.invocation(id); return i.Status == status })
	return i
}
