package routes

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

func (s *handlers) auditRoutes() {
	dashboard.Handle(s.Server, api.ListAuditHeads, listAll(s.Calls.AuditHeads))
	dashboard.Handle(s.Server, api.VerifyAudit, func(ctx context.Context, p *dashboard.Principal, in *api.Body[*api.KnownHead]) (action.AuditReport, error) {
		var known *action.AuditHead
		if in.Body != nil {
			known = in.Body.Head
		}
		if known != nil && known.Organization != p.Organization {
			return action.AuditReport{}, dashboard.Invalid("/head/organization_id", "This head belongs to another organization. Verify it there.")
		}
		report, err := s.VerifyAudit(ctx, p.Organization, known)
		if err != nil {
			return action.AuditReport{}, err
		}
		report.Faults = dashboard.NonNil(report.Faults)
		s.Log.InfoContext(ctx, "audit log verified", "ok", report.OK, "checked", report.Checked, "faults", len(report.Faults), "by", p.By())
		return report, nil
	})
}

func (s *handlers) refusalRoutes() {
	dashboard.Handle(s.Server, api.ListRefusals, func(ctx context.Context, p *dashboard.Principal, in *api.ListRefusalsInput) (api.List[action.RefusalCount], error) {
		f := action.RefusalFilter{Organization: p.Organization, Session: in.Session, Kind: action.RefusalKind(in.Kind), Limit: in.Limit, Cursor: in.Cursor}
		var err error
		if f.From, err = view.ParseTime("/from", in.From); err != nil {
			return api.List[action.RefusalCount]{}, err
		}
		if f.To, err = view.ParseTime("/to", in.To); err != nil {
			return api.List[action.RefusalCount]{}, err
		}
		page, err := s.Calls.Refusals(ctx, f)
		return view.PageOf(page, identity), err
	})
}

func (s *handlers) exportRoutes() {
	dashboard.HandleStream(s.Server, api.ExportAudit, func(ctx context.Context, p *dashboard.Principal, in *api.ExportQuery) (*dashboard.StreamResponse, error) {
		f, err := s.InvocationFilter(ctx, p, in.CallFilters, in.CallerFilters)
		if err != nil {
			return nil, err
		}
		s.Log.InfoContext(ctx, "audit log exported", "what", in.What, "by", p.By())
		return &dashboard.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			x := &export{server: s, r: r, w: w, csv: in.Format == "csv", name: "sallyport-" + in.What}
			switch in.What {
			case "refusals":
				exportRows(r.Context(), x, refusalColumns(), func(ctx context.Context, yield func(action.RefusalCount) error) error {
					return s.Calls.ExportRefusals(ctx, action.RefusalFilter{Organization: f.Organization, Session: f.Session, From: f.From, To: f.To}, yield)
				})
				return
			case "policy":
				exportRows(r.Context(), x, policyColumns(), func(ctx context.Context, yield func(action.PolicyEvent) error) error {
					return s.Policy.ExportPolicy(ctx, f.Organization, f.From, f.To, yield)
				})
				return
			}
			exportRows(r.Context(), x, invocationColumns(), func(ctx context.Context, yield func(exportedCall) error) error {
				return s.exportCalls(ctx, f, yield)
			})
		}}, nil
	})
	lines := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	s.API.OpenAPI().Paths["/api/v1/audit/export"].Get.Responses["200"] = &huma.Response{
		Description: "The rows as a file", Content: map[string]*huma.MediaType{"application/jsonl": lines, "text/csv": lines},
	}
}

// export streams rows in constant memory. An error before the first byte is
// reported like any other; a later one aborts the connection, so that a partial
// file is not taken for a complete one.
type export struct {
	server *handlers
	r      *http.Request
	w      http.ResponseWriter
	csv    bool
	name   string // of the file, without its extension
	begun  bool   // something was sent
	gone   error  // the write error of a client that disconnected
}

const (
	exportBuffer = 32 << 10
	exportStall  = 30 * time.Second // to write one buffer
)

// columns converts a row to CSV.
type columns[T any] struct {
	names []string
	cells func(T) []string
}

