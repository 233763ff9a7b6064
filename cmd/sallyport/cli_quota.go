package main

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"sallyport/action"
	"sallyport/api"
)

type quotaCommand struct {
	Set   quotaSet   `cmd:"" help:"Set a quota for source:action, source:* or *."`
	Unset quotaUnset `cmd:"" help:"Remove a quota."`
	List  quotaList  `cmd:"" help:"List quotas."`
}

// quotaOf names a quota.
type quotaOf struct {
	remote
	Key string `arg:"" help:"source:action, source:* or *; name a connector by name, slug or ID."`
	Per string `required:"" enum:"session,group,creator,organization" help:"Count calls per session, group, creator or organization."`
}

type quotaSet struct {
	quotaOf
	Calls  int    `required:"" placeholder:"N" help:"Number of calls in the window."`
	Window window `field:"seconds" required:"" placeholder:"D" help:"Length of the window, such as 1m or 24h."`
}

func (c *quotaSet) Run(ctx context.Context, std *stdio) error {
	in := api.ByPolicyKeyWith[api.NewQuota]{
		ByPolicyKey: api.ByPolicyKey{Key: c.Key},
		Body:        api.NewQuota{Per: action.QuotaScope(c.Per), NewRate: api.NewRate{Calls: c.Calls, Seconds: c.Window.seconds}},
	}
	return perform(ctx, &c.remote, std, api.PutQuota, in, func(w io.Writer, q *api.QuotaView) {
		std.warn(q.Warning)
		said(fmt.Sprintf("%s: %s in %s for each %s from now on", q.Name, number(q.Calls, "call"), quotaSpan(q), q.Per))(w)
	})
}

func quotaSpan(q *api.QuotaView) string { return action.Rate{Seconds: q.Seconds}.Span() }

type quotaUnset struct{ quotaOf }

func (c *quotaUnset) Run(ctx context.Context, std *stdio) error {
	in := api.DeleteQuotaInput{ByPolicyKey: api.ByPolicyKey{Key: c.Key}, Per: action.QuotaScope(c.Per)}
	return perform(ctx, &c.remote, std, api.DeleteQuota, in, done(c.Key+" is not limited for each "+c.Per+" any more"))
}

type quotaList struct{ remote }

func (c *quotaList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListQuotas, api.None{}, func(w io.Writer, all *api.List[api.QuotaView]) {
		names := c.labels(ctx, actors()...)
		rows := make([][]string, 0, len(all.Items))
		for i := range all.Items {
			q := &all.Items[i]
			rows = append(rows, []string{q.Name, string(q.Per), strconv.Itoa(q.Calls), quotaSpan(q), names.of(q.UpdatedBy)})
		}
		table(w, []string{"KEY", "PER", "CALLS", "IN", "SET BY"}, rows)
	})
}
