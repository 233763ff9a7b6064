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

// whose asks GitHub whose the credential is.
//
// An installation's token knows no user, and not even its own installation: only
// that it is good is seen, and whose the repositories are. The id of an
// installation comes from the flow that connected it.
func whose(ctx context.Context, c *sources.Conn) (sources.Account, error) {
	if c.Kind == action.KindApp {
		var answer struct {
			Repositories []repo `json:"repositories"`
		}
		_, err := request{path: []string{"installation", "repositories"}, query: filters("per_page", "1")}.send(ctx, c, &answer)
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

// userID is a user's at the server of the base URL.
func userID(base *url.URL, id int64) string {
	return sources.AccountID(base, "api.github.com", strconv.FormatInt(id, 10))
}

// scopes returns what a token was granted; nil: GitHub does not say, as of
// tokens that have permissions instead.
func scopes(values []string) []string {
	if values == nil {
		return nil
	}
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// choose returns the integration of the account that owns the repository. Where
// there is none it is the only one that is no installation: those see their own
// account's repositories alone, users those of others, too.
func choose(params json.RawMessage, among []action.Integration) int {
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

// metadata lists repositories, for forms: as many as a form can show. Query:
// owner, empty for all.
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
	p := reposParams{Owner: q.Get("owner"), paged: paged{Limit: 100}}
	for range pages {
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
