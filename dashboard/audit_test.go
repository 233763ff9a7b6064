package dashboard_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/dashboard"
)

func TestAudit(t *testing.T) {
	h := newHouse(t)
	must(h.db.Seal(t.Context(), auditKey(), 100))
	heads := h.want(200, h.owner, "GET", "/api/v1/audit/heads", "").list(t)
	if len(heads) != 1 || heads[0]["seq"] == nil || heads[0]["organization_id"] != org {
		t.Errorf("heads %v", heads)
	}
	head := string(mustJSON(t, heads[0]))
	verified := func(ok bool) {
		t.Helper()
		for _, body := range []string{``, `{}`, `{"head":` + head + `}`} {
			r := h.want(200, h.admin, "POST", "/api/v1/audit/verify", body).json(t)
			if r["ok"] != ok || (len(r["faults"].([]any)) == 0) != ok {
				t.Errorf("%s: %v", body, r)
			}
		}
	}
	verified(true)
	forged := strings.Replace(head, heads[0]["hash"].(string), strings.Repeat("0", 64), 1)
	if p := h.want(400, h.admin, "POST", "/api/v1/audit/verify", `{"head":`+forged+`}`).json(t); p["field"] != "/head" {
		t.Errorf("a forged head: %v", p)
	}
	h.exec("DROP TRIGGER policy_events_update")
	h.exec("UPDATE policy_events SET by = 'u-cyd' WHERE id = (SELECT min(id) FROM policy_events WHERE organization_id = ?)", org)
	verified(false)
}

// kept fills the evidence.
func (h *house) kept(n int) {
	for i := range n {
		h.add(action.Invocation{
			Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)), CreatedAt: h.clock.now().Add(time.Duration(i) * time.Hour), DurationMS: ptr(int64(i)),
		})
	}
}

// A source that there is not is no filter that finds nothing; the id of one that
// was removed is.
func TestCallsOfNoSource(t *testing.T) {
	h := newHouse(t)
	p := h.problem(400, "no_such_source", h.admin, "GET", "/api/v1/invocations?source=githb", "")
	if p["field"] != "/source" || !strings.Contains(p["detail"].(string), "Did you mean github") {
		t.Errorf("it is answered %v", p)
	}
	h.want(200, h.admin, "GET", "/api/v1/invocations?source=connector:removed", "")
}

func TestExport(t *testing.T) {
	h := newHouse(t)
	h.kept(3)
	id := h.pending("s2")
	h.mint(action.Session{ID: "foreign", Organization: "org2"})
	h.add(action.Invocation{Organization: "org2", Session: "foreign", Summary: canary})
	const path = "/api/v1/audit/export"
	for query, want := range map[string]int{
		"": 4, "?status=pending": 1, "?status=pending,completed": 4, "?session=s1": 3, "?source=github&action=list": 3, "?action=drop": 0,
		"?from=2026-03-01T13:00:00Z": 2, "?to=2026-03-01T13:00:00Z": 2, "?from=2026-03-02": 0,
	} {
		r := h.want(200, h.admin, "GET", path+query, "")
		lines := strings.Split(strings.TrimSuffix(r.body, "\n"), "\n")
		if r.body == "" {
			lines = nil
		}
		if len(lines) != want || r.Header.Get("Content-Type") != "application/jsonl" || !strings.Contains(r.Header.Get("Content-Disposition"), `attachment; filename="sallyport-invocations.jsonl"`) {
			t.Errorf("%s: %d lines, %v", query, len(lines), r.Header)
		}
		for _, line := range lines {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: line %s", query, line)
			}
		}
	}
	all := h.want(200, h.admin, "GET", path, "").body
	if strings.Contains(all, canary) || strings.Contains(all, "hunter2") || !strings.Contains(all, id) || !strings.Contains(all, `"n":9007199254740993`) {
		t.Errorf("export %s", all)
	}
	h.want(200, h.admin, "PUT", "/api/v1/policy/modes/*", `{"mode":"deny"}`)
	policy := h.want(200, h.admin, "GET", path+"?what=policy", "")
	if !strings.Contains(policy.body, `"kind":"mode"`) || !strings.Contains(policy.Header.Get("Content-Disposition"), "sallyport-policy.jsonl") {
		t.Errorf("changes of policy %s", policy.body)
	}
}

// counted counts how often a session is looked up.
type counted struct {
	dashboard.Sessions
	n     map[string]int
	fails error
}

func (c counted) Session(ctx context.Context, id string) (action.Session, error) {
	if c.n[id]++; c.fails != nil && id == "s9" {
		return action.Session{}, c.fails
	}
	return c.Sessions.Session(ctx, id)
}

