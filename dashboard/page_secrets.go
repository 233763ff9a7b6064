package dashboard

import (
	"net/http"

	"sallyport/action"
)

// secretUse is a secret with the connectors that send it.
type secretUse struct {
	action.Secret
	Users []action.Connector
}

func (p *pages) secretsPage(w http.ResponseWriter, r *http.Request, me *Principal) error {
	ctx := r.Context()
	secrets, err := p.Sources.ListSecrets(ctx, me.Organization)
	if err != nil {
		return err
	}
	connectors, err := p.Sources.ListConnectors(ctx, me.Organization)
	if err != nil {
		return err
	}
	names, err := p.names(ctx, me.Organization)
	if err != nil {
		return err
	}
	uses := make([]secretUse, len(secrets))
	for i, s := range secrets {
		uses[i].Secret = s
		for _, c := range connectors {
			if c.Secret == s.Key || c.OAuth != nil && c.OAuth.ClientSecret == s.Key {
				uses[i].Users = append(uses[i].Users, c)
			}
		}
	}
	return p.render(w, "secrets", "layout", view{Page: "secrets", Title: "Secrets", Me: me, Data: struct {
		Secrets []secretUse
		Names   map[string]string
		Decides bool
	}{uses, names, me.Role.Decides()}})
}
