package server

import (
	"testing"

	"sallyport/action"
)

// A person approves a call for one integration, which the call says from the
// beginning: it runs for that one, or not at all. What others connect for
// themselves changes nothing.
func TestOwnConnectionsAndApprovals(t *testing.T) {
	t.Parallel()
	const bens, mallorys = "lin_api_ben0123456789abcdef", "lin_api_mal0123456789abcdef"
	p, linear := serveHouse(t), newService(t, likeLinear(linearKey, bens, mallorys))
	ben, mallory := p.as("Ben", action.RoleMember), p.as("Mallory", action.RoleMember)
	shared := p.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": linearKey})
	// Each is another call: an answer that is on its way may be given once more.
	create := func(title string) string {
		return `{"teamId":"4cfb482a-81e3-4154-b5b9-2c805e70a02d","title":"` + title + `"}`
	}
	a := ben.agent("linear")
	sent := func(key string) int {
		n := 0
		for _, r := range linear.requests("CreateIssue") {
			if r.Header.Get("Authorization") == key {
				n++
			}
		}
		return n
	}

	done := a.call("linear_create_issue", create("A"))
	held := p.held()
	if held.Integration != shared.ID {
		t.Errorf("the held call is for %q, not %q", held.Integration, shared.ID)
	}
	mallory.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": mallorys, "own": true})
	p.approve(held.ID)
	a.answered(done, false, "ENG-7")
	if sent(linearKey) != 1 {
		t.Errorf("sent %d times", sent(linearKey))
	}

	done = a.call("linear_create_issue", create("B"))
	held = p.held()
	own := ben.connectTo(linear, "linear", map[string]any{"kind": "api_key", "secret": bens, "own": true})
	p.approve(held.ID)
	a.answered(done, true, "changed after the approval")
	if total := len(linear.requests("CreateIssue")); total > 1 {
		t.Errorf("it ran in his own name all the same: %d", total)
	}

	done = a.call("linear_create_issue", create("C"))
	held = p.held()
	if held.Integration != own.ID {
		t.Errorf("the held call is for %q, not his own %q", held.Integration, own.ID)
	}
	p.approve(held.ID)
	a.answered(done, false, "ENG-7")
	if sent(bens) != 1 || sent(mallorys) != 0 {
		t.Errorf("sent %d times in his name, %d in another's", sent(bens), sent(mallorys))
	}
}
