package dashboard

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sallyport/action"
)

// NewSecret is a secret as it is set. Its value is never read back.
type NewSecret struct {
	Value string `json:"value" minLength:"1" maxLength:"16384" writeOnly:"true" example:"ghp_…"`
	Host  string `json:"host" minLength:"1" maxLength:"255" doc:"The one host, with its port if it is not the usual one, that may receive it." example:"api.example.com"`
}

// Rotated is what a rotation of the master key did.
type Rotated struct {
	KeyID    string `json:"key_id" doc:"Of the key that seals now; it tells nothing of the key." example:"72cd6e8422c407fb"`
	Resealed int    `json:"resealed" doc:"Values that another key had sealed."`
	Left     int    `json:"left" doc:"Values that are sealed with another key still, as none of the keys opens them. While there are any, the old key is kept."`
}

// ByKey is the parameter of an operation on one secret.
type ByKey struct {
	Key string `path:"key" maxLength:"64" example:"github"`
}

func (s *Server) secretRoutes() {
	register(s, route{
		method: "PUT", path: "/api/v1/secrets/{key}", tag: "secrets", summary: "Set a secret", status: http.StatusOK,
		doc: "Seals the value. It is bound to the host: a connector of another host cannot use it. It cannot be read back.",
	}, func(ctx context.Context, p *Principal, in *struct {
		ByKey
		Body NewSecret
	},
	) (*body[action.Secret], error) {
		secret, err := s.putSecret(ctx, p, in.Key, in.Body)
		return bodyOf(secret), err
	})
	register(s, route{
		method: "GET", path: "/api/v1/secrets", tag: "secrets", summary: "List secrets, without their values",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[List[action.Secret]], error) {
		list, err := s.Secrets.ListSecrets(ctx, p.Organization)
		return listOf(list), err
	})
	register(s, route{
		method: "DELETE", path: "/api/v1/secrets/{key}", tag: "secrets", summary: "Delete a secret", errors: []int{http.StatusConflict},
	}, func(ctx context.Context, p *Principal, in *ByKey) (*empty, error) {
		if err := s.Secrets.DeleteSecret(ctx, p.Organization, in.Key); err != nil {
			return nil, err
		}
		s.log.InfoContext(ctx, "secret deleted", "key", in.Key, "by", p.By())
		s.hint(action.HintCatalog, p.Organization, "")
		return nil, nil
	})
	register(s, route{
		method: "POST", path: "/api/v1/secrets/rotate", tag: "secrets", summary: "Replace the master key", status: http.StatusOK, errors: []int{http.StatusConflict},
		doc: "Seals everything that is kept sealed, of all organizations, with a new master key: one that it makes where the key is in the data folder, or the one that the operator has set. It can be asked again after it was interrupted, and goes on.",
	}, func(ctx context.Context, p *Principal, _ *none) (*body[Rotated], error) {
		s.log.InfoContext(ctx, "master key about to be replaced", "by", p.By())
		done, err := s.Rotate(ctx, p.Organization, p.By())
		return bodyOf(done), err
	})
}

func (s *Server) putSecret(ctx context.Context, p *Principal, key string, n NewSecret) (action.Secret, error) {
	if err := checkSecret(key, n); err != nil {
		return action.Secret{}, err
	}
	sealed, err := s.SealSecret(p.Organization, key, []byte(n.Value))
	if err != nil {
		return action.Secret{}, err
	}
	now := s.now()
	secret := action.Secret{
		Organization: p.Organization, Key: key, Host: strings.ToLower(n.Host),
		UpdatedBy: p.By(), CreatedAt: now, UpdatedAt: now,
	}
	if err := s.Secrets.PutSecret(ctx, secret, sealed); err != nil {
		return action.Secret{}, err
	}
	s.changed(ctx, p, "secret set", "key", key, "host", secret.Host) // a new host asks for new reviews
	s.hint(action.HintCatalog, p.Organization, "")
	return secret, nil
}

func checkSecret(key string, n NewSecret) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`).MatchString(key) {
		return invalid("/key", "The key must have 1 to 64 letters, digits, dots, dashes or underscores.")
	}
	if !utf8.ValidString(n.Value) || strings.ContainsFunc(n.Value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return invalid("/value", "A secret travels in an HTTP header: leave out line breaks and other control characters.")
	}
	if !validHost(n.Host) {
		return invalid("/host", "host must be a name or address, with a port if it is not the usual one, such as api.example.com or 127.0.0.1:9000; no scheme, no path.")
	}
	return nil
}

// validHost accepts what can stand as the host of a URL.
func validHost(host string) bool {
	name := host
	if h, port, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return false
		}
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if net.ParseIP(name) != nil {
		return true
	}
	return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`).MatchString(name)
}
