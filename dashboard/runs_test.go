package dashboard_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sallyport/action"
	"sallyport/ingest/event"
)

const runsPath = "/api/v1/runs"

func TestAWorkerClaimsAndFinishes(t *testing.T) {
	h := newHouse(t)
	worker := h.want(201, h.admin, "POST", "/api/v1/api-keys", `{"name":"worker","scope":"runs"}`).json(t)["key"].(string)
	if me := h.want(200, worker, "GET", "/api/v1/me", "").json(t); me["scope"] != "runs" || me["role"] != "member" {
		t.Errorf("me %v", me)
	}
	if r := h.want(204, worker, "POST", runsPath+"/claim", ""); r.body != "" {
		t.Errorf("none waits: %q", r.body)
	}
	h.run("r1")
	work := h.want(200, worker, "POST", runsPath+"/claim", `{"automation":"nightly-triage","lease":"90s"}`)
	if !strings.Contains(work.body, `"context":{"token":"whole","n":9007199254740993}`) {
		t.Errorf("context: %s", work.body)
	}
	got := work.json(t)
	run, session, automation := got["run"].(map[string]any), got["session"].(map[string]any), got["automation"].(map[string]any)
	if run["id"] != "r1" || run["status"] != "claimed" || !strings.HasPrefix(run["claimed_by"].(string), "key:") || got["lease_until"] != "2026-03-01T12:01:30Z" ||
		automation["instructions"] != "Sort the inbox." || session["mcp_url"] != public+"/mcp" || session["expires_at"] != "2026-03-03T12:00:00Z" || got["claim_id"] == "" {
		t.Errorf("claimed %v", got)
	}
	token := session["token"].(string)
	h.want(200, token, "GET", "/api/v1/sessions/"+session["id"].(string)+"/actions/available", "")
	h.problem(409, "run_not_queued", worker, "POST", runsPath+"/claim", `{"run":"r1"}`)
	h.problem(404, "run_not_found", worker, "POST", runsPath+"/claim", `{"run":"none"}`)
	h.problem(400, "invalid_field", worker, "POST", runsPath+"/claim", `{"lease":"0s"}`)

	claim := `"claim_id":"` + got["claim_id"].(string) + `"`
	if r := h.want(200, worker, "POST", runsPath+"/r1/renew", `{`+claim+`}`).json(t); r["status"] != "running" || r["automation_name"] != "nightly-triage" {
		t.Errorf("renewed %v", r)
	}
	if p := h.problem(400, "missing_field", worker, "POST", runsPath+"/r1/renew", `{}`); p["field"] != "/claim_id" {
		t.Errorf("no claim: %v", p)
	}
	h.problem(409, "claim_lost", worker, "POST", runsPath+"/r1/renew", `{"claim_id":"claim-0"}`)
	h.problem(409, "claim_lost", worker, "POST", runsPath+"/r1/finish", `{"claim_id":"claim-0","status":"succeeded"}`)
	if p := h.problem(413, "result_too_large", worker, "POST", runsPath+"/r1/finish", `{`+claim+`,"status":"succeeded","result":"`+strings.Repeat("x", 64<<10)+`"}`); p["field"] != "/result" {
		t.Errorf("large: %v", p)
	}
	for body, field := range map[string]string{`"status":"queued"`: "/status", `"status":"failed","code":"Bad Code"`: "/code", `"status":"succeeded","code":"fine"`: "/code"} {
		if r := h.want(400, worker, "POST", runsPath+"/r1/finish", `{`+claim+`,`+body+`}`); r.json(t)["field"] != field {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	call := h.pending(session["id"].(string))
	var hints []action.Hint
	stop := h.hints.Subscribe(func(x action.Hint) { hints = append(hints, x) })
	done := h.want(200, worker, "POST", runsPath+"/r1/finish", `{`+claim+`,"status":"failed","code":"tests_failed","message":"password=hunter2hunter2",
		"result":{"password":"hunter2hunter2","log":"`+strings.Repeat("y", 30<<10)+`"}}`)
	if r := done.json(t); r["status"] != "failed" || r["code"] != "tests_failed" || strings.Contains(done.body, "hunter2") || len(done.body) > 12<<10 {
		t.Errorf("finished %.500s", done.body)
	}
	if r := must(h.db.Run(t.Context(), org, "r1")); strings.Contains(string(r.Result)+r.Message, "hunter2") || len(r.Result) > 10<<10 || !json.Valid(r.Result) {
		t.Errorf("kept %.500s", r.Result)
	}
	if stop(); !slices.ContainsFunc(hints, func(x action.Hint) bool { return x.Kind == action.HintSession && x.Session == session["id"] }) ||
		!slices.ContainsFunc(hints, func(x action.Hint) bool { return x.Invocation == call && x.Status == action.StatusDenied }) {
		t.Errorf("hints %v", hints)
	}
	h.problem(401, "session_revoked", token, "GET", "/api/v1/me", "")
}

// Who waits for a run has it at once where a hint comes, and soon where none
// does; his credential must be good then, too.
func TestAWorkerWaitsForARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t)
		worker := h.workerKey("u-ben")
		began := time.Now()
		waited := func() time.Duration { return time.Since(began) }
		claim := func() chan reply {
			got := make(chan reply, 1)
			go func() { got <- h.doFor(time.Hour, worker, "POST", runsPath+"/claim?wait=5m", "") }()
			synctest.Wait()
			began = time.Now()
			return got
		}
		if r := h.doFor(time.Hour, worker, "POST", runsPath+"/claim?wait=5m", ""); r.StatusCode != 204 || waited() != time.Minute {
			t.Errorf("none came: %d after %s", r.StatusCode, waited())
		}
		got := claim()
		h.run("r1")
		h.hints.Publish(action.Hint{Kind: action.HintRun, Organization: org, Run: "r1", Status: "queued"})
		if r := <-got; r.StatusCode != 200 || waited() != 0 {
			t.Errorf("with a hint: %d after %s", r.StatusCode, waited())
		}
		got = claim()
		h.run("r2")
		if r := <-got; r.StatusCode != 200 || waited() > time.Second {
			t.Errorf("without a hint: %d after %s", r.StatusCode, waited())
		}
		got = claim()
		h.run("r3")
		if err := h.db.SetUserRole(t.Context(), org, "u-ben", action.RoleMember, "u-ada"); err != nil {
			t.Fatal(err)
		}
		if r := <-got; r.StatusCode != 403 {
			t.Errorf("whose person decides no more: %d", r.StatusCode)
		}
	})
}

