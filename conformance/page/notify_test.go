package page_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"sallyport/ingest/event"
)

// heard is what an approver's endpoint was told.
type heard struct {
	id, signature string
	at            time.Time
	body          []byte
}

// TestApproversHearElsewhere: a webhook is set by form, a test says what it
// answered, and an agent's held call arrives signed, with a link that opens it.
func TestApproversHearElsewhere(t *testing.T) {
	s := begin(t)
	told := make(chan heard, 100)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ := strconv.ParseInt(r.Header.Get("Webhook-Timestamp"), 10, 64)
		body, _ := io.ReadAll(r.Body)
		told <- heard{r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Signature"), time.Unix(sent, 0), body}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(endpoint.Close)
	defer s.must("DELETE", "/api/v1/notify/webhook", nil, nil)

	owner := s.person("owner")
	owner.goTo("/settings")
	owner.sees("Notifications", "Not configured", "Gateway", s.MCPURL)
	form := owner.within("form[data-form=webhook]")
	form.fill("[name=url]", "http://example.com/held")
	form.click("Save")
	form.sees("must be https")
	owner.photo("settings-refused")
	form.fill("[name=url]", endpoint.URL+"/held")
	form.click("Save")
	owner.sees("shown only once", "All pending approvals")
	var secret string
	owner.eval(`document.querySelector("#secret-text").textContent`, &secret)
	owner.click("Send test to webhook")
	owner.sees("Test sent.", "answered 202")
	owner.photo("settings")
	// Pending calls of other stories are notified of as well, at any time.
	for !bytes.Contains(hear(t, told, secret).body, []byte(`"notify.test"`)) {
	}

	agent := s.agent("Tell <b>somebody</b>")
	call := agent.call("demo_write", args{"text": "a-param-that-stays"})
	id := agent.held()
	var message struct {
		Type string
		Data struct {
			Invocation string `json:"invocation_id"`
			Session    struct{ Title string }
			URL        string
		}
	}
	for message.Data.Invocation != id {
		h := hear(t, told, secret)
		if err := json.Unmarshal(h.body, &message); err != nil {
			t.Fatal(err)
		}
	}
	if message.Type != "invocation.held" || message.Data.Session.Title != "Tell <b>somebody</b>" {
		t.Errorf("the message is %+v", message)
	}
	owner.goTo(strings.TrimPrefix(message.Data.URL, s.URL))
	owner.sees("a-param-that-stays")
	owner.click("Approve")
	if got := call.text(); got != "wrote a-param-that-stays" {
		t.Errorf("the agent was told %q", got)
	}
	owner.goTo("/settings")
	owner.sees("Recent notifications", "approval required", "sent")
	owner.phone()
	owner.dark()
	owner.fits()
	owner.photo("settings-phone")

	member := s.person("member")
	member.goTo("/settings")
	member.sees("Only owners and admins can change settings")
	member.misses("Test")
	member.misses(endpoint.URL)
}

// hear waits for a message, and checks who signed it.
func hear(t *testing.T, told chan heard, secret string) heard {
	t.Helper()
	select {
	case h := <-told:
		if want := event.SignStandard(h.id, h.at, h.body, []byte(secret)); h.signature != want || want == "" {
			t.Errorf("it is signed %q, want %q", h.signature, want)
		}
		return h
	case <-time.After(patience):
		t.Fatalf("no message arrived within %v", patience)
		return heard{}
	}
}
