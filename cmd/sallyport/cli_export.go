package main

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

	"sallyport/api"
)

type auditExport struct {
	remote
	api.ExportQuery
	Out string `placeholder:"FILE" type:"path" help:"New file to write, mode 0600 (default: standard output)."`
}

// Run fails when the export is not whole; then there is no file either.
func (c *auditExport) Run(ctx context.Context, std *stdio) error {
	if c.JSON && c.Format == "csv" {
		return wrongUse("--json and --format csv exclude one another; leave one out")
	}
	choice := c.ExportQuery
	choice.What, choice.Format, choice.From, choice.To = "", "", "", ""
	if c.What == "policy" && !reflect.ValueOf(choice).IsZero() {
		return wrongUse("--status, --session, --source, --action and the like choose calls; with --what policy there is --from and --to")
	}
	if err := checkStatuses(c.Status); err != nil {
		return err
	}
	c.Source, c.Action = sourceOf(c.Source, c.Action)
	return c.write(ctx, std, exportSilence)
}

// exportSilence is how long the server may think before the next row.
const exportSilence = 2 * time.Minute

func (c *auditExport) write(ctx context.Context, std *stdio, silence time.Duration) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	if err := c.known(ctx, server); err != nil {
		return err
	}
	if err := server.hasSession(ctx, c.Session); err != nil {
		return err
	}
	if c.Out == "" {
		return server.export(ctx, c.ExportQuery, std.Out, silence)
	}
	file, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already; evidence is written to a new file, so name another", visible(c.Out))
	}
	if err != nil {
		return err
	}
	err = server.export(ctx, c.ExportQuery, file, silence)
	if err = cmp.Or(err, file.Close()); err != nil {
		_ = os.Remove(c.Out) // half of it would look whole
		return err
	}
	fmt.Fprintln(std.Err, "written to", visible(c.Out))
	return nil
}

// known refuses a source that nobody knows: an empty export would say that
// there were no calls. One that was removed goes by the id that its calls have.
func (c *auditExport) known(ctx context.Context, server *client) error {
	if c.Source == "" || strings.HasPrefix(c.Source, "connector:") {
		return nil
	}
	_, _, err := fetch(ctx, server, api.GetConnector, connectorRef(c.Source))
	if p := new(problem); errors.As(err, &p) && p.Status == http.StatusNotFound {
		return fmt.Errorf("there is no source %q; see: %s. One that was removed goes by its id, connector:…",
			visible(c.Source), visible(c.hint("connector", "list")))
	}
	return err
}

// export copies an answer of lines to w as it comes, however long it takes as
// long as it comes. What ends too early is an error.
func (c *client) export(ctx context.Context, in api.ExportQuery, w io.Writer, silence time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.HTTP.Timeout = 0
	timer := time.AfterFunc(silence, func() { stop(fmt.Errorf("nothing came for %s", silence)) })
	defer timer.Stop()
	request, err := c.NewRequest(ctx, &api.ExportAudit.Operation, in)
	if err != nil {
		return err
	}
	response, err := c.dispatch(request)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer response.Body.Close()
	end := new(tail)
	_, err = io.Copy(io.MultiWriter(w, end, sink(func() { timer.Reset(silence) })), response.Body)
	if err = cmp.Or(context.Cause(ctx), err, end.fault()); err != nil {
		return fmt.Errorf("the export is not whole: %w; try again", err)
	}
	return nil
}

// sink takes what is written and tells that something was.
type sink func()

// Write implements io.Writer.
func (s sink) Write(p []byte) (int, error) { s(); return len(p), nil }

// tail remembers the end of what is written.
type tail struct{ end []byte }

const tailLimit = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.end = append(t.end, p...)
	if over := len(t.end) - tailLimit; over > 0 {
		t.end = slices.Delete(t.end, 0, over)
	}
	return len(p), nil
}

// fault is what the server says went wrong after it had begun: in the last
// line, which no row looks like.
func (t *tail) fault() error {
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
	return errors.New(visible(string(line)))
}
