package mcpserver

// instructions go into the model's prompt, so they say only what changes what
// it does.
func instructions(c *Config) string {
	text := `These tools act on real services through Sallyport, a gateway that checks every call.
Reads usually run at once. Writes may wait for a person's approval: the call then stays open for some minutes while the person decides. This is normal.
- Do not repeat a call that waits, timed out or was answered PENDING. Call invocation_wait with its invocation_id to get the result; a repeated call joins the one that waits.
- A denial is final for 15 minutes. Do not repeat the call or look for a way around it; tell the user.
- An outcome that is unknown may have happened. Check at the service before you try again.
- When a call is answered PENDING, show the user its approval link.`
	if c.Grants != nil {
		text += "\n- When many similar writes lie ahead, ask once for a standing approval with grant_request, and go on calling meanwhile."
	}
	if c.Snapshot != nil {
		text += "\n- The resource " + capabilitiesURI + " tells what this session may do at each service, and why not."
	}
	return text
}
