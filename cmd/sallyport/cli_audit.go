package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sallyport/action"
	"sallyport/api"
)

type auditCommand struct {
	Verify auditVerify `cmd:"" help:"Verify the audit log; exits with 1 if a record was changed or removed."`
	Heads  auditHeads  `cmd:"" help:"Print the head of the audit log, to keep elsewhere for verify --head."`
	Export auditExport `cmd:"" help:"Export calls or policy changes."`
}

type auditVerify struct {
	remote
	Head string `placeholder:"FILE" type:"path" help:"File with heads printed by audit heads; the last one must still be in the log."`
}

// Run fails when the chain does not hold. A long chain takes its time.
func (c *auditVerify) Run(ctx context.Context, std *stdio) error {
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
	report, raw, err := fetch(ctx, server, api.VerifyAudit, api.Body[*api.KnownHead]{Body: known})
	if err != nil {
		return err
	}
	if err := c.print(std, raw, func(w io.Writer) { showReport(w, report, head) }); err != nil || report.OK {
		return err
	}
	return errors.New("the evidence does not hold; keep the database as it is, and compare it with your backups")
}

func showReport(w io.Writer, r *action.AuditReport, head *action.AuditHead) {
	for _, f := range r.Faults {
		said(fmt.Sprintf("%s at %d: %s %s", f.Kind, f.Seq, f.Row, f.Message))(w)
	}
	if r.More {
		fmt.Fprintln(w, "and more faults")
	}
	switch {
	case r.OK && r.Head.Seq == 0:
		fmt.Fprintln(w, "there is no evidence yet")
	case r.OK:
		fmt.Fprintf(w, "the evidence holds: %s, from %d to %d\n", number(r.Checked, "link"), r.From, r.Head.Seq)
	}
	if head != nil {
		fmt.Fprintf(w, "compared with head %d of %s\n", head.Seq, head.At.UTC().Format(time.RFC3339))
	}
	if r.Note != "" {
		said(r.Note)(w)
	}
	if r.Unsealed > 0 {
		age := time.Duration(r.UnsealedAge * float64(time.Second)).Round(time.Second)
		fmt.Fprintf(w, "not sealed yet: %s, the oldest for %s\n", number(r.Unsealed, "row"), age)
	}
}

// readHead returns the last head of a file.
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
			return nil, fmt.Errorf("%s holds no heads; make it with: sallyport audit heads > FILE", visible(name))
		}
		last = &head
	}
}

type auditHeads struct{ remote }

// Run prints a head a line, so that a file may gather them.
func (c *auditHeads) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListAuditHeads, api.None{}, func(w io.Writer, all *api.List[action.AuditHead]) {
		lines := json.NewEncoder(w)
		for _, head := range all.Items {
			_ = lines.Encode(head) // of plain fields; a full disk shows at the next verify
		}
	})
}