// Evidence says of each call whose session it was; each session is looked up
// once.
func TestExportTellsOfSessions(t *testing.T) {
	rows := counted{n: map[string]int{}}
	h := newHouse(t, func(c *dashboard.Config) { rows.Sessions = c.Sessions; c.Sessions = &rows })
	h.mint(action.Session{ID: "s9", Organization: org, CreatedBy: "u-ada", Group: "developer", Task: "T-42", Automation: "nightly"})
	for range 3 {
		h.held("s9", "create")
	}
	h.add(action.Invocation{Session: "gone"})
	const path = "/api/v1/audit/export"
	want := []string{"u-ada", "developer", "T-42", "nightly"}
	fields := []string{"session_created_by", "group", "task", "automation_id"}

	lines := strings.Split(strings.TrimSpace(h.want(200, h.admin, "GET", path, "").body), "\n")
	for i, line := range lines {
		row := reply{body: line}.json(t)
		for j, field := range fields {
			if i < 3 && row[field] != want[j] || i == 3 && row[field] != nil || row["session_id"] == nil || i < 3 && row["decision"] == nil {
				t.Errorf("line %d: %s is %v", i, field, row[field])
			}
		}
	}
	if rows.n["s9"] != 1 || rows.n["gone"] != 1 || len(lines) != 4 {
		t.Errorf("%d lines, sessions looked up %v", len(lines), rows.n)
	}
	table, err := csv.NewReader(strings.NewReader(h.want(200, h.admin, "GET", path+"?format=csv", "").body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(table[0], "session_created_by")
	if !slices.Equal(table[0][at:at+5], append(slices.Clone(fields), "decision")) || !slices.Equal(table[1][at:at+4], want) || !slices.Equal(table[4][at:at+5], []string{"", "", "", "", ""}) {
		t.Errorf("table %q", table)
	}
	var steps []action.Step
	if err := json.Unmarshal([]byte(table[1][at+4]), &steps); err != nil || len(steps) != 2 || steps[1].Mode != action.ModeRequireApproval {
		t.Errorf("decision %q: %v", table[1][at+4], err)
	}
	rows.fails = errors.New("the database is away")
	h.problem(500, "internal", h.admin, "GET", path, "")
}

// callHeader begins the header of exported calls: scripts know the columns by position,
// and a new one comes after these.
const callHeader = "id,created_at,session_id,source_id,source_name,action,risk,mode,mode_source,status,summary,params," +
	"params_hash,tool_hash,result,result_summary,error_code,error_message,denied_reason,denied_note," +
	"approved_by,approved_at,grant_id,integration_id,executor,started_at,completed_at,duration_ms," +
	"session_created_by,group,task,automation_id,decision"

// Every field of a call is in CSV, in its column, but for three.
func TestExportOfWholeRows(t *testing.T) {
	h := newHouse(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	id := h.add(action.Invocation{
		Session: "s9", Source: "linear", SourceName: "Linear", Action: "create", Risk: action.RiskWrite, Mode: action.ModeRequireApproval,
		ModeSource: action.LayerOrganization, Status: action.StatusFailed, Summary: "Do it", Params: json.RawMessage(`{"a": 1}`), ParamsHash: "p1", ToolHash: "t1",
		Result: json.RawMessage(`{"b": 2}`), ResultNote: "Two", Error: &action.Failure{Code: "tool_error", Fault: "upstream_auth", Message: "It broke."}, DeniedNote: "why",
		ApprovedBy: "u-ada", ApprovedAt: &at, Integration: "acme", CreatedAt: at, StartedAt: &at, CompletedAt: &at, DurationMS: new(int64(7)),
	})
	rows, err := csv.NewReader(strings.NewReader(h.want(200, h.admin, "GET", "/api/v1/audit/export?format=csv", "").body)).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	const when = "2026-01-02T03:04:05.000006Z"
	want := []string{
		id, when, "s9", "linear", "Linear", "create", "write", "require_approval", "organization", "failed", "Do it", `{"a": 1}`,
		"p1", "t1", `{"b": 2}`, "Two", "tool_error", "It broke.", "", "why", "u-ada", when, "", "acme", "", when, when, "7",
	}
	if got := rows[1][:len(want)]; !slices.Equal(got, want) {
		t.Errorf("row %q, want %q", got, want)
	}
	if i := slices.Index(rows[0], "error_fault"); i < len(strings.Split(callHeader, ",")) || rows[1][i] != "upstream_auth" {
		t.Errorf("the fault is in column %d of %q", i, rows[1])
	}
	for _, name := range []string{"organization_id", "expires_at", "approval_url", "error"} {
		if slices.Contains(rows[0], name) {
			t.Errorf("%s is in the header", name)
		}
	}
}

func TestExportAsCSV(t *testing.T) {
	h := newHouse(t)
	formulas := []string{
		"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\u00a0=1", "\u200b=1", "\ufeff-1", "\n=1", "＝1", "\x00=1", "\t", "\rx",
	}
	harmless := []string{"", "a=1", "1", `{"a":1}`, "'=1", `say "hi", twice`, "two\nlines", "ü", "a\tb"}
	for _, text := range slices.Concat(formulas, harmless) {
		h.add(action.Invocation{DeniedNote: text, Summary: text, Status: action.StatusDenied, DeniedReason: action.DeniedPolicy})
	}
	r := h.want(200, h.admin, "GET", "/api/v1/audit/export?format=csv", "")
	if r.Header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" || !strings.HasPrefix(r.body, callHeader) {
		t.Errorf("%v %.100s", r.Header, r.body)
	}
	rows, err := csv.NewReader(strings.NewReader(r.body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+len(formulas)+len(harmless) {
		t.Fatalf("%d rows", len(rows))
	}
	at := slices.Index(rows[0], "denied_note")
	for i, text := range slices.Concat(formulas, harmless) {
		want := text
		if i < len(formulas) {
			want = "'" + text
		}
		if got := rows[1+i][at]; got != want {
			t.Errorf("%q is written as %q", text, got)
		}
	}
	if empty := h.want(200, h.admin, "GET", "/api/v1/audit/export?format=csv&action=none", "").body; strings.Count(empty, "\n") != 1 {
		t.Errorf("without rows: %q", empty)
	}
	if policy := h.want(200, h.admin, "GET", "/api/v1/audit/export?format=csv&what=policy", "").body; !strings.HasPrefix(policy, "id,at,by,kind,subject,before,after\n") {
		t.Errorf("changes of policy: %q", policy)
	}
}

// broken fails after the rows that there are.
type broken struct {
	dashboard.Calls
	err error
}

func (b broken) Export(ctx context.Context, f action.InvocationFilter, yield func(action.Invocation) error) error {
	return errors.Join(b.Calls.Export(ctx, f, yield), b.err)
}

// An export that fails before its first bytes is an error like any other; one
// that fails on the way cannot be taken for a whole one.
func TestExportThatFails(t *testing.T) {
	h := newHouse(t, func(c *dashboard.Config) { c.Calls = broken{c.Calls, errors.New("the disk is on fire")} })
	h.problem(500, "internal", h.admin, "GET", "/api/v1/audit/export", "")
	h.problem(500, "internal", h.admin, "GET", "/api/v1/audit/export?format=csv", "")
	h.kept(1000)
	server := httptest.NewServer(h.srv.Handler())
	defer server.Close()
	for format, last := range map[string]string{"jsonl": `{"error":{`, "csv": ``} {
		res := h.open(t.Context(), server, format)
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: status %d, and the end is %v", format, res.StatusCode, err)
		}
		lines := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
		if len(lines) < 1000 || !strings.HasPrefix(lines[len(lines)-1], last) || strings.Contains(string(body), "fire") {
			t.Errorf("%s: %d lines, the last %s", format, len(lines), lines[len(lines)-1])
		}
	}
	if !strings.Contains(h.log.String(), "on fire") {
		t.Error("the log does not say why")
	}
}

// open begins an export over a real connection.
func (h *house) open(ctx context.Context, server *httptest.Server, format string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/v1/audit/export?format="+format, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Host = "gate.test:8787"
	r.Header.Set("Authorization", "Bearer "+h.admin)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	return res
}

// endless yields rows until it is told to stop, and tells how that was.
type endless struct {
	dashboard.Calls
	ended chan error
}

func (e endless) Export(ctx context.Context, _ action.InvocationFilter, yield func(action.Invocation) error) error {
	for {
		err := ctx.Err()
		if err == nil {
			err = yield(action.Invocation{Organization: org, Params: json.RawMessage(`{"a":"` + strings.Repeat("x", 1000) + `"}`)})
		}
		if err != nil {
			e.ended <- err
			return err
		}
	}
}

// An export is sent as it is read, and ends with its client or the server.
func TestAnExportEndsWithItsClient(t *testing.T) {
	for name, end := range map[string]func(h *house, leave func()){
		"client": func(_ *house, leave func()) { leave() },
		"server": func(h *house, _ func()) { h.srv.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			rows := endless{ended: make(chan error, 1)}
			h := newHouse(t, func(c *dashboard.Config) { rows.Calls = c.Calls; c.Calls = rows })
			server := httptest.NewServer(h.srv.Handler())
			defer server.Close()
			ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
			defer leave()
			res := h.open(ctx, server, "jsonl")
			defer res.Body.Close()
			if _, err := io.ReadFull(res.Body, make([]byte, 100<<10)); err != nil {
				t.Fatal(err)
			}
			end(h, leave)
			if name == "server" {
				body, err := io.ReadAll(res.Body)
				if tail := body[max(0, len(body)-400):]; !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(tail), `"code":"shutting_down"`) {
					t.Errorf("the end is %v: %s", err, tail)
				}
			}
			select {
			case err := <-rows.ended:
				if err == nil {
					t.Error("the rows ended by themselves")
				}
			case <-time.After(10 * time.Second):
				t.Error("the rows are still read")
			}
		})
	}
}
