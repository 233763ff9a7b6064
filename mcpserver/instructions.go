package mcpserver

import (
	"fmt"
	"time"
)

// instructions go into the model's prompt, so they say only what changes what
// it does. They fit what the session lists; list is nil when that is not known.
func (s *Server) instructions(search bool, list *toolset) string {
	text := `These tools act on real services through Sallyport, a gateway that checks every call.
Reads usually run at once. Writes may wait for a person's approval: the call then stays open for some minutes while the person decides. This is normal.
- Do not repeat a call that waits, timed out or was answered PENDING. Call invocation_wait with its invocation_id to get the result; a repeated call joins the one that waits.
- A denial is final for ` + lasting(s.cfg.DenialHolds) + `. Do not repeat the call or look for a way around it; tell the user.
- An outcome that is unknown may have happened. Check at the service before you try again.
- When a call is answered PENDING, show the user its approval link.`
	if s.cfg.RequestGrant != nil {
		text += "\n- When many similar writes lie ahead, ask once for a standing approval with grant_request, and go on calling meanwhile."
	}
	if s.cfg.Snapshot != nil {
		text += "\n- The resource " + capabilitiesURI + " tells what this session may do at each service, and why not."
	}
	switch {
	case search:
		text += "\n- The list does not show the services' tools. Find them with actions_search, read one with actions_describe, call it with actions_call. Search before you say that something cannot be done."
	case list != nil && list.long():
		text += fmt.Sprintf("\n- The list has %d tools. Where that is too much to read, actions_search {\"query\": \"…\"} finds tools by words though it is not listed; a session can be minted with the setting tools: search to list no more than that.", len(list.names))
	}
	text += "\n- Your client may show a tool with its own name for this server in front, such as sallyport_invocation_wait for invocation_wait. Call it as it is shown to you; tools that take the name of another tool take it without."
	return text + "\n- actions_guide explains the tools of a service, with arguments and examples."
}

// lasting says how long something does, in words.
func lasting(d time.Duration) string {
	for _, unit := range []struct {
		span time.Duration
		name string
	}{{time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if n := d / unit.span; n == 1 && d%unit.span == 0 {
			return "1 " + unit.name
		} else if n > 0 && d%unit.span == 0 {
			return fmt.Sprintf("%d %ss", n, unit.name)
		}
	}
	return d.String()
}
