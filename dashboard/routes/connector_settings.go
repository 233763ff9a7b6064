package routes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sallyport/action"
	"sallyport/api"
	"sallyport/dashboard"
	"sallyport/dashboard/render"
	"sallyport/dashboard/view"
)

// withSecret seals a secret that was sent with a connector for the host of its URL,
// and makes the connector refer to it. Nil: none was sent.
func (s *handlers) withSecret(ctx context.Context, p *dashboard.Principal, c *action.Connector, value string) (*action.SealedSecret, error) {
	if value == "" {
		return nil, nil
	}
	if c.OAuth != nil {
		return nil, dashboard.Invalid("/oauth", "A connector sends a secret or OAuth tokens, not both; leave secret_value out, or set oauth.kind to none.")
	}
	if c.Secret == "" {
		c.Secret = cmp.Or(c.Slug, slugOf(c.Name))
		if err := s.checkUnused(ctx, c); err != nil {
			return nil, err
		}
	}
	n := api.NewSecret{Value: value, Host: view.HostOf(c.URL)}
	if err := checkSecret(c.Secret, n); err != nil {
		at := map[string]string{"/key": "/secret", "/value": "/secret_value", "/host": "/url"}
		return nil, view.AtField(err, at[action.Public(err).Field])
	}
	sealed, err := s.SealSecret(p.Organization, c.Secret, []byte(value))
	if err != nil {
		return nil, err
	}
	now := s.Now()
	return &action.SealedSecret{Sealed: sealed, Secret: action.Secret{
		Organization: p.Organization, Key: c.Secret, Host: n.Host, UpdatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}}, nil
}

// checkUnused refuses a derived key that another connector uses: its credential
// would be overwritten.
func (s *handlers) checkUnused(ctx context.Context, c *action.Connector) error {
	all, err := s.Sources.ListConnectors(ctx, c.Organization)
	if err != nil {
		return err
	}
	for _, o := range all {
		if o.ID != c.ID && (o.Secret == c.Secret || o.OAuth != nil && o.OAuth.ClientSecret == c.Secret) {
			return action.Errorf(action.ErrConflict, "secret_in_use",
				"The connector %s already uses a secret %q; set `secret` to another key for this value.", o.Name, c.Secret).WithField("/secret")
		}
	}
	return nil
}

// checkSecrets refuses unknown secrets, and secrets that are bound to another host.
// Old is the connector before the change, or nil; written is the secret that is
// stored with it.
func (s *handlers) checkSecrets(ctx context.Context, old, c *action.Connector, written *action.SealedSecret) error {
	if c.Secret == "" && (c.OAuth == nil || c.OAuth.ClientSecret == "") {
		return nil
	}
	all, err := s.Sources.ListSecrets(ctx, c.Organization)
	if err != nil {
		return err
	}
	find := func(key string) int {
		return slices.IndexFunc(all, func(secret action.Secret) bool { return secret.Key == key })
	}
	if c.OAuth != nil {
		if key := c.OAuth.ClientSecret; key != "" && find(key) < 0 {
			return dashboard.Invalid("/oauth/client_secret", fmt.Sprintf("There is no secret %q; set it first, with the host of the service's token endpoint.", render.Plain(key)))
		}
		return nil
	}
	host, i := view.HostOf(c.URL), find(c.Secret)
	switch {
	case written != nil:
		return nil
	case i < 0:
		return dashboard.Invalid("/secret", fmt.Sprintf("There is no secret %q; create it first, with host %s, or send its value with secret_value.", render.Plain(c.Secret), host))
	case action.SameHost(all[i].Host, c.URL):
		return nil
	case old != nil && old.Secret == c.Secret:
		return action.Errorf(action.ErrInvalid, "secret_host",
			"The secret %q was entered for %s and is not sent to %s; enter it again, with secret_value, if that host may have it.", c.Secret, all[i].Host, host).WithField("/secret_value")
	}
	return dashboard.Invalid("/secret", fmt.Sprintf("The secret %q is bound to %s and cannot go to %s; set another for that host.", c.Secret, all[i].Host, host))
}

func upstreamApply(u *api.Upstream, c *action.Connector) {
	applyChange(c, u, "MayAsk", "OAuth")
	setIfGiven(&c.TimeoutSeconds, u.Timeout)
	if u.MayAsk != nil {
		c.MayAsk = slices.DeleteFunc(action.AskKinds(), func(k action.AskKind) bool { return !slices.Contains(*u.MayAsk, k) })
	}
	if u.OAuth != nil {
		c.OAuth = nil
		if o := u.OAuth; o.Kind != "none" {
			c.OAuth = &action.OAuthSettings{Kind: action.OAuthKind(o.Kind), ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes, Issuer: o.Issuer}
		}
	}
	credential := c.Secret != "" || u.SecretValue != ""
	if credential && u.Prefix == nil && c.Prefix == "" && (c.Header == "" || strings.EqualFold(c.Header, "Authorization")) {
		c.Prefix = "Bearer "
	}
}

