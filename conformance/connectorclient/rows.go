package main

import (
	"context"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/sources/credential"
)

// rows keep the one connector's sign-ins, as long as the process lives.
type rows struct {
	credential.Store // nothing is asked of integrations

	mu    sync.Mutex
	grant action.OAuthGrant
	flows map[string]action.OAuthFlow
}

func missing() error { return action.Errorf(action.ErrNotFound, "not_found", "It is not there.") }

// OAuthGrant implements credential.Store.
func (r *rows) OAuthGrant(context.Context, string, string) (action.OAuthGrant, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant.Version == 0 {
		return action.OAuthGrant{}, missing()
	}
	return r.grant, nil
}

// PutOAuthGrant implements credential.Store.
func (r *rows) PutOAuthGrant(_ context.Context, g action.OAuthGrant) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.Version != r.grant.Version {
		return action.Errorf(action.ErrConflict, "oauth_moved", "Somebody was first.")
	}
	r.grant = g
	r.grant.Version++
	return nil
}

// DeleteOAuthGrant implements credential.Store.
func (r *rows) DeleteOAuthGrant(context.Context, string, string, string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grant = action.OAuthGrant{}
	return nil
}

// PutOAuthFlow implements credential.Store.
func (r *rows) PutOAuthFlow(_ context.Context, f action.OAuthFlow) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flows == nil {
		r.flows = make(map[string]action.OAuthFlow)
	}
	r.flows[f.StateHash] = f
	return nil
}

// TakeOAuthFlow implements credential.Store.
func (r *rows) TakeOAuthFlow(_ context.Context, stateHash string, _ time.Time) (action.OAuthFlow, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, ok := r.flows[stateHash]
	if !ok {
		return f, missing()
	}
	delete(r.flows, stateHash)
	return f, nil
}
