package connector

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"sallyport/sources"
)

// severity orders the levels of log messages, the least severe first; -1 is
// one that MCP does not know.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// level returns the least severe level of log messages that is wanted; empty:
// nobody said.
func (r *request) level() string {
	if r.caller == nil {
		return ""
	}
	if level := r.caller.LogLevel(); severity(level) >= 0 {
		return level
	}
	return ""
}

// log hands on the params of a log message, unless the caller wants only more
// severe ones: others on the same session may want more.
func (x *exchange) log(params []byte) {
	members, ok := sources.Members(params)
	if !ok || x.request.caller == nil {
		return
	}
	said, _ := unquoted(sources.Lookup(params, members, "level"))
	if want := x.request.level(); want != "" && severity(said) >= 0 && severity(said) < severity(want) {
		return
	}
	x.request.caller.Log(slices.Clone(x.cred.clean(params)))
}

// setLevel has a session tell as much as the request's caller wants. What was
// told to other callers before is told on.
func (x *exchange) setLevel(ctx context.Context) {
	want := x.request.level()
	if want == "" || x.ses.stateless || !x.ses.offers.Logging {
		return
	}
	x.ses.leveling.Lock()
	defer x.ses.leveling.Unlock()
	if x.ses.level != "" && severity(x.ses.level) <= severity(want) {
		return
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	set := &exchange{
		Source: x.Source, ses: x.ses, cred: x.cred, id: x.ids.Add(1), client: x.client,
		request: &request{method: "logging/setLevel", params: json.RawMessage(`{"level":"` + want + `"}`)},
	}
	if a, err := set.run(ctx); err != nil || a.problem != nil {
		x.cfg.Log.Debug("asking a server for log messages", "source", x.cfg.ID, "error", x.scrub(err))
		return
	}
	x.ses.level = want
}
