package dashboard

import "sallyport/action"

// secretUse is a secret with the connectors that send it.
type secretUse struct {
	action.Secret
	Users []action.Connector
}

func (p *pageRequest) secretsPage() error {
	secrets, connectors := load(p, p.Sources.ListSecrets, p.org), p.loadConnectors()
	uses := make([]secretUse, len(secrets))
	for i, s := range secrets {
		uses[i].Secret = s
		for _, c := range connectors {
			if c.Secret == s.Key || c.OAuth != nil && c.OAuth.ClientSecret == s.Key {
				uses[i].Users = append(uses[i].Users, c)
			}
		}
	}
	return p.show("secrets", "secrets", "Secrets", struct {
		Secrets []secretUse
		Names   map[string]string
		Decides bool
	}{uses, p.loadNames(), p.decides()})
}
