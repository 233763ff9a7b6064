package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sallyport/api"
	"sallyport/internal/nearest"
)

type actionsCommand struct {
	List   actionsList   `cmd:"" help:"List what the session may call or ask for."`
	Guide  actionsGuide  `cmd:"" help:"Explain the session's actions, or those of one source."`
	Run    actionsRun    `cmd:"" help:"Call an action, wait while it is held, and print its result as JSON. Exit status: 0 done, 3 denied (or the session is paused, done or ended meanwhile), 4 expired, 5 failed, 6 outcome unknown, 7 still pending after --wait, or while the gateway is away."`
	Wait   actionsWait   `cmd:"" help:"Wait for a call that was made before, with the output and the exit status of run."`
	Status actionsStatus `cmd:"" help:"Say at once where a call stands."`
	Calls  actionsCalls  `cmd:"" help:"List the calls that the session made."`
	Grant  actionsGrant  `cmd:"" help:"Ask a person for a standing approval."`
	Grants actionsGrants `cmd:"" help:"List the grants that cover the session."`
}

// availableRow is an action as the session sees it.
type availableRow struct {
	Source      string `json:"source_id"`
	SourceName  string `json:"source_name"`
	Action      string `json:"action"`
	Tool        string `json:"tool"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Risk        string `json:"risk"`
	Mode        string `json:"mode"`
}

type actionsList struct {
	inSession
	Source string `env:"-" placeholder:"SOURCE" help:"Only of this source: its id or name."`
	Search string `env:"-" placeholder:"WORDS" help:"Only those in whose name or description all of these words are."`
}

func (c *actionsList) Run(ctx context.Context, std *stdio) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	var all list[json.RawMessage] // with --json each is printed as it came
	if _, err := a.get(ctx, a.path("/available"), nil, &all); err != nil {
		return err
	}
	var kept []json.RawMessage
	var rows [][]string
	var sources []string
	for _, item := range all.Items {
		var row availableRow
		if err := decode(item, &row); err != nil {
			return err
		}
		sources = append(sources, cmp.Or(row.SourceName, row.Source))
		if c.fits(&row) {
			kept, rows = append(kept, item), append(rows, row.cells())
		}
	}
	if len(kept) == 0 && c.Source != "" && c.Search == "" {
		return fmt.Errorf("the session has no action of a source %q; sallyport actions list has all of them.%s", c.Source, visible(nearest.Sentence(c.Source, sources)))
	}
	if c.JSON {
		raw, err := json.Marshal(map[string]any{"items": append([]json.RawMessage{}, kept...), "total": len(kept), "next_cursor": ""})
		if err != nil {
			return err
		}
		return std.printJSON(raw)
	}
	table(std.Out, []string{"SOURCE", "ACTION", "RISK", "MODE", "WHAT IT DOES"}, rows)
	return nil
}

// cells are its line in a table.
func (r *availableRow) cells() []string {
	source := r.SourceName
	if source == "" {
		source = r.Source
	}
	what, _, _ := strings.Cut(strings.TrimSpace(r.Description), "\n")
	return []string{source, r.Action, r.Risk, r.Mode, brief(what)}
}

// fits reports whether an action is one that was asked for.
func (c *actionsList) fits(r *availableRow) bool {
	if c.Source != "" && c.Source != r.Source && !strings.EqualFold(c.Source, r.SourceName) {
		return false
	}
	text := strings.ToLower(strings.Join([]string{r.Source, r.SourceName, r.Action, r.Tool, r.Title, r.Description}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(c.Search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

type actionsStatus struct {
	inSession
	ID string `arg:"" help:"Id of the invocation."`
}

func (c *actionsStatus) Run(ctx context.Context, std *stdio) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	var now calledRow
	raw, err := a.get(ctx, a.path("/invocations/"+url.PathEscape(c.ID)), nil, &now)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { said(now.tell())(w) })
}

type actionsCalls struct {
	inSession
	paging
}

func (c *actionsCalls) Run(ctx context.Context, std *stdio) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	var all list[calledRow]
	raw, err := a.get(ctx, a.path("/invocations"), c.query(), &all)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(all.Items))
		for _, i := range all.Items {
			rows = append(rows, []string{i.ID, i.what(), i.became(), since(i.CreatedAt)})
		}
		table(w, []string{"ID", "CALL", "STATUS", "MADE"}, rows)
		more(w, all.NextCursor)
	})
}

type actionsGrant struct {
	Request actionsGrantRequest `cmd:"" help:"Ask to let calls of an action through without asking each time; a person decides. Exit status: 0 asked, or there is nothing to ask for; 3 the action is denied."`
}

type actionsGrantRequest struct {
	inSession
	Source   string  `arg:"" help:"Id or name of the source."`
	Action   string  `arg:"" help:"The action."`
	Reason   string  `env:"-" placeholder:"TEXT" help:"Why; a person reads it."`
	Scope    string  `env:"-" enum:"session,org,organization" default:"session" help:"session (default), or org: all sessions."`
	MaxCalls *int64  `env:"-" placeholder:"N" help:"Calls that it is to let through in all (default: any number)."`
	Expires  lasting `env:"-" placeholder:"D" help:"How long it is to last, such as 8h or 7d (default: for ever)."`
	Pin      []pin   `env:"-" sep:"none" placeholder:"/PARAM=JSON" help:"Only calls with exactly this value of a param; again for more."`
}

func (c *actionsGrantRequest) Run(ctx context.Context, std *stdio) error {
	body := given{"source": c.Source, "action": c.Action, "reason": c.Reason, "scope": c.Scope}.set()
	if c.MaxCalls != nil {
		body["max_calls"] = *c.MaxCalls
	}
	if c.Expires.Duration != 0 {
		body["expires_in"] = c.Expires.String()
	}
	pins, err := pinned(c.Pin)
	if err != nil {
		return err
	}
	if len(pins) > 0 {
		body["pins"] = pins
	}
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	_, raw, err := a.ask(ctx, http.MethodPost, a.path("/grants"), nil, body)
	if p := new(problem); errors.As(err, &p) && p.Code == "already_allowed" {
		raw, err = json.Marshal(map[string]string{"status": p.Code, "detail": p.Detail})
		if err != nil {
			return err
		}
		return c.print(std, raw, said(p.Detail))
	}
	if err != nil {
		return barred(err)
	}
	var asked api.RequestView
	if err := decode(raw, &asked); err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		said(fmt.Sprintf("asked for %s: %s (request %s, %s)", covers(&asked.Terms, asked.Name), budget(&asked.Terms), asked.ID, asked.Status))(w)
		said("go on calling meanwhile; sallyport actions grants shows it once a person agreed")(w)
	})
}

type actionsGrants struct {
	inSession
	paging
}

func (c *actionsGrants) Run(ctx context.Context, std *stdio) error {
	a, err := c.connect(ctx, std)
	if err != nil {
		return err
	}
	var all list[coveringRow]
	raw, err := a.get(ctx, a.path("/grants"), c.query(), &all)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(all.Items))
		for _, g := range all.Items {
			rows = append(rows, []string{g.ID, covers(&g.Terms, g.Name), string(g.Scope), g.left(), ends(g.ExpiresAt)})
		}
		table(w, []string{"ID", "LETS THROUGH", "SCOPE", "CALLS LEFT", "STATE"}, rows)
		more(w, all.NextCursor)
	})
}

// coveringRow is a grant as a session sees it.
type coveringRow struct {
	api.GrantView
	CallsLeft *int64 `json:"calls_left"`
}

func (g *coveringRow) left() string {
	if g.CallsLeft == nil {
		return "any number"
	}
	return strconv.FormatInt(*g.CallsLeft, 10)
}
