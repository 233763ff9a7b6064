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

type quotaSet struct {
	remote
	api.ByPolicyKey
	api.NewQuota
}

func (c *quotaSet) Run(ctx context.Context, std *stdio) error {
	in := api.ByPolicyKeyWith[api.NewQuota]{ByPolicyKey: c.ByPolicyKey, Body: c.NewQuota}
	return perform(ctx, &c.remote, std, api.PutQuota, in, func(w io.Writer, q *api.QuotaView) {
		std.warn(q.Warning)
		said(fmt.Sprintf("%s: %s in %s for each %s from now on", q.Name, number(q.Calls, "call"), quotaSpan(q), q.Per))(w)
	})
}

func quotaSpan(q *api.QuotaView) string { return action.Rate{Seconds: q.Seconds}.Span() }

type quotaUnset struct {
	remote
	api.DeleteQuotaInput
}

func (c *quotaUnset) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.DeleteQuota, c.DeleteQuotaInput, done(c.Key+" is not limited for each "+string(c.Per)+" any more"))
}

type quotaList struct{ remote }

func (*quotaList) route() api.Operation { return api.ListQuotas.Operation }

func (c *quotaList) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.ListQuotas, api.None{}, func(w io.Writer, all *api.List[api.QuotaView]) {
		names := c.labels(ctx, actors()...)
		cells("KEY PER CALLS IN SET_BY", func(q *api.QuotaView) []string {
			return []string{q.Name, string(q.Per), strconv.Itoa(q.Calls), quotaSpan(q), names.of(q.UpdatedBy)}
		})(w, all)
	})
}