// exportRows streams the rows that each yields.
func exportRows[T any](ctx context.Context, x *export, t columns[T], each func(ctx context.Context, yield func(T) error) error) {
	ctx, stop := x.server.UntilClosing(ctx)
	defer stop()
	out := bufio.NewWriterSize(x, exportBuffer)
	write := func(v T) error { return dashboard.EncodeJSON(out, v) }
	finish := out.Flush
	if x.csv {
		table := csv.NewWriter(out) // UseCRLF would change line breaks within cells
		_ = table.Write(t.names)
		write = func(v T) error { return table.Write(escapeFormula(t.cells(v))) }
		finish = func() error { table.Flush(); return errors.Join(table.Error(), out.Flush()) }
	}
	err := each(ctx, write)
	if err != nil && ctx.Err() != nil {
		err = action.Errorf(action.ErrNotReady, "shutting_down", "This instance is shutting down. Retry the export.")
	}
	switch {
	case x.gone != nil || x.r.Context().Err() != nil:
		return
	case err == nil:
		x.start() // also if there are no rows
		_ = finish()
	case !x.begun:
		x.server.Fail(x.w, x.r, err)
		return
	default:
		x.fail(out, finish, err)
	}
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Time{}) // the connection may be used again
}

// fail aborts a response that has started: JSON Lines get a last line with the
// error, and the connection is closed without the final chunk.
func (x *export) fail(out *bufio.Writer, finish func() error, err error) {
	problem := x.server.Problem(x.r.Context(), err)
	if finish() == nil && !x.csv {
		_ = dashboard.EncodeJSON(out, map[string]any{"error": problem})
		_ = out.Flush()
	}
	_ = http.NewResponseController(x.w).Flush()
	panic(http.ErrAbortHandler) // net/http closes the connection
}

// Write writes with a deadline, so that a stalled client does not keep the query
// open.
func (x *export) Write(b []byte) (int, error) {
	x.start()
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(exportStall)) // not every writer has deadlines
	n, err := x.w.Write(b)
	if err != nil {
		x.gone = err
	}
	return n, err
}

func (x *export) start() {
	if x.begun {
		return
	}
	x.begun = true
	kind, ending := "application/jsonl", ".jsonl"
	if x.csv {
		kind, ending = "text/csv; charset=utf-8; header=present", ".csv"
	}
	x.w.Header().Set("Content-Type", kind)
	x.w.Header().Set("Content-Disposition", `attachment; filename="`+x.name+ending+`"`)
}

// escapeFormula prevents CSV injection: cells that a spreadsheet would run as a
// formula become text, also behind white space and invisible characters.
func escapeFormula(cells []string) []string {
	for i, cell := range cells {
		bare := strings.TrimLeftFunc(cell, func(r rune) bool { return r == ' ' || render.IsInvisible(r) })
		first, _ := utf8.DecodeRuneInString(bare)
		if strings.HasPrefix(cell, "\t") || strings.HasPrefix(cell, "\r") || bare != "" && strings.ContainsRune("=+-@＝＋－＠", first) {
			cells[i] = "'" + cell
		}
	}
	return cells
}

// callLayout is the order of the first CSV columns of calls, which scripts read by
// position. Other fields follow.
const callLayout = `id created_at session_id source_id source_name action risk mode mode_source status summary params
  params_hash tool_hash result result_summary error_code error_message denied_reason denied_note
  approved_by approved_at grant_id integration_id executor started_at completed_at duration_ms
  session_created_by group task automation_id decision`

// callsWithout lists the fields of a call that CSV omits.
const callsWithout = "organization_id expires_at approval_url"

// invocationColumns returns the CSV columns of calls; JSON Lines has all fields.
func invocationColumns() columns[exportedCall] {
	fields := csvFields(reflect.TypeFor[exportedCall](), "", nil)
	names := strings.Fields(callLayout)
	for _, f := range fields {
		if !slices.Contains(names, f.name) && !slices.Contains(strings.Fields(callsWithout), f.name) {
			names = append(names, f.name)
		}
	}
	index := make([][]int, len(names))
	for i, name := range names {
		index[i] = fields[slices.IndexFunc(fields, func(f csvField) bool { return f.name == name })].index
	}
	return columns[exportedCall]{names: names, cells: func(call exportedCall) []string {
		v, cells := reflect.ValueOf(call), make([]string, len(names))
		for i := range index {
			if field, err := v.FieldByIndexErr(index[i]); err == nil { // otherwise it did not fail, and has no error
				cells[i] = csvCell(field)
			}
		}
		return cells
	}}
}

