package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/guard"
	"sallyport/sources/connector"
	"sallyport/sources/credential"
)

// openOAuth builds what has the tokens of connectors.
func (g *gateway) openOAuth() (err error) {
	config := credential.Config{
		Store: g.db, Vault: g.vault, Lock: patient{g.coord}.lock, Guard: guard.Config{Allow: g.options.AllowUpstream},
		RedirectURL: g.url + "/oauth/callback", ClientSecret: g.secret, Now: g.db.Now, Log: g.log,
	}
	if strings.HasPrefix(g.url, "https://") { // others cannot be trusted to be us
		config.MetadataURL = g.url + "/oauth/client.json"
	}
	g.oauth, err = credential.New(config)
	return err
}

// withTokens has a connector send tokens in a secret's place.
func (g *gateway) withTokens(config *connector.Config, c action.Connector) {
	config.Header, config.Prefix = "Authorization", "Bearer "
	config.Secret = func(ctx context.Context) (value, host string, err error) { return g.oauth.Token(ctx, c) }
	config.Refused = func(ctx context.Context, used string, status int, challenges []string) (again bool, err error) {
		return g.oauth.Refused(ctx, c, used, status, challenges)
	}
}

// patient waits for locks that others hold.
type patient struct{ locks }

const (
	// tokenLock outlives the requests by which a token is renewed: two, of ten
	// seconds each.
	tokenLock = 30 * time.Second
	lockRetry = 50 * time.Millisecond
)

// lock waits for a lock until ctx ends. Who asks for it is alone on this
// instance: the locks are an instance's, and not a caller's.
func (p patient) lock(ctx context.Context, name string) (unlock func(), err error) {
	for !p.Hold(ctx, name, tokenLock) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockRetry):
		}
	}
	return func() {
		free, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		p.Release(free, name)
	}, nil
}

// connectors ask connectors what they are like, and have people sign in to their
// services.
type connectors struct {
	prober
	*credential.OAuth
}

// BeginSignIn implements dashboard.Connectors.
func (s connectors) BeginSignIn(ctx context.Context, c action.Connector, by string) (authorizeURL, issuer string, err error) {
	authorizeURL, issuer, err = s.OAuth.Begin(ctx, c, by)
	return authorizeURL, issuer, hinted(err, c.Preset)
}

// hinted adds to an error about the client where people register one, as far as
// that is known of the connector's preset.
func hinted(err error, preset string) error {
	var e *action.Error
	if !errors.As(err, &e) || e.Field != "/oauth/client_id" {
		return err
	}
	for _, p := range connector.Presets() {
		if p.Name == preset && (p.Registration == connector.RegisterStatic || p.Registration == connector.RegisterListed) {
			more := *e
			more.Message += " " + p.Hint
			return &more
		}
	}
	return err
}

// Grant implements dashboard.Connectors.
func (s connectors) Grant(ctx context.Context, organization, connector string) (action.OAuthGrant, error) {
	return s.db.OAuthGrant(ctx, organization, connector)
}

// Grants implements dashboard.Connectors.
func (s connectors) Grants(ctx context.Context, organization string) ([]action.OAuthGrant, error) {
	return s.db.ListOAuthGrants(ctx, organization)
}

// FinishSignIn implements dashboard.Connectors. A server that refused everybody so far
// is asked again at once.
func (s connectors) FinishSignIn(ctx context.Context, organization, by, state, code, iss, problem string) (string, error) {
	id, err := s.OAuth.Finish(ctx, organization, by, state, code, iss, problem)
	if err != nil {
		return "", err
	}
	s.look(ctx, organization, id)
	return id, nil
}

// look asks the server of a connector now. What is wrong with it is in its
// state.
func (s connectors) look(ctx context.Context, organization, id string) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	all, err := s.db.ListConnectors(ctx, organization)
	for _, c := range all {
		if c.ID == id {
			_, err = s.Probe(ctx, c)
		}
	}
	if err != nil {
		s.log.Warn("asking a connector after a sign-in", "connector", id, "error", err)
	}
}
