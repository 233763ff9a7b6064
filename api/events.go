package api

// Routes.
var (
	StreamEvents = Route[None, None]{Operation{
		Method: "GET", Path: "/api/v1/events", Who: Listener, Tag: "events",
		Summary: "Listen to live events",
		Doc:     "Server-sent events. `ready` comes first, and after every reconnection: read again what you show. `invocation` has {id, status, session_id, source_id, action}; `run` has {id, status} of a run of an automation that began or changed; `catalog`, `policy` and `session` say that something of the kind changed. `ended` says that the credential is over, and the stream with it. `reload` says that events may have been lost, to a client that was too slow, and every second while other instances cannot be heard: read again. A session's token hears of its own session alone.",
	}}
)
