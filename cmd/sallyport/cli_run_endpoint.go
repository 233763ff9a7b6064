package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sallyport/api"
)

type endpointPlace struct {
	Set    endpointSet    `cmd:"" help:"Set the URL that receives runs; prints the signing secret once."`
	Show   endpointShow   `cmd:"" help:"Show the URL that receives runs."`
	Rotate endpointRotate `cmd:"" help:"Replace the signing secret of the endpoint."`
	Remove endpointRemove `cmd:"" help:"Remove the endpoint; runs then wait to be claimed."`
}

type endpointSet struct {
	remote
	api.NewEndpoint
	Disabled    bool `help:"Do not deliver yet; runs wait to be claimed."`
	SecretStdin bool `help:"Read the secret from standard input instead of generating one."`
}

func (*endpointSet) route() api.Operation { return api.PutRunEndpoint.Operation }

func (c *endpointSet) Run(ctx context.Context, std *stdio) (err error) {
	c.Enabled = new(!c.Disabled)
	if c.SecretStdin {
		if c.Secret, err = readSecret(std, "run endpoint set URL --secret-stdin"); err != nil {
			return err
		}
	}
	return perform(ctx, &c.remote, std, api.PutRunEndpoint, api.Body[api.NewEndpoint]{Body: c.NewEndpoint}, func(w io.Writer, e *api.MintedEndpoint) {
		showRunEndpoint(w, &e.EndpointView)
		if e.Secret == "" && !c.SecretStdin {
			said("the secret stays as it is; replace it with: " + c.hint("run", "endpoint", "rotate"))(w)
		}
		sayOnce(w, std, "the secret is "+e.Secret, e.Secret)
	})
}

func showRunEndpoint(w io.Writer, e *api.EndpointView) {
	text := "runs are delivered to " + e.URL
	if !e.Enabled {
		text = "runs wait to be claimed: delivery to " + e.URL + " is disabled"
	}
	said(fmt.Sprintf("%s, signed with %s", text, number(len(e.Secrets), "secret")))(w)
}

type endpointShow struct{ remote }

func (c *endpointShow) Run(ctx context.Context, std *stdio) error {
	err := perform(ctx, &c.remote, std, api.GetRunEndpoint, api.None{}, showRunEndpoint)
	var none *problem
	if !errors.As(err, &none) || none.Code != "no_run_endpoint" {
		return err
	}
	return c.print(std, json.RawMessage("{}"), said(none.Error()))
}

type endpointRotate struct {
	remote
	replacement
}

func (c *endpointRotate) Run(ctx context.Context, std *stdio) error {
	r, err := c.rotation(std, "run endpoint rotate")
	if err != nil {
		return err
	}
	return perform(ctx, &c.remote, std, api.RotateRunEndpoint, api.Body[*api.Rotation]{Body: r}, c.replaced(std, "the endpoint for runs"))
}

type endpointRemove struct{ remote }

func (c *endpointRemove) Run(ctx context.Context, std *stdio) error {
	return perform(ctx, &c.remote, std, api.DeleteRunEndpoint, api.None{}, done("runs are delivered no more; they wait to be claimed"))
}