func TestRunsAreHeardOf(t *testing.T) {
	h := newHouse(t)
	person, agent := h.listen(h.member), h.listen(h.agent)
	h.run("r1")
	work := h.want(200, h.admin, "POST", runsPath+"/claim", "").json(t)
	h.want(200, h.admin, "POST", runsPath+"/r1/renew", `{"claim_id":"`+work["claim_id"].(string)+`"}`)
	person.want("run", `{"id":"r1","status":"claimed"}`)
	person.want("run", `{"id":"r1","status":"running"}`)
	h.want(200, h.admin, "POST", runsPath+"/r1/cancel", "")
	person.want("run", `{"id":"r1","status":"failed"}`)
	h.want(200, h.admin, "POST", runsPath+"/r1/redrive", "")
	for e, data := person.next(); e != "run" || data != `{"id":"r1","status":"queued"}`; e, data = person.next() {
		if e == "" {
			t.Fatal("nothing is heard of the run that is queued anew")
		}
	}
	h.want(200, h.admin, "POST", "/api/v1/inbound-events/event-r1/skip", "")
	person.want("run", `{"id":"r1","status":"skipped"}`)
	mine := h.pending("s1")
	agent.wantCall("invocation", mine, map[string]any{"session_id": "s1"}) // and nothing of runs
}

