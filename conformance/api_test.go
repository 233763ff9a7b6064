package conformance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// api speaks to /api/v1 with one credential. It keeps all that it was ever
// answered, for the test that looks for secrets in there.
type api struct {
	t   *testing.T
	url string
	key string

	mu   sync.Mutex
	seen bytes.Buffer
}

func newAPI(t *testing.T, url string) *api { return &api{t: t, url: url} }

// as returns the API as somebody else sees it.
func (a *api) as(key string) *api { return &api{t: a.t, url: a.url, key: key} }

// reply is an answer of the API.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// problem reads the reply as a problem document.
func (r reply) problem() (p struct {
	Status     int
	Code       string
	Detail     string
	Field      string
	Invocation string
},
) {
	_ = json.Unmarshal(r.Body, &p) // another answer is a problem without a code
	return p
}

// do sends a request and returns whatever came. Body may be nil, a string
// that is sent as it is, or something to encode.
func (a *api) do(method, path string, body any) reply {
	a.t.Helper()
	r, err := a.try(method, path, body)
	if err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// try is do for a server that may be gone, and for any goroutine.
func (a *api) try(method, path string, body any) (reply, error) {
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		raw, err := json.Marshal(b)
		if err != nil {
			return reply{}, err
		}
		in = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, in)
	if err != nil {
		return reply{}, err
	}
	if a.key != "" {
		request.Header.Set("Authorization", "Bearer "+a.key)
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, err
	}
	a.mu.Lock()
	a.seen.Write(raw)
	a.mu.Unlock()
	return reply{response.StatusCode, response.Header, raw}, nil
}

// must sends a request that has to succeed, and reads the answer into out.
func (a *api) must(method, path string, body, out any) {
	a.t.Helper()
	r := a.do(method, path, body)
	if r.Status >= 300 {
		a.t.Fatalf("%s %s: status %d: %s", method, path, r.Status, r.Body)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal(r.Body, out); err != nil {
		a.t.Fatalf("%s %s: %v: %s", method, path, err, r.Body)
	}
}

// session is a minted session.
type session struct {
	ID    string `json:"session_id"`
	Token string `json:"token"`
}

func (a *api) mint(body any) session {
	a.t.Helper()
	var s session
	if body == nil {
		body = map[string]any{}
	}
	a.must("POST", "/api/v1/sessions", body, &s)
	return s
}

// connector adds a connector whose tools get the slug as prefix, and returns
// its source id.
func (a *api) connector(slug, at string, more ...func(map[string]any)) string {
	a.t.Helper()
	body := map[string]any{"name": "upstream " + slug, "slug": slug, "url": at, "profile": "strict"} // the default modes
	for _, add := range more {
		add(body)
	}
	var made struct {
		Source string `json:"source_id"`
	}
	a.must("POST", "/api/v1/connectors", body, &made)
	return made.Source
}

func (a *api) mode(key, mode string) {
	a.t.Helper()
	a.must("PUT", "/api/v1/policy/modes/"+url.PathEscape(key), map[string]any{"mode": mode}, nil)
}

// invocation is an invocation as the API shows it.
type invocation struct {
	ID            string          `json:"id"`
	Session       string          `json:"session_id"`
	Source        string          `json:"source_id"`
	Action        string          `json:"action"`
	Status        string          `json:"status"`
	Mode          string          `json:"mode"`
	Params        json.RawMessage `json:"params"`
	ParamsHash    string          `json:"params_hash"`
	Summary       string          `json:"summary"`
	Decision      json.RawMessage `json:"decision"`
	ModeSource    string          `json:"mode_source"`
	DeniedReason  string          `json:"denied_reason"`
	DeniedNote    string          `json:"denied_note"`
	ResultSummary string          `json:"result_summary"`
	Executor      string          `json:"executor"`
	Grant         string          `json:"grant_id"`
	ApprovedBy    string          `json:"approved_by"`
	CreatedAt     time.Time       `json:"created_at"`
	ExpiresAt     time.Time       `json:"expires_at"`
	Error         *struct {
		Code    string `json:"code"`
		Fault   string `json:"fault"`
		Message string `json:"message"`
	} `json:"error"`
}

// code is why it failed, if it did.
func (i *invocation) code() string {
	if i.Error == nil {
		return ""
	}
	return i.Error.Code
}

// effect names what the invocation does, as the upstream counts it.
func (i *invocation) effect() string {
	c := toolCall{}
	c.Params.Name, c.Params.Arguments = i.Action, i.Params
	return c.effect()
}

// invocations lists the invocations, newest first, a hundred at most; query as
// in "status=pending&session=…".
func (a *api) invocations(query string) []invocation {
	a.t.Helper()
	list, _ := a.page(query)
	return list
}

// every lists all of them.
func (a *api) every(query string) (all []invocation) {
	a.t.Helper()
	for cursor := ""; ; {
		list, next := a.page(query + "&cursor=" + url.QueryEscape(cursor))
		all = append(all, list...)
		if next == "" {
			return all
		}
		cursor = next
	}
}

func (a *api) page(query string) ([]invocation, string) {
	a.t.Helper()
	var list invocationList
	a.must("GET", "/api/v1/invocations?limit=100&"+query, nil, &list)
	return list.Items, list.Next
}

type invocationList struct {
	Items []invocation `json:"items"`
	Next  string       `json:"next_cursor"`
}

func (a *api) invocation(id string) invocation {
	a.t.Helper()
	var i invocation
	a.must("GET", "/api/v1/invocations/"+id, nil, &i)
	return i
}

// held waits for the one call that is held.
func (a *api) held() invocation {
	a.t.Helper()
	var one invocation
	await(a.t, "a held call", func() bool {
		held := a.invocations("status=pending")
		if len(held) > 1 {
			a.t.Fatalf("%d calls are held, not one: %+v", len(held), held)
		}
		if len(held) == 1 {
			one = held[0]
		}
		return len(held) == 1
	})
	return one
}

// ends waits until the invocation has one of the statuses.
func (a *api) ends(id string, statuses ...string) invocation {
	a.t.Helper()
	var i invocation
	await(a.t, fmt.Sprintf("%s to be %v", id, statuses), func() bool {
		i = a.invocation(id)
		for _, status := range statuses {
			if i.Status == status {
				return true
			}
		}
		if i.Status == "completed" || i.Status == "failed" || i.Status == "denied" || i.Status == "expired" {
			a.t.Fatalf("%s ended as %+v, not as %v", id, i, statuses)
		}
		return false
	})
	return i
}

func (a *api) approve(id string) {
	a.t.Helper()
	a.must("POST", "/api/v1/invocations/"+id+"/approve", nil, nil)
}

// only returns the one invocation that there is.
func (a *api) only(query string) invocation {
	a.t.Helper()
	list := a.invocations(query)
	if len(list) != 1 {
		a.t.Fatalf("%d invocations match %q, not one: %+v", len(list), query, list)
	}
	return list[0]
}
