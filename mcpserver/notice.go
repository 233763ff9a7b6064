package mcpserver

import (
	"encoding/json"
	"fmt"
	"time"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// pendingNotice is the result of a call that waits on when its answer cannot:
// it says where to approve and how to come back. A tool with an output schema
// gets it as an error without structured content, because strict clients would
// drop a result that misses the schema.
func pendingNotice(inv *action.Invocation, lead string, strict bool, now time.Time) message {
	said := lead + pendingText(inv, now)
	b := []byte(`{"content":[{"type":"text","text":`)
	b = jsonlex.Quote(b, said)
	if strict {
		return message{result: append(b, `}],"isError":true}`...), said: said}
	}
	b = append(b, `}],"structuredContent":`...)
	b = append(b, pendingContent(inv)...)
	return message{result: append(b, '}'), said: said}
}

func pendingText(inv *action.Invocation, now time.Time) string {
	what := "PENDING: " + nameOf(inv) + " waits for a person's approval and has not run."
	switch inv.Status {
	case action.StatusApproved:
		what = "APPROVED: " + nameOf(inv) + " is about to run."
	case action.StatusExecuting:
		what = "RUNNING: " + nameOf(inv) + " is being executed."
	}
	link := ""
	if url := linkOf(inv); url != "" {
		link = " A person approves it at " + url + " (tell the user)."
	}
	if inv.Status == action.StatusPending && inv.ExpiresAt != nil {
		link += " It expires in " + remaining(*inv.ExpiresAt, now) + "."
	}
	if !isTool(inv) {
		return fmt.Sprintf("%s%s Repeat the same request later: it is joined, and not asked for again. Or call the tool %s with invocation_id %q.", what, link, toolWait, inv.ID)
	}
	return fmt.Sprintf("%s%s Do not repeat the call. Call %s with invocation_id %q to get its result.", what, link, toolWait, inv.ID)
}

func pendingContent(inv *action.Invocation) []byte {
	expires := inv.ExpiresAt
	if inv.Status != action.StatusPending {
		expires = nil
	}
	b, _ := json.Marshal(struct { // strings and a time always encode
		Status      action.Status `json:"status"`
		Invocation  string        `json:"invocation_id"`
		ApprovalURL string        `json:"approval_url,omitempty"`
		ExpiresAt   *time.Time    `json:"expires_at,omitempty"`
	}{inv.Status, inv.ID, linkOf(inv), expires})
	return b
}

// linkOf is where a person decides, while there is something to decide.
func linkOf(inv *action.Invocation) string {
	if inv.Status == action.StatusPending {
		return inv.ApprovalURL
	}
	return ""
}

// remaining says how long it is until t, in words short enough for a line.
func remaining(t, now time.Time) string {
	d := t.Sub(now).Round(time.Second)
	switch {
	case d <= 0:
		return "0s"
	case d >= time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%ds", int(d.Seconds()))
}
