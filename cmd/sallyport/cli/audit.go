package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type auditCommand struct {
	Verify auditVerify `cmd:"" help:"Verify the audit log; exits with 1 if a record was changed or removed."`
	Heads  auditHeads  `cmd:"" help:"Print the head of the audit log, to keep elsewhere for verify --head."`
	Export auditExport `cmd:"" help:"Export calls or policy changes."`
}

type auditVerify struct {
	clientFlags
	Head string `placeholder:"FILE" type:"path" help:"File with heads printed by audit heads; the last one must still be in the log."`
}

// Run fails if the chain is broken. It has no timeout because a long chain
// takes minutes.
func (c *auditVerify) Run(ctx context.Context, std *command.Streams) error {
	var known *api.KnownHead
	var head *action.AuditHead
	if c.Head != "" {
		var err error
		if head, err = readHead(c.Head); err != nil {
			return err
		}
		known = &api.KnownHead{Head: head}
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	server.HTTP.Timeout = 0
	report, raw, err := Fetch(ctx, server, api.VerifyAudit, api.Body[*api.KnownHead]{Body: known})
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) { ShowReport(w, report, head) }); err != nil || report.OK {
		return err
	}
	return errors.New("the audit log does not verify; keep the database unchanged and compare it with your backups")
}

// ShowReport prints the result of an audit log verification.
func ShowReport(w io.Writer, r *action.AuditReport, head *action.AuditHead) {
	for _, f := range r.Faults {
		printLine(w, fmt.Sprintf("%s at %d: %s %s", f.Kind, f.Seq, f.Row, f.Message))
	}
	if r.More {
		fmt.Fprintln(w, "there are more faults")
	}
	switch {
	case r.OK && r.Head.Seq == 0:
		fmt.Fprintln(w, "the audit log is empty")
	case r.OK:
		fmt.Fprintf(w, "the audit log verifies: %s, from %d to %d\n", command.Plural(r.Checked, "link"), r.From, r.Head.Seq)
	}
	if head != nil {
		fmt.Fprintf(w, "compared with head %d of %s\n", head.Seq, head.At.UTC().Format(time.RFC3339))
	}
	if r.Note != "" {
		printLine(w, r.Note)
	}
	if r.Unsealed > 0 {
		age := time.Duration(r.UnsealedAge * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(w, "not sealed yet: %s, the oldest %s old\n", command.Plural(r.Unsealed, "row"), age)
	}
}

// readHead returns the last head in a file.
func readHead(name string) (*action.AuditHead, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var last *action.AuditHead
	for d := json.NewDecoder(file); ; {
		var head action.AuditHead
		err := d.Decode(&head)
		switch {
		case errors.Is(err, io.EOF) && last != nil:
			return last, nil
		case err != nil || head.MAC == "":
			return nil, fmt.Errorf("%s contains no heads; create it with: sallyport audit heads > FILE", command.Printable(name))
		}
		last = &head
	}
}

type auditHeads struct{ clientFlags }

// Run prints one head per line, so that a file can collect them.
func (c *auditHeads) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.clientFlags, std, api.ListAuditHeads, api.None{}, func(w io.Writer, all *api.List[action.AuditHead]) {
		lines := json.NewEncoder(w)
		for _, head := range all.Items {
			_ = lines.Encode(head) // cannot fail to encode; the next verify detects a full disk
		}
	})
}

type auditExport struct {
	clientFlags
	api.ExportQuery
	Out string `placeholder:"FILE" type:"path" help:"New file to write, mode 0600 (default: standard output)."`
}

// Run fails if the export is incomplete, and then leaves no file.
func (c *auditExport) Run(ctx context.Context, std *command.Streams) error {
	if c.JSON && c.Format == "csv" {
		return command.UsageErrorf("pass either --json or --format csv")
	}
	filters := c.ExportQuery
	filters.What, filters.Format, filters.From, filters.To = "", "", "", ""
	if c.What == "policy" && !reflect.ValueOf(filters).IsZero() {
		return command.UsageErrorf("--status, --session, --source, --action and similar flags filter calls; --what policy supports only --from and --to")
	}
	if filters.Session = ""; c.What == "refusals" && !reflect.ValueOf(filters).IsZero() {
		return command.UsageErrorf("--status, --source, --action and similar flags filter calls; --what refusals supports only --session, --from and --to")
	}
	if err := checkStatuses(c.Status); err != nil {
		return err
	}
	c.Source, c.Action = splitAction(c.Source, c.Action)
	return c.write(ctx, std, exportStallTimeout)
}