func setIfGiven[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// applyChange copies the fields of an API input to the fields of a domain struct
// with the same names, unless the input omits them (a nil pointer, or a zero
// value). Both are pointers to structs. The handler sets the fields in own, such
// as references that it resolves; input fields without a counterpart are ignored.
// It panics if the types of a field differ, which is a programming error.
func applyChange(word, input any, own ...string) {
	to, from := reflect.ValueOf(word).Elem(), reflect.ValueOf(input).Elem()
	for _, f := range reflect.VisibleFields(from.Type()) {
		target, ok := to.Type().FieldByName(f.Name)
		value := from.FieldByIndex(f.Index)
		if f.Anonymous || !ok || slices.Contains(own, f.Name) {
			continue
		}
		optional := f.Type.Kind() == reflect.Pointer && f.Type != target.Type
		if f.Type != target.Type && (!optional || f.Type.Elem() != target.Type) {
			panic(fmt.Sprintf("dashboard: %s of %T is no %s of %T", f.Name, input, target.Type, word))
		}
		if value.IsZero() {
			continue
		}
		if optional {
			value = value.Elem()
		}
		to.FieldByIndex(target.Index).Set(value)
	}
}

// setProfile sets the modes of the connector's tools.
func (s *handlers) setProfile(ctx context.Context, p *dashboard.Principal, in *api.ByRefWith[api.ProfileChange]) (api.ConnectorView, error) {
	c, err := s.Connector(ctx, p.Organization, in.Ref)
	if err != nil {
		return api.ConnectorView{}, err
	}
	m := action.ModeChange{
		Organization: p.Organization, Connector: c.ID, Profile: in.Body.Profile, Mode: in.Body.Mode, Preset: c.PresetModes,
		Tools: in.Body.Tools, OnlyDenied: in.Body.OnlyDenied, By: p.By(),
	}
	if in.Body.Preset != "" {
		preset, err := s.preset(in.Body.Preset)
		if err != nil {
			return api.ConnectorView{}, err
		}
		m.Preset = preset.Modes
	}
	changed, err := s.Policy.SetModes(ctx, m)
	if err != nil {
		return api.ConnectorView{}, err
	}
	s.policyChanged(ctx, p, "modes of tools set", "connector", c.ID, "profile", m.Profile, "changed", changed)
	if c, err = s.Connector(ctx, p.Organization, c.ID); err != nil {
		return api.ConnectorView{}, err
	}
	return s.ViewTools(ctx, c, s.Connectors.State(ctx, c))
}

// preset returns the preset with that name.
func (s *handlers) preset(name string) (*api.Preset, error) {
	i := slices.IndexFunc(s.Presets, func(p api.Preset) bool { return p.Name == name })
	if i < 0 {
		return nil, dashboard.Invalid("/preset", fmt.Sprintf("There is no preset %q; GET /api/v1/connectors/presets lists them.", render.Plain(name)))
	}
	return &s.Presets[i], nil
}

// fillPreset applies the preset to a connector.
func (s *handlers) fillPreset(c *action.Connector, from api.FromPreset) error {
	if from.Preset == "" {
		if from.Variant != "" {
			return dashboard.Invalid("/variant", "A variant needs its preset. Send both.")
		}
		return nil
	}
	p, err := s.preset(from.Preset)
	if err != nil {
		return err
	}
	v, err := presetVariant(p, from.Variant)
	if err != nil {
		return err
	}
	c.Preset, c.URL, c.Header, c.Prefix, c.PerAgent = p.Name, cmp.Or(v.URL, p.URL), p.Header, p.Prefix, p.PerAgent
	c.PresetModes = maps.Clone(p.Modes)
	c.Headers = map[string]string{}
	maps.Copy(c.Headers, p.Headers)
	maps.Copy(c.Headers, v.Headers)
	return nil
}

// presetVariant returns the variant with that name; empty: no variant.
func presetVariant(p *api.Preset, name string) (api.PresetVariant, error) {
	if name == "" {
		return api.PresetVariant{}, nil
	}
	names := make([]string, len(p.Variants))
	for i, v := range p.Variants {
		if v.Name == name {
			return v, nil
		}
		names[i] = v.Name
	}
	has := "leave it out, it has none"
	if len(names) > 0 {
		has = "it has " + strings.Join(names, ", ")
	}
	return api.PresetVariant{}, dashboard.Invalid("/variant", fmt.Sprintf("The preset %s has no variant %q; %s.", p.Name, render.Plain(name), has))
}
