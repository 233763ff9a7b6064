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
	h.m.sessions[0].Status = action.SessionPaused
	h.m.sessions[0].LeftOut = []action.LeftOut{{Integration: "int-c", Name: "Tracker", Reason: "It <b>expired</b>."}}
	h.m.integrations = []action.Integration{{ID: "int-c", Organization: org, Provider: "linear", Name: "Tracker", Status: action.IntegrationExpired, Visibility: action.VisibleOrganization}}
	h.m.sessions[1].Status, h.m.sessions[1].CreatedBy = action.SessionRunning, "u-cyd"
	admin, member := h.signIn("u-ben").get("/sessions").body, h.signIn("u-cyd").get("/sessions").body
	h.lacks("the page of an admin", admin, "POST /api/v1/sessions/s1/resume", "POST /api/v1/sessions/s2/pause", "POST /api/v1/sessions/s2/fail",
		"DELETE /api/v1/sessions/s2", `data-id="s1"`, "without Tracker: It &lt;b&gt;expired&lt;/b&gt;.", ">paused</span>")
	if strings.Contains(admin, "sessions/s1/pause") || strings.Contains(member, "sessions/s2/pause") || strings.Contains(member, `data-id="s1"`) {
		t.Error("the page offers what cannot be done")
	}
	h.lacks("the page of who made it", member, `data-id="s2"`)
	if paused := h.signIn("u-ben").get("/sessions?state=paused").body; !strings.Contains(paused, "sessions/s1/resume") || strings.Contains(paused, "sessions/s2/pause") {
		t.Error("the paused ones alone are not listed")
	}
}
