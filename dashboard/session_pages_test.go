package dashboard_test

import (
	"strings"
	"testing"

	"sallyport/action"
)

// The page tells each session's status, and offers what can be done with it to
// those who may.
func TestPageMovesSessions(t *testing.T) {
	h := newHouse(t)
	h.exec("UPDATE sessions SET status = 'paused', left_out = ? WHERE id = 's1'", []action.LeftOut{{Integration: "int-c", Name: "Tracker", Reason: "It <b>expired</b>."}})
	h.connected(action.Integration{ID: "int-c", Provider: "linear", Name: "Tracker", Status: action.IntegrationExpired})
	h.mint(action.Session{ID: "s3", Organization: org, Status: action.SessionRunning, CreatedBy: "u-cyd"})
	admin, member := h.signIn("u-ben").get("/sessions").body, h.signIn("u-cyd").get("/sessions").body
	h.lacks("the page of an admin", admin, "POST /api/v1/sessions/s1/resume", "POST /api/v1/sessions/s3/pause", "POST /api/v1/sessions/s3/fail",
		"DELETE /api/v1/sessions/s3", `data-id="s1"`, "not connected: Tracker: It &lt;b&gt;expired&lt;/b&gt;.", ">paused</span>")
	if strings.Contains(admin, "sessions/s1/pause") || strings.Contains(member, "sessions/s3/pause") || strings.Contains(member, `data-id="s1"`) {
		t.Error("the page offers what cannot be done")
	}
	h.lacks("the page of who made it", member, `data-id="s3"`)
	if paused := h.signIn("u-ben").get("/sessions?state=paused").body; !strings.Contains(paused, "sessions/s1/resume") || strings.Contains(paused, "sessions/s3/pause") {
		t.Error("the paused ones alone are not listed")
	}
}