func TestWhatPeopleLookFor(t *testing.T) {
	h := newHouse(t)
	h.claimed("r1")
	h.run("r2")
	call := h.pending(must(h.db.Run(t.Context(), org, "r1")).Session)
	h.pending("s1")
	h.received(event.Receipt{ID: "d1"})
	h.received(event.Receipt{ID: "d2", Provider: "linear"})
	for query, want := range map[string]string{
		"inbound-events?status=queued": "event-r2", "inbound-events?provider=github&status=processing": "event-r1", "inbound-events?provider=linear": "",
		"runs?event=event-r2": "r2", "runs?trigger=trigger-1&status=queued": "r2", "runs?trigger=trigger-9": "",
		"deliveries?provider=linear": "d2", "invocations?run=r1": call, "invocations?run=r2": "",
	} {
		var ids []string
		for _, row := range h.want(200, h.admin, "GET", "/api/v1/"+query, "").list(t) {
			ids = append(ids, row["id"].(string))
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	h.want(400, h.admin, "GET", "/api/v1/inbound-events?status=running", "")
}

// The session that works on a run may renew and finish that run, and needs no
// claim for it: it has but one.
func TestTheSessionOfARunFinishesIt(t *testing.T) {
	h := newHouse(t)
	first := h.claimed("r1")
	other := h.claimed("r2")
	h.problem(403, "other_run", other, "POST", runsPath+"/r1/finish", `{"status":"succeeded"}`)
	h.problem(403, "other_run", h.agent, "POST", runsPath+"/r1/renew", `{}`)
	h.problem(403, "people_only", first, "POST", runsPath+"/claim", `{}`)
	h.problem(403, "people_only", first, "GET", runsPath, "")
	h.problem(403, "other_run", other, "GET", runsPath+"/r1", "")
	if r := h.want(200, first, "GET", runsPath+"/r1", "").json(t); r["id"] != "r1" {
		t.Errorf("its own run %v", r)
	}
	// A session that a person minted with the event of a run has nothing of it.
	forged := h.want(201, h.admin, "POST", "/api/v1/sessions", `{"automation":"nightly","event_id":"event-r1"}`).json(t)["token"].(string)
	h.problem(403, "other_run", forged, "POST", runsPath+"/r1/finish", `{"status":"succeeded"}`)
	h.want(200, first, "POST", runsPath+"/r1/renew", "")
	h.problem(409, "claim_lost", first, "POST", runsPath+"/r1/finish", `{"status":"succeeded","claim_id":"claim-9"}`)
	for _, nothing := range []string{`{"status":"needs_human"}`, `{"status":"needs_human","message":" "}`} {
		if p := h.problem(400, "invalid_field", first, "POST", runsPath+"/r1/finish", nothing); p["field"] != "/message" {
			t.Errorf("%s: %v", nothing, p)
		}
	}
	if r := h.want(200, first, "POST", runsPath+"/r1/finish", `{"status":"needs_human","message":"Which of the two?"}`).json(t); r["status"] != "needs_human" || r["message"] != "Which of the two?" {
		t.Errorf("finished %v", r)
	}
	if p := h.problem(401, "session_revoked", first, "POST", runsPath+"/r1/finish", `{"status":"succeeded"}`); !strings.Contains(p["detail"].(string), "run of this session has ended") {
		t.Errorf("the token of a run that ended: %v", p)
	}

	if r := h.want(200, h.admin, "POST", runsPath+"/r1/resolve", `{"status":"succeeded","message":"The first."}`).json(t); r["status"] != "succeeded" {
		t.Errorf("resolved %v", r)
	}
	h.problem(409, "run_needs_nobody", h.admin, "POST", runsPath+"/r1/resolve", `{"status":"failed"}`)
	if r := h.want(200, h.admin, "POST", runsPath+"/r2/cancel", `{"reason":"token=ghp_0123456789012345678901234567890123456789"}`); strings.Contains(r.body, "ghp_") || r.json(t)["code"] != "cancelled" {
		t.Errorf("cancelled %s", r.body)
	}
	h.problem(409, "run_ended", h.admin, "POST", runsPath+"/r2/cancel", "")
	h.delivery("p1", "r2", event.DeliveryDead, "")
	h.delivery("p2", "r2", event.DeliveryDelivered, "")
	if got := h.want(200, h.admin, "GET", "/api/v1/outbox?status=dead", "").list(t); len(got) != 1 {
		t.Errorf("dead %v", got)
	}
	h.problem(409, "parcel_not_dead", h.admin, "POST", "/api/v1/outbox/p2/redrive", "")
	if r := h.want(200, h.admin, "POST", "/api/v1/outbox/p1/redrive", "").json(t); r["status"] != "queued" {
		t.Errorf("redriven %v", r)
	}
	h.problem(409, "run_not_failed", h.admin, "POST", runsPath+"/r2/redrive", "")
	if got := h.want(200, h.member, "GET", runsPath+"?automation=nightly-triage&status=queued", "").list(t); len(got) != 1 {
		t.Errorf("queued %v", got)
	}
}

func TestKeysForWorkers(t *testing.T) {
	h := newHouse(t)
	h.want(201, h.admin, "POST", "/api/v1/api-keys", `{"name":"w","scope":"runs","role":"member"}`)
	if p := h.problem(400, "invalid_field", h.owner, "POST", "/api/v1/api-keys", `{"name":"w","scope":"runs","role":"admin"}`); p["field"] != "/role" {
		t.Errorf("with a role: %v", p)
	}
	worker := h.workerKey("u-ben")
	h.problem(403, "scope_required", worker, "GET", runsPath, "")
	h.problem(403, "scope_required", worker, "POST", runsPath+"/r1/cancel", "")
	h.problem(403, "role_required", h.member, "POST", runsPath+"/claim", "")
	if err := h.db.SetUserRole(t.Context(), org, "u-ben", action.RoleMember, "u-ada"); err != nil {
		t.Fatal(err)
	}
	h.problem(403, "role_required", worker, "POST", runsPath+"/claim", "")
}

func TestEventsAndDeliveries(t *testing.T) {
	const events, deliveries = "/api/v1/inbound-events", "/api/v1/deliveries"
	h := newHouse(t)
	h.run("r1")
	h.record(event.Record{ID: "event-2", Trigger: "t2", Automation: "gone", Receipt: "d1", Skip: event.SkipFilter}, "")
	for query, want := range map[string]int{"": 2, "?skipped=true": 1, "?skipped=false": 1, "?automation=nightly-triage": 1, "?trigger=t2": 1, "?delivery=d1": 1, "?delivery=d2": 0} {
		if got := h.want(200, h.member, "GET", events+query, "").list(t); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	v := h.want(200, h.member, "GET", events+"/event-r1", "")
	if strings.Contains(v.body, "whole") || v.json(t)["status"] != "queued" || v.json(t)["run_id"] != "r1" || !strings.Contains(v.body, `"context":{"token":"[redacted]"}`) {
		t.Errorf("event %s", v.body)
	}
	whole := h.want(200, h.admin, "GET", events+"/event-r1/context", "").body
	if whole != `{"context":{"token":"whole","n":9007199254740993}}`+"\n" || !strings.Contains(h.log.String(), `msg="context of an event viewed" event=event-r1 by=u-ben`) {
		t.Errorf("context %s, log %s", whole, h.log)
	}
	h.problem(410, "context_gone", h.admin, "GET", events+"/event-2/context", "")
	h.exec("UPDATE events SET sealed = ? WHERE id = 'event-r1'", h.context("event-2", "{}")) // a row that somebody moved
	h.problem(500, "internal", h.admin, "GET", events+"/event-r1/context", "")
	if v := h.want(200, h.admin, "POST", events+"/event-r1/skip", "").json(t); v["status"] != "skipped" || v["skip_reason"] != "manual" {
		t.Errorf("skipped %v", v)
	}
	h.problem(409, "already_skipped", h.admin, "POST", events+"/event-r1/skip", "")

	h.received(event.Receipt{ID: "d1", Trigger: "t1", Status: event.ReceiptFailed, Redacted: []byte(`{"big":9007199254740993}`), Sealed: []byte("sealed")})
	h.received(event.Receipt{ID: "d2", Trigger: "t2", Redacted: []byte("payload=form&encoded")})
	if got := h.want(200, h.admin, "GET", deliveries+"?status=failed&trigger=t1", "").list(t); len(got) != 1 {
		t.Errorf("failed %v", got)
	}
	if v := h.want(200, h.admin, "GET", deliveries+"/d1", ""); !strings.Contains(v.body, `"payload":{"big":9007199254740993}`) || strings.Contains(v.body, "sealed") {
		t.Errorf("delivery %s", v.body)
	}
	if v := h.want(200, h.admin, "GET", deliveries+"/d2", "").json(t); v["payload"] != "payload=form&encoded" {
		t.Errorf("a form %v", v)
	}
	if v := h.want(200, h.admin, "POST", deliveries+"/d1/redrive", "").json(t); v["status"] != "queued" {
		t.Errorf("redriven %v", v)
	}
	h.problem(409, "not_failed", h.admin, "POST", deliveries+"/d2/redrive", "")
}

// A call links back to the event and the run of its session, and costs nothing
// more where there is none.
func TestCallsOfARun(t *testing.T) {
	h := newHouse(t)
	token := h.claimed("r1")
	session := must(h.db.Run(t.Context(), org, "r1")).Session
	mine, theirs := h.pending(session), h.pending("s1")
	for _, path := range []string{"/api/v1/invocations/", "/api/v1/sessions/" + session + "/actions/invocations/"} {
		if inv := h.want(200, h.member, "GET", path+mine, "").json(t); inv["event_id"] != "event-r1" || inv["run_id"] != "r1" {
			t.Errorf("of the run: %v", inv)
		}
	}
	if inv := h.want(200, token, "GET", "/api/v1/sessions/"+session+"/actions/invocations", "").list(t)[0]; inv["run_id"] != "r1" || inv["approval_url"] == nil {
		t.Errorf("to its agent: %v", inv)
	}
	if inv := h.want(200, h.agent, "GET", "/api/v1/sessions/s1/actions/invocations/"+theirs, "").json(t); inv["event_id"] != nil || inv["run_id"] != nil {
		t.Errorf("of no run: %v", inv)
	}
	if got := h.want(200, h.member, "GET", "/api/v1/invocations", "").list(t); len(got) != 2 || got[0]["run_id"] != nil || got[1]["run_id"] != "r1" {
		t.Errorf("list %v", got)
	}
}

// A run that nobody has looked at is in the inbox beside calls and requests, and
// leaves it when somebody acts.
func TestRunsThatNeedAttentionAreInTheInbox(t *testing.T) {
	h := newHouse(t)
	b := h.signIn("u-ben")
	for _, id := range []string{"r1", "r2"} {
		h.run(id)
		h.exec("UPDATE runs SET status = 'failed', code = 'tests_failed', message = 'The tests are red.', completed_at = ?, attention_id = ? WHERE id = ?", h.clock.now(), "attention of "+id, id)
	}
	h.run("r3")
	h.exec(`UPDATE automations SET tell = '["u-cyd","u-gone","u-ben"]' WHERE id = 'nightly'`)
	call := h.pending("s1")
	if got := h.want(200, h.member, "GET", runsPath+"?attention=true", "").list(t); len(got) != 2 || got[0]["needs_attention"] != true {
		t.Errorf("runs that need attention: %v", got)
	}
	if body := b.get("/inbox/count").body; strings.TrimSpace(body) != `{"calls":1,"grants":0,"variables":0,"runs":2}` {
		t.Errorf("the count is %s", body)
	}
	for path, want := range map[string][2]bool{"/": {true, true}, "/?kind=runs": {false, true}, "/?kind=calls": {true, false}, "/?kind=grants": {}, "/inbox/requests?kind=runs": {false, true}} {
		body := b.get(path).body
		if got := [2]bool{strings.Contains(body, "inv-"+call), strings.Contains(body, `id="run-r1"`) && strings.Contains(body, "The tests are red.")}; got != want {
			t.Errorf("%s shows the call and the run: %v, want %v", path, got, want)
		}
	}
	if body := b.get("/").body; !strings.Contains(body, "for <b>cyd, ben</b>") {
		t.Errorf("the card does not name whom the automation names:\n%s", body)
	}
	if r := b.get("/?kind=mail"); r.StatusCode != 400 {
		t.Errorf("an unknown kind: %d", r.StatusCode)
	}
	if body := h.signIn("u-cyd").get("/").body; !strings.Contains(body, `id="run-r1"`) || strings.Contains(body, "/runs/r1/resolve") {
		t.Error("a member may act on a run, or does not see it")
	}
	b.change("POST", runsPath+"/r1/resolve", `{"status":"failed"}`)
	b.change("POST", runsPath+"/r2/redrive", "")
	if body := b.get("/").body; strings.Contains(body, `id="run-`) {
		t.Errorf("what somebody acted on is in the inbox:\n%s", body)
	}
	if r := h.want(200, h.member, "GET", runsPath+"/r1", "").json(t); r["status"] != "failed" || r["code"] != "tests_failed" || r["message"] != "The tests are red." || r["needs_attention"] != false {
		t.Errorf("the dismissed run is %v", r)
	}
}
