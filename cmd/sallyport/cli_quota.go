package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"sallyport/action"
)

type quotaCommand struct {
	Set   quotaSet   `cmd:"" help:"Limit the calls of source:action, source:* or * in a window."`
	Unset quotaUnset `cmd:"" help:"Take a limit away."`
	List  quotaList  `cmd:"" help:"List the limits."`
}

// quotaOf names a quota.
type quotaOf struct {
	remote
	Key string `arg:"" help:"source:action, source:* or *; a connector goes by its name, slug or id."`
	Per string `required:"" enum:"session,group,creator,organization" help:"Whose calls count together: session, group, creator (of the session) or organization."`
}

func (q *quotaOf) path() string { return "/api/v1/policy/quotas/" + url.PathEscape(q.Key) }

// quotaRow is a quota with its key as people write it.
type quotaRow struct {
	action.Quota
	Key  string `json:"key"`
	Name string `json:"name"`

	Warning string `json:"warning"`
}

type quotaSet struct {
	quotaOf
	Calls  int    `required:"" placeholder:"N" help:"Calls in the window."`
	Window window `required:"" placeholder:"D" help:"The window, such as 1m or 24h."`
}

func (c *quotaSet) Run(ctx context.Context, std *stdio) error {
	body := map[string]any{"per": c.Per, "calls": c.Calls, "seconds": c.Window.seconds}
	return alter(ctx, &c.remote, std, http.MethodPut, c.path(), body, func(w io.Writer, q *quotaRow) {
		std.warn(q.Warning)
		said(fmt.Sprintf("%s: %s in %s for each %s from now on", q.Name, number(q.Calls, "call"), q.Span(), q.Per))(w)
	})
}

type quotaUnset struct{ quotaOf }

func (c *quotaUnset) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, c.path()+"?"+url.Values{"per": {c.Per}}.Encode(), c.Key+" is not limited for each "+c.Per+" any more")
}

type quotaList struct{ remote }

func (c *quotaList) Run(ctx context.Context, std *stdio) error {
	return show(ctx, &c.remote, std, "/api/v1/policy/quotas", nil, func(w io.Writer, all *list[quotaRow]) {
		names := c.labels(ctx, usersPath, keysPath)
		rows := make([][]string, 0, len(all.Items))
		for _, q := range all.Items {
			rows = append(rows, []string{q.Name, string(q.Per), strconv.Itoa(q.Calls), q.Span(), names.of(q.UpdatedBy)})
		}
		table(w, []string{"KEY", "PER", "CALLS", "IN", "SET BY"}, rows)
	})
}
