package github

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/sources"
)

// account returns the account of a credential.
//
// An installation token identifies neither a user nor its installation, so only
// the owner of its repositories is known. The flow that connects the
// installation supplies its ID.
func account(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	if c.Kind == action.KindApp {
		var answer struct {
			Repositories []repo `json:"repositories"`
		}
		_, err := request{path: []string{"installation", "repositories"}, query: queryOf("per_page", "1")}.send(ctx, c, &answer)
		if err != nil || len(answer.Repositories) == 0 {
			return sources.Account{}, err
		}
		return sources.Account{Name: string(answer.Repositories[0].Owner)}, nil
	}
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
	}
	header, err := request{path: []string{"user"}}.send(ctx, c, &user)
	if err != nil {
		return sources.Account{}, err
	}
	return sources.Account{ID: userID(c.HTTP.Base(), user.ID), Name: user.Login, Scopes: scopes(header.Values("X-Oauth-Scopes"))}, nil
}

// userID returns the account ID of a user at the server of the base URL.
func userID(base *url.URL, id int64) string {
	return sources.AccountID(base, "api.github.com", strconv.FormatInt(id, 10))
}

// scopes returns a token's scopes, or nil if GitHub does not report them, as
// for fine-grained tokens.
func scopes(values []string) []string {
	if values == nil {
		return nil
	}
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// chooseIntegration returns the integration of the account that owns the
// repository. Otherwise it returns the only one that is not an installation:
// installations see only the repositories of their account, users also those of
// others.
func chooseIntegration(params json.RawMessage, among []action.Integration) int {
	var p repository
	if json.Unmarshal(params, &p) != nil || p.Owner == "" {
		return -1
	}
	owners, users := []int{}, []int{}
	for i, in := range among {
		if strings.EqualFold(in.AccountName, p.Owner) {
			owners = append(owners, i)
		}
		if in.Kind != action.KindApp {
			users = append(users, i)
		}
	}
	switch {
	case len(owners) == 1:
		return owners[0]
	case len(owners) == 0 && len(users) == 1:
		return users[0]
	}
	return -1
}

// metadata lists repositories for forms, up to a limit. The query parameter
// owner filters them.
func metadata(ctx context.Context, c *sources.Conn, q url.Values) (any, error) {
	type item struct {
		Name          string `json:"full_name"`
		Private       bool   `json:"private"`
		DefaultBranch string `json:"default_branch"`
	}
	result := struct {
		Repositories []item `json:"repositories"`
		More         bool   `json:"_truncated,omitempty"`
	}{Repositories: []item{}}
	p := reposParams{Owner: q.Get("owner"), pageParams: pageParams{Limit: 100}}
	for range maxPagesPerList {
		found, err := runListRepos(ctx, c, p)
		if err != nil {
			return nil, err
		}
		for _, r := range found.Items {
			result.Repositories = append(result.Repositories, item{r.FullName, r.Private, r.DefaultBranch})
		}
		p.Cursor = found.Next
		if p.Cursor == "" {
			return result, nil
		}
	}
	result.More = true
	return result, nil
}
