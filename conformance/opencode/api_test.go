package opencode_test

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

// send sends a request to the gateway's API as its administrator; an answer
// that is no success is an error. Out, if not nil, gets the answer.
func (g *gateway) send(ctx context.Context, method, path string, body, out any) error {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, g.URL+path, in)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+g.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, response.StatusCode, raw)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(raw, out)
	}
	return err
}

// must sends a request that has to succeed.
func (g *gateway) must(t *testing.T, method, path string, body, out any) {
	t.Helper()
	if err := g.send(t.Context(), method, path, body, out); err != nil {
		t.Fatal(err)
	}
}

// invocation is an invocation as the API shows it.
type invocation struct {
	ID         string `json:"id"`
	Action     string `json:"action"`
	Status     string `json:"status"`
	Reason     string `json:"denied_reason"`
	ApprovedBy string `json:"approved_by"`
}

// invocations lists those of the story's session, the newest first.
func (s *story) invocations() []invocation {
	s.t.Helper()
	var list struct {
		Items []invocation `json:"items"`
	}
	s.must(s.t, "GET", "/api/v1/invocations?limit=100&session="+url.QueryEscape(s.session.ID), nil, &list)
	return list.Items
}

// only returns the one invocation that the session has.
func (s *story) only() invocation {
	s.t.Helper()
	all := s.invocations()
	if len(all) != 1 {
		s.t.Fatalf("the session has %d invocations where one was due: %+v", len(all), all)
	}
	return all[0]
}

// held waits until a call of the session is held, and returns its id.
func (s *story) held() (id string) {
	s.t.Helper()
	await(s.t, "a held call", func() bool {
		for _, i := range s.invocations() {
			if i.Status == "pending" {
				id = i.ID
			}
		}
		return id != ""
	})
	return id
}

// becomes waits until the invocation has the status.
func (s *story) becomes(id, status string) (i invocation) {
	s.t.Helper()
	await(s.t, id+" to be "+status, func() bool {
		s.must(s.t, "GET", "/api/v1/invocations/"+id, nil, &i)
		return i.Status == status
	})
	return i
}

// approve approves a held call, as a person does.
func (s *story) approve(id string) {
	s.t.Helper()
	s.must(s.t, "POST", "/api/v1/invocations/"+id+"/approve", args{}, nil)
}

// deny denies it, with a reason.
func (s *story) deny(id, reason string) {
	s.t.Helper()
	s.must(s.t, "POST", "/api/v1/invocations/"+id+"/deny", args{"reason": reason}, nil)
}