// csvField is a CSV column and its field.
type csvField struct {
	name  string
	index []int
}

// csvFields returns the fields of a struct by their JSON names. Fields of a nested
// struct are prefixed with its name.
func csvFields(t reflect.Type, prefix string, within []int) (all []csvField) {
	for i := range t.NumField() {
		f, index := t.Field(i), append(slices.Clone(within), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous:
			all = append(all, csvFields(f.Type, prefix, index)...)
		case name == "-":
		case f.Type == reflect.TypeFor[*action.Failure]():
			all = append(all, csvFields(f.Type.Elem(), prefix+name+"_", index)...)
		default:
			all = append(all, csvField{prefix + name, index})
		}
	}
	return all
}

func csvCell(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Time, *time.Time:
		return formatNano(value)
	case *int64:
		if value == nil {
			return ""
		}
		return strconv.FormatInt(*value, 10)
	case json.RawMessage:
		return string(value)
	case []action.Step:
		if len(value) == 0 {
			return ""
		}
		text, _ := json.Marshal(value) // plain strings always encode
		return string(text)
	}
	return fmt.Sprint(v.Interface())
}

func policyColumns() columns[action.PolicyEvent] {
	return columns[action.PolicyEvent]{
		names: []string{"id", "at", "by", "kind", "subject", "before", "after"},
		cells: func(e action.PolicyEvent) []string {
			return []string{e.ID, formatNano(e.At), e.By, e.Kind, e.Subject, string(e.Before), string(e.After)}
		},
	}
}

func refusalColumns() columns[action.RefusalCount] {
	return columns[action.RefusalCount]{
		names: []string{"id", "first_at", "last_at", "session_id", "kind", "source_id", "action", "count"},
		cells: func(c action.RefusalCount) []string {
			return []string{c.ID, formatNano(c.FirstAt), formatNano(c.LastAt), c.Session, string(c.Kind), c.Source, c.Action, strconv.FormatInt(c.Count, 10)}
		},
	}
}

// formatNano formats a time with full precision.
func formatNano(t any) string { return render.FormatTime(t, time.RFC3339Nano) }

// exportedCall is a call with attributes of its session.
type exportedCall struct {
	action.Invocation
	CreatedBy  string `json:"session_created_by,omitempty"`
	Group      string `json:"group,omitempty"`
	Task       string `json:"task,omitempty"`
	Automation string `json:"automation_id,omitempty"`
}

// sessionCache caches sessions during one export.
type sessionCache struct {
	server *handlers
	known  map[string]action.Session
}

// maxCachedSessions bounds the cache, which is cleared when it is full.
const maxCachedSessions = 1000

// session adds the attributes of its session to a call, unless the session was
// deleted.
func (c *sessionCache) session(ctx context.Context, inv action.Invocation) (exportedCall, error) {
	s, ok := c.known[inv.Session]
	if !ok {
		var err error
		if s, err = c.server.Session(ctx, inv.Organization, inv.Session); err != nil && !errors.Is(err, action.ErrNotFound) {
			return exportedCall{}, err
		}
		if len(c.known) >= maxCachedSessions {
			clear(c.known)
		}
		c.known[inv.Session] = s
	}
	return exportedCall{inv, s.CreatedBy, s.Group, s.Task, s.Automation}, nil
}

// exportCalls yields calls with the attributes of their sessions.
func (s *handlers) exportCalls(ctx context.Context, f action.InvocationFilter, yield func(exportedCall) error) error {
	from := sessionCache{s, map[string]action.Session{}}
	return s.Calls.Export(ctx, f, func(inv action.Invocation) error {
		call, err := from.session(ctx, inv)
		if err != nil {
			return err
		}
		return yield(call)
	})
}
