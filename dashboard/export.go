package dashboard

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"sallyport/action"
)

// export writes rows as they are read, in constant memory. What goes wrong
// before anything was sent is answered like any other error; afterwards the
// answer is cut off, so that nobody takes a part of it for the whole.
type export struct {
	server *Server
	r      *http.Request
	w      http.ResponseWriter
	csv    bool
	name   string // of the file, without its ending
	begun  bool   // something was sent
	gone   error  // the client took no more
}

const (
	exportBuffer = 32 << 10
	exportStall  = 30 * time.Second // that a client may take for a buffer
)

// columns are how a row looks in CSV.
type columns[T any] struct {
	names []string
	cells func(T) []string
}

// exportRows sends what each yields.
func exportRows[T any](ctx context.Context, x *export, t columns[T], each func(ctx context.Context, yield func(T) error) error) {
	ctx, stop := x.server.untilClosing(ctx)
	defer stop()
	out := bufio.NewWriterSize(x, exportBuffer)
	write := func(v T) error { return encodeJSON(out, v) }
	finish := out.Flush
	if x.csv {
		table := csv.NewWriter(out) // with UseCRLF it would change the line breaks within cells
		_ = table.Write(t.names)
		write = func(v T) error { return table.Write(harmless(t.cells(v))) }
		finish = func() error { table.Flush(); return errors.Join(table.Error(), out.Flush()) }
	}
	err := each(ctx, write)
	if err != nil && ctx.Err() != nil {
		err = action.Errorf(action.ErrNotReady, "shutting_down", "This instance is shutting down; ask for the export again.")
	}
	switch {
	case x.gone != nil || x.r.Context().Err() != nil:
		return
	case err == nil:
		x.start() // of an empty one, too
		_ = finish()
	case !x.begun:
		x.server.fail(x.w, x.r, err)
		return
	default:
		x.broken(out, finish, err)
	}
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Time{}) // the connection may be used again
}

// broken ends what was begun so that it shows: JSON Lines with a last line
// that says why, and either with a connection that breaks.
func (x *export) broken(out *bufio.Writer, finish func() error, err error) {
	problem := x.server.problem(x.r.Context(), err)
	if finish() == nil && !x.csv {
		_ = encodeJSON(out, map[string]any{"error": problem})
		_ = out.Flush()
	}
	_ = http.NewResponseController(x.w).Flush()
	panic(http.ErrAbortHandler) // which net/http knows: it closes the connection
}

// Write sends a buffer. A client that does not read holds no rows open.
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

// harmless keeps spreadsheets from running what others wrote: what they would
// take for a formula becomes text. White space and unseen characters before
// it do not keep them from it.
func harmless(cells []string) []string {
	for i, cell := range cells {
		bare := strings.TrimLeftFunc(cell, func(r rune) bool { return r == ' ' || hidden(r) })
		first, _ := utf8.DecodeRuneInString(bare)
		if strings.HasPrefix(cell, "\t") || strings.HasPrefix(cell, "\r") || bare != "" && strings.ContainsRune("=+-@＝＋－＠", first) {
			cells[i] = "'" + cell
		}
	}
	return cells
}

// invocationColumns are what CSV tells of a call; JSON Lines tells all.
func invocationColumns() columns[exportedCall] {
	return columns[exportedCall]{
		names: []string{
			"id", "created_at", "session_id", "source_id", "source_name", "action", "risk", "mode", "mode_source", "status", "summary", "params",
			"params_hash", "tool_hash", "result", "result_summary", "error_code", "error_message", "denied_reason", "denied_note",
			"approved_by", "approved_at", "grant_id", "integration_id", "executor", "started_at", "completed_at", "duration_ms",
			"session_created_by", "group", "task", "automation_id", "decision",
		},
		cells: func(inv exportedCall) []string {
			failure := or(inv.Error, &action.Failure{})
			return []string{
				inv.ID, precise(inv.CreatedAt), inv.Session, inv.Source, inv.SourceName, inv.Action, string(inv.Risk), string(inv.Mode), string(inv.ModeSource),
				string(inv.Status), inv.Summary, string(inv.Params), inv.ParamsHash, inv.ToolHash, string(inv.Result), inv.ResultNote, failure.Code,
				failure.Message, inv.DeniedReason, inv.DeniedNote, inv.ApprovedBy, precise(inv.ApprovedAt), inv.Grant, inv.Integration, inv.Executor,
				precise(inv.StartedAt), precise(inv.CompletedAt), number(inv.DurationMS),
				inv.CreatedBy, inv.Group, inv.Task, inv.Automation, steps(inv.Steps),
			}
		},
	}
}

func policyColumns() columns[action.PolicyEvent] {
	return columns[action.PolicyEvent]{
		names: []string{"id", "at", "by", "kind", "subject", "before", "after"},
		cells: func(e action.PolicyEvent) []string {
			return []string{e.ID, precise(e.At), e.By, e.Kind, e.Subject, string(e.Before), string(e.After)}
		},
	}
}

// precise writes a time with all that is known of it.
func precise(t any) string { return moment(t, time.RFC3339Nano) }
