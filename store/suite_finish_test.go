package store_test

import (
	"encoding/json"
	"strings"
	"time"

	"sallyport/action"
)

var finishStories = map[string]func(*house){
	"what Finish returns is what Load returns": func(h *house) {
		for name, change := range map[string]func(*action.Finish){
			"completed":   func(*action.Finish) {},
			"of a module": func(f *action.Finish) { f.Integration = "i1" },
			"failed": func(f *action.Finish) {
				f.Status, f.Error = action.StatusFailed, &action.Failure{Code: action.FailedTool, Fault: "upstream_auth", Message: "It said no."}
			},
			"denied": func(f *action.Finish) {
				f.Status, f.Result, f.SealedResult, f.DeniedReason, f.DeniedNote = action.StatusDenied, nil, nil, action.DeniedPolicy, "Not any more."
			},
		} {
			for kind, d := range map[string]*action.Draft{"write": h.allowed(`{"a":"` + name + `"}`), "read": h.read(`{}`), "read that somebody saw": h.read(`{}`)} {
				h.began(d)
				if kind == "read that somebody saw" { // then it is written before its end is
					h.status(d.ID, action.StatusExecuting)
				}
				f := h.done(d.ID)
				change(f)
				inv := h.finish(f)
				rec := h.load(d.ID)
				h.equal(inv, rec.Invocation, name+" "+kind)
				h.equal(rec.Integration, f.Integration, name+" "+kind+", for which integration")
				h.equal(string(rec.SealedResult), string(f.SealedResult), "the sealed result")
			}
		}
	},
	"results come back byte for byte": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		f := h.done(d.ID)
		f.Result = json.RawMessage("{ \"n\": 1.10e400,\n \"dup\":1,\"dup\":2, \"s\":\"\\u0000 <&> \\ud800\" }")
		h.finish(f)
		h.equal(string(h.load(d.ID).Result), string(f.Result), "the result")
	},
	"invalid text does not prevent a finish": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		f := h.done(d.ID)
		f.Status, f.Error = action.StatusFailed, &action.Failure{Code: action.FailedTool, Message: "It said '\x00' \\ ? \xff {ü}."}
		h.finish(f)
		got := h.load(d.ID).Error.Message
		if !strings.HasPrefix(got, "It said '") || !strings.HasSuffix(got, "{ü}.") || !strings.Contains(got, `' \ ? `) {
			h.Errorf("the message came back as %q", got)
		}
	},
	"a result without a pickup deadline is not stored": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		f := h.done(d.ID)
		f.PickupUntil = time.Time{}
		h.finish(f)
		if h.load(d.ID).SealedResult != nil {
			h.Error("a result was kept for nobody")
		}
		h.began(h.allowed(`{}`))
	},
	"a second finish is recorded as an event": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		first := h.finish(h.done(d.ID))
		f := h.done(d.ID)
		f.Status, f.Error, f.Now = action.StatusFailed, &action.Failure{Code: action.FailedTool, Message: "It said no."}, h.now.Add(time.Second)
		inv, recorded, err := h.db.Finish(h.ctx, f)
		h.ok(err)
		h.equal(recorded, false, "recorded")
		h.equal(inv, first, "the row")
		h.lateOutcome(d.ID, `"status":"failed"`, `"code":"tool_error"`, `"result":{"content":[]}`)
	},
	"a finish after the sweep is recorded as an event": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		h.later(2 * time.Minute)
		swept := h.sweptOne(h.rules(), d.ID, action.StatusFailed)
		inv, recorded, err := h.db.Finish(h.ctx, h.done(d.ID))
		h.ok(err)
		h.equal(recorded, false, "recorded")
		h.equal(inv, swept.Invocation, "the row")
		h.equal(h.load(d.ID), swept, "the row")
		h.lateOutcome(d.ID, `"status":"completed"`)
	},
	"only the executor ends it": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		f := h.done(d.ID)
		f.Executor = "instance-2"
		_, _, err := h.db.Finish(h.ctx, f)
		h.refused(err, action.ErrConflict, "not_executing")
		h.finish(h.done(d.ID))
	},
	"only an executing call can finish": func(h *house) {
		d := h.held(`{}`)
		h.began(d)
		_, _, err := h.db.Finish(h.ctx, h.done(d.ID))
		h.refused(err, action.ErrConflict, "not_executing")
		_, _, err = h.db.Finish(h.ctx, h.done(newID()))
		h.refused(err, action.ErrNotFound, "invocation_not_found")
	},
	"an invalid finish is refused": func(h *house) {
		d := h.allowed(`{}`)
		h.began(d)
		for _, change := range []func(*action.Finish){
			func(f *action.Finish) { f.Status = action.StatusExecuting },
			func(f *action.Finish) { f.Status = action.StatusExpired },
			func(f *action.Finish) { f.Status = action.StatusFailed },
			func(f *action.Finish) { f.Status = action.StatusDenied },
			func(f *action.Finish) { f.Error = &action.Failure{Code: "x"} },
		} {
			f := h.done(d.ID)
			change(f)
			if _, _, err := h.db.Finish(h.ctx, f); err == nil {
				h.Errorf("%+v was taken", f)
			}
		}
		h.status(d.ID, action.StatusExecuting)
	},
}

func (h *house) lateOutcome(id string, parts ...string) {
	h.Helper()
	events := must(h.db.Events(h.ctx, h.org.ID, id))(h)
	if len(events) != 1 || events[0].Kind != action.LateOutcome {
		h.Fatalf("events %+v, want one late outcome", events)
	}
	for _, part := range parts {
		if !strings.Contains(string(events[0].Data), part) {
			h.Errorf("the late outcome %s has no %s", events[0].Data, part)
		}
	}
}
