package server

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sallyport/action"
)

// Two instances over the same rows are one gateway: what is connected, approved
// or refused at one of them is so at the other.
func TestIntegrationsOfTwoInstances(t *testing.T) {
	t.Parallel()
	at := postgresTables(t)
	shared := func(o *Options) {
		o.DatabaseURL, o.MasterKey, o.TokenKey = at, strings.Repeat("1a", 32), strings.Repeat("2b", 32)
	}
	here, there := serveHouse(t, shared), serveHouse(t, shared)
	linear := newService(t, likeLinear(linearKey))
	a := there.agent()
	if got := a.tools("linear"); len(got) > 0 {
		t.Errorf("before it is connected an agent sees %q", got)
	}
	in := here.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	a = there.agent("linear")
	there.eventually("the tools at the other instance", func() bool { return cmp.Equal(linearTools, a.tools("linear")) })
	a.answered(a.call("linear_list_issues", `{}`), false, "ENG-7")

	// Held there, approved here, run once.
	done := a.call("linear_create_issue", `{"teamId":"ENG","title":"T"}`)
	here.approve(here.held().ID)
	a.answered(done, false, "ENG-7")
	if n := len(linear.requests("mutation CreateIssue")); n != 1 {
		t.Errorf("it was sent %d times", n)
	}

	// Refused here, dead there.
	other := here.agent("linear")
	other.answered(other.call("linear_list_issues", `{"first":1}`), false, "ENG-7")
	linear.answers(likeLinear("lin_api_00112233445566778899"))
	other.answered(other.call("linear_list_issues", `{"first":2}`), true, "AUTHENTICATION_ERROR")
	there.eventually("no tools at the other instance", func() bool { return len(a.tools("linear")) == 0 })
	if now := there.integration(in.ID); now.Status != action.IntegrationRevoked {
		t.Errorf("there it is %s", now.Status)
	}

	// Connected again there, a new key is used here at once.
	again := there.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": "lin_api_00112233445566778899"})
	if again.ID != in.ID {
		t.Errorf("connected again it is %s, not %s", again.ID, in.ID)
	}
	here.eventually("the tools at this instance", func() bool { return cmp.Equal(linearTools, other.tools("linear")) })
	other.answered(other.call("linear_list_issues", `{"first":3}`), false, "ENG-7")
	a.answered(a.call("linear_list_issues", `{"first":4}`), false, "ENG-7")
	if sent := linear.requests("ListIssues"); len(sent) != 3 {
		t.Errorf("%d requests, want one that was refused and two that were not", len(sent))
	}
}