// exportStallTimeout limits the time that the server takes for the next row.
const exportStallTimeout = 2 * time.Minute

func (c *auditExport) write(ctx context.Context, std *command.Streams, stallTimeout time.Duration) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	if err := c.checkSource(ctx, server); err != nil {
		return err
	}
	if err := server.checkSession(ctx, c.Session); err != nil {
		return err
	}
	if c.Out == "" {
		return server.export(ctx, c.ExportQuery, std.Out, stallTimeout)
	}
	file, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s already exists; an export is written to a new file, so name another one", command.Printable(c.Out))
	}
	if err != nil {
		return err
	}
	err = server.export(ctx, c.ExportQuery, file, stallTimeout)
	if err = cmp.Or(err, file.Close()); err != nil {
		_ = os.Remove(c.Out) // a partial file looks complete
		return err
	}
	fmt.Fprintln(std.Err, "written to", command.Printable(c.Out))
	return nil
}

// checkSource rejects an unknown source: an empty export would suggest that it
// had no calls. A removed source is named by its ID.
func (c *auditExport) checkSource(ctx context.Context, server *Client) error {
	if c.Source == "" || strings.HasPrefix(c.Source, "connector:") {
		return nil
	}
	_, _, err := Fetch(ctx, server, api.GetConnector, byConnector(c.Source))
	if p := new(problem); errors.As(err, &p) && p.Status == http.StatusNotFound {
		return fmt.Errorf("there is no source %q; see: %s. Name a removed one by its ID, connector:…",
			command.Printable(c.Source), command.Printable(c.hint("connector", "list")))
	}
	return err
}

// export streams the response to w. It has no overall timeout and fails when
// nothing arrives for stallTimeout, or when the response is truncated.
func (c *Client) export(ctx context.Context, in api.ExportQuery, w io.Writer, stallTimeout time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.HTTP.Timeout = 0
	timer := time.AfterFunc(stallTimeout, func() { stop(fmt.Errorf("no data arrived for %s", stallTimeout)) })
	defer timer.Stop()
	request, err := c.NewRequest(ctx, &api.ExportAudit.Operation, in)
	if err != nil {
		return err
	}
	response, err := c.do(request)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer response.Body.Close()
	end := new(tailBuffer)
	_, err = io.Copy(io.MultiWriter(w, end, writeNotifier(func() { timer.Reset(stallTimeout) })), response.Body)
	if err = cmp.Or(context.Cause(ctx), err, end.serverError()); err != nil {
		return fmt.Errorf("the export is incomplete: %w; try again", err)
	}
	return nil
}

// writeNotifier is a writer that discards its input and calls a function on
// each write.
type writeNotifier func()

// Write implements io.Writer.
func (s writeNotifier) Write(p []byte) (int, error) { s(); return len(p), nil }

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct{ end []byte }

const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	if over := len(t.end) - maxTail; over > 0 {
		t.end = slices.Delete(t.end, 0, over)
	}
	return len(p), nil
}

// serverError returns the error that the server reports in the last line if it
// fails after the response has begun. No row looks like that line.
func (t *tailBuffer) serverError() error {
	if len(t.end) == 0 {
		return nil
	}
	line, whole := bytes.CutSuffix(t.end, []byte("\n"))
	if !whole {
		return errors.New("it ends in the middle of a line")
	}
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if !bytes.HasPrefix(line, []byte(`{"error":`)) {
		return nil
	}
	var last struct {
		Error json.RawMessage `json:"error"`
	}
	p := new(problem)
	if json.Unmarshal(line, &last) == nil && json.Unmarshal(last.Error, p) == nil && p.Detail != "" {
		return p
	}
	return errors.New(command.Printable(string(line)))
}
