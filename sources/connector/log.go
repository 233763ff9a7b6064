package connector

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"sallyport/sources"
)

// severity orders log levels, the least severe first; -1: unknown to MCP.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// level returns the minimum level of log messages for the caller; empty: not
// set.
func (r *request) level() string {
	if r.caller == nil {
		return ""
	}
	if level := r.caller.LogLevel(); severity(level) >= 0 {
		return level
	}
	return ""
}

// log passes on a log message, unless the caller wants only more severe ones:
// other callers on the same session can want more.
func (x *exchange) log(params []byte) {
	members, ok := sources.Members(params)
	if !ok || x.request.caller == nil {
		return
	}
	said, _ := unquote(sources.Lookup(params, members, "level"))
	if want := x.request.level(); want != "" && severity(said) >= 0 && severity(said) < severity(want) {
		return
	}
	x.request.caller.Log(slices.Clone(x.cred.clean(params)))
}

// Timeouts of setting the log level.
const (
	levelWait    = time.Second // of the call that needs it
	levelTimeout = 5 * time.Second
)

// setLevel makes the session send log messages at the level of the request's
// caller, and waits briefly for that. It never raises the threshold for other
// callers.
func (x *exchange) setLevel(ctx context.Context) {
	if want := x.request.level(); want == "" || x.ses.stateless || !x.ses.capabilities.Logging || !x.raiseLevel(want) {
		return
	}
	told := make(chan struct{})
	x.running.Go(func() {
		defer close(told)
		x.syncLevel()
	})
	late := time.NewTimer(levelWait)
	defer late.Stop()
	select {
	case <-told:
	case <-late.C:
	case <-ctx.Done():
	}
}

// raiseLevel records the level of a session, and reports whether the caller
// must send it: it is more verbose than before, and no other caller is sending
// it.
func (x *exchange) raiseLevel(level string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	ses := x.ses
	if ses.levelFailed || ses.level != "" && severity(ses.level) <= severity(level) {
		return false
	}
	ses.level = level
	first := !ses.settingLevel
	ses.settingLevel = true
	return first
}

// syncLevel sends the level until the server has the latest one. After a
// failure it is not sent to this session again.
func (x *exchange) syncLevel() {
	for told := ""; ; {
		x.mu.Lock()
		want := x.ses.level
		if told == want {
			x.ses.settingLevel = false
			x.mu.Unlock()
			return
		}
		x.mu.Unlock()
		if err := x.sendLevel(want); err != nil {
			x.cfg.Log.Debug("asking a server for log messages", "source", x.cfg.ID, "error", x.redactError(err))
			x.mu.Lock()
			x.ses.levelFailed = true
			x.mu.Unlock()
			return
		}
		told = want
	}
}

func (x *exchange) sendLevel(level string) error {
	ctx, stop := context.WithTimeout(x.ctx, levelTimeout)
	defer stop()
	set := &exchange{
		Source: x.Source, ses: x.ses, cred: x.cred, id: x.ids.Add(1), client: x.client,
		request: &request{method: "logging/setLevel", params: json.RawMessage(`{"level":"` + level + `"}`)},
	}
	a, err := set.run(ctx)
	if err == nil && a.problem != nil {
		err = errors.New(errorText(a.problem))
	}
	return err
}
