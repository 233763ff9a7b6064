package api

// Routes.
var (
	StreamEvents = Route[None, None]{Operation{
		Method: "GET", Path: "/api/v1/events", Who: Listener, Tag: "events",
		Summary: "Stream live events",
		Doc:     "Server-sent events. `ready` comes first and after every reconnect: read what you show again. `invocation` has {id, status, session_id, source_id, action}; `run` has {id, status} of a run that started or changed; `catalog`, `policy` and `session` say that something of the kind changed. `ended` says that the credential expired; the stream ends. `reload` says that events may be lost: to a client that was too slow, and every second while other instances cannot be reached. Read again. A session token gets events of its own session only.",
	}}
)
