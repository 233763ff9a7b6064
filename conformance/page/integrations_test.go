package page_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// likeLinear is a service that knows one key at a time.
type likeLinear struct {
	*httptest.Server
	mu  sync.Mutex
	key string
}

func startLinear(t *testing.T, key string) *likeLinear {
	l := &likeLinear{key: key}
	l.Server = httptest.NewServer(http.HandlerFunc(l.answer))
	t.Cleanup(l.Close)
	return l
}

func (l *likeLinear) takes(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key = key
}

func (l *likeLinear) answer(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") != l.key {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"errors":[{"message":"Authentication required","extensions":{"type":"authentication error","code":"AUTHENTICATION_ERROR"}}]}`)
		return
	}
	var q struct{ OperationName string }
	_ = json.NewDecoder(r.Body).Decode(&q)
	data := map[string]string{
		"Viewer":     `{"viewer":{"id":"u1","name":"Ada","email":"ada@example.com"},"organization":{"id":"o1","name":"Acme <b>Inc</b>","urlKey":"acme"}}`,
		"ListIssues": `{"issues":{"nodes":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}`,
	}[q.OperationName]
	if data == "" {
		w.WriteHeader(http.StatusBadRequest)
		data = "null"
	}
	_, _ = io.WriteString(w, `{"data":`+data+`}`)
}

// TestIntegrationFromConnectToDisconnect connects a service with a key, which is
// refused at first; sees it fail and connects it again; binds an automation to
// it, and lets go of it.
func TestIntegrationFromConnectToDisconnect(t *testing.T) {
	const first, second = "lin_api_9f8e7d6c5b4a39281706", "lin_api_a1b2c3d4e5f60718293a"
	s := beginAlone(t)
	linear := startLinear(t, first)
	s.must("POST", "/api/v1/automations", args{"name": "sorts-issues", "instructions": "Sort them."}, nil)
	owner := s.person("owner")
	owner.goTo("/integrations")
	owner.sees("Connect a service")
	owner.goTo("/integrations/linear")
	owner.sees("No integrations visible to you")
	form := owner.within("form[data-form=connect][data-kind=api_key]")
	form.fill("[name=secret]", "lin_api_wrong_wrong_wrong_wrong")
	form.click("Advanced")
	form.fill("[name=base_url]", linear.URL)
	form.click("Connect")
	form.shows(".error:not([hidden])")
	owner.photo("integration-refused")
	form.fill("[name=secret]", first)
	form.click("Connect")
	owner.sees("is connected", "Acme <b>Inc</b>", "active")
	var list struct {
		Items []struct{ ID, Status string }
	}
	s.must("GET", "/api/v1/integrations", nil, &list)
	if len(list.Items) != 1 {
		t.Fatalf("there are %+v", list.Items)
	}
	id := list.Items[0].ID
	agent := s.agent("Look through the issues", args{"connections": []string{id}})
	if got := agent.call("linear_list_issues", args{}); got.result().IsError {
		t.Errorf("the agent was told %s", got.text())
	}

	linear.takes(second)
	owner.click("Check now")
	one := owner.within(`[id="` + id + `"]`)
	one.sees("Reconnect")
	one.misses("active")
	owner.photo("integration-reconnect")
	owner.goTo("/integrations")
	owner.sees("Reconnect")
	owner.goTo("/integrations/linear")
	one.click("Edit")
	one.fill("form[data-form=integration] [name=secret]", second)
	one.click("Save")
	one.sees("active")
	owner.photo("integration")
	owner.dark()
	owner.photo("integration-dark")
	owner.light()
	owner.phone()
	owner.fits()
	owner.photo("integration-phone")
	owner.desk()
	for _, key := range []string{first, second} {
		var all string
		owner.eval(`document.documentElement.outerHTML + [...document.querySelectorAll("input")].map((f) => f.value)`, &all)
		if strings.Contains(all, key) || strings.Contains(string(s.logged()), key) {
			t.Error("a key is shown, or in the log")
		}
	}

	owner.goTo("/automations")
	owner.click("sorts-issues")
	bind := owner.within("form[data-form=bindings]")
	bind.fill("[value=\""+id+"\"]", "on")
	bind.click("Save")
	owner.sees("Saved")
	owner.goTo("/integrations/linear")
	one.sees("automation sorts-issues")

	one.click("Disconnect")
	owner.sees("the stored credential is deleted")
	owner.photo("integration-disconnect")
	owner.confirm()
	owner.sees("could not be revoked")
	owner.confirm()
	owner.sees("No integrations visible to you")
	if got := agent.call("linear_list_issues", args{}); !got.result().IsError {
		t.Errorf("after all the agent was told %s", got.text())
	}
}
