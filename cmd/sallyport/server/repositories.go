package server

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/gitserver"
	"sallyport/internal/guard"
	"sallyport/sources"
	"sallyport/sources/github"
)

// repositoryRemote returns the remote of a repository: the credential is that of its
// integration, or else a secret of its host, or else none, which suffices to read a
// public repository.
func (g *Gateway) repositoryRemote(ctx context.Context, all []action.Integration, r *action.Repository) (*gitserver.Remote, error) {
	if r.Integration != "" {
		i := slices.IndexFunc(all, func(in action.Integration) bool {
			return in.ID == r.Integration && in.Status == action.IntegrationActive
		})
		if i < 0 {
			return nil, action.Errorf(action.ErrUnavailable, sources.FaultReconnect, "The integration of %s is disconnected. Tell the user that a person must connect it again.", r.Name())
		}
		return g.remoteOf(all[i], r.Path), nil
	}
	remote, err := g.secretRemote(ctx, r.Organization, r.Host, r.Path)
	var known *action.Error
	if !errors.As(err, &known) || known.Code != codeNoGitCredential {
		return remote, err
	}
	base := &url.URL{Scheme: "https", Host: r.Host}
	if guard.Loopback(base) {
		base.Scheme = "http"
	}
	return g.newGitRemote(base.JoinPath(r.Path), gitserver.Remote{
		Revision:   "anonymous",
		Credential: func(context.Context, gitserver.Access) (user, password string, err error) { return "", "", nil },
	}), nil
}

// readWithin bounds how long reading a repository takes.
const readWithin = 20 * time.Second

// ReadRepository implements [dashboard.Repositories].
func (g *Gateway) ReadRepository(ctx context.Context, r *action.Repository) (branch string, err error) {
	ctx, stop := context.WithTimeout(ctx, readWithin)
	defer stop()
	all, err := g.DB.Integrations(ctx, r.Organization)
	if err != nil {
		return "", err
	}
	remote, err := g.repositoryRemote(ctx, all, r)
	if err != nil {
		return "", err
	}
	return remote.DefaultBranch(ctx)
}

// RepositoriesOf implements [dashboard.Repositories].
func (g *Gateway) RepositoriesOf(ctx context.Context, in action.Integration) ([]action.Repository, error) {
	if in.Provider != githubID {
		return nil, action.NewError("repository_unlisted", in.Name)
	}
	conn, err := g.integrationConn(ctx, in)
	if err != nil {
		return nil, err
	}
	found, err := github.Repositories(ctx, conn)
	if err != nil {
		return nil, err
	}
	list := make([]action.Repository, 0, len(found))
	for _, r := range found {
		list = append(list, action.Repository{Host: g.RepositoryHost(&in), Path: r.FullName, DefaultBranch: r.DefaultBranch, Private: new(r.Private)})
	}
	return list, nil
}

// RepositoryHost implements [dashboard.Repositories].
func (g *Gateway) RepositoryHost(in *action.Integration) string {
	if in.Provider != githubID {
		return ""
	}
	return strings.ToLower(gitBase(*in).Host)
}
