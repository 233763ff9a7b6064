package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/gitserver"
	"sallyport/internal/gitpush"
	"sallyport/internal/guard"
	"sallyport/sources"
	"sallyport/sources/github"
)

// gitSecretPrefix begins the keys of secrets that are for Git: a secret of another
// service at the same host is not sent to its repositories.
const gitSecretPrefix = "git-"

const codeNoGitCredential = "no_git_credential"

// gitUser is the user of requests whose credential is a token. GitHub needs this
// name for installation tokens; others accept any.
const gitUser = "x-access-token"

// openGit builds the Git server.
func (g *Gateway) openGit() (err error) {
	g.gitTransports = [2]*http.Transport{gitTransport(g.guardConfig(), false), gitTransport(g.guardConfig(), true)}
	g.git, err = gitserver.New(gitserver.Config{
		Authenticate: g.sessions.Authenticate, Session: g.sessions.snapshot, Remote: g.gitRemote, Rules: g.gitRules, Person: g.personName,
		Suspicious: func(line string) bool { return g.json.RedactText(line, nil) != line },
		Folder:     filepath.Join(g.Options.Data, "pushes"), Now: g.DB.Now, Log: g.log,
	})
	return err
}

// gitTransport returns a transport that passes bodies on unchanged. HTTP/2 would
// buffer megabytes for a client that reads slowly.
func gitTransport(c guard.Config, loopback bool) *http.Transport {
	c.AllowLoopback = loopback
	t := guard.NewTransport(c)
	t.DisableCompression, t.ForceAttemptHTTP2, t.HTTP2 = true, false, nil
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	return t
}

// gitRemote implements [gitserver.Config.Remote]: the credential is that of an
// integration of the session for the host, or a secret for it.
func (g *Gateway) gitRemote(ctx context.Context, s *action.Session, host, repository string) (*gitserver.Remote, error) {
	all, err := g.DB.Integrations(ctx, s.Organization)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(s.Repositories, func(r action.SessionRepository) bool {
		return strings.EqualFold(r.Host, host) && strings.EqualFold(r.Path, repository)
	}); i >= 0 {
		r, err := g.DB.Repository(ctx, s.Organization, s.Repositories[i].Repository)
		if err == nil {
			return g.repositoryRemote(ctx, all, &r)
		}
		if !errors.Is(err, action.ErrNotFound) {
			return nil, err
		}
	}
	bound := slices.DeleteFunc(s.Bound(all, githubID), func(in action.Integration) bool { return !strings.EqualFold(gitBase(in).Host, host) })
	if len(bound) > 0 {
		return g.integrationRemote(bound, repository)
	}
	return g.secretRemote(ctx, s.Organization, host, repository)
}

// githubID is the ID of the module whose integrations have repositories.
const githubID = "github"

// gitBase returns the URL of the repositories of an integration.
func gitBase(in action.Integration) *url.URL {
	base, err := url.Parse(cmp.Or(in.BaseURL, "https://api.github.com"))
	if err != nil {
		return &url.URL{}
	}
	base.Path, base.RawQuery = "/", ""
	base.Host = strings.TrimPrefix(base.Host, "api.") // api.github.com and api.NAME.ghe.com
	return base
}

func (g *Gateway) integrationRemote(bound []action.Integration, repository string) (*gitserver.Remote, error) {
	in, err := g.chooseGitHub(bound, repository)
	if err != nil {
		return nil, err
	}
	return g.remoteOf(in, repository), nil
}

// remoteOf returns the remote of a repository that an integration can read.
func (g *Gateway) remoteOf(in action.Integration, repository string) *gitserver.Remote {
	_, name, _ := strings.Cut(repository, "/")
	return g.newGitRemote(gitBase(in).JoinPath(repository), gitserver.Remote{
		Integration: in.ID, Revision: in.ID + " " + strconv.FormatInt(in.Revision, 10),
		Credential: func(ctx context.Context, a gitserver.Access) (user, password string, err error) {
			permissions := map[string]string{"contents": "read"}
			if a.Write {
				permissions["contents"] = "write"
			}
			if a.Workflows {
				permissions["workflows"] = "write"
			}
			password, err = g.tokens.RepositoryToken(ctx, in, name, permissions)
			return gitUser, password, err
		},
	})
}

// chooseGitHub returns the integration that is for the repository, as for other
// actions of the module.
func (g *Gateway) chooseGitHub(bound []action.Integration, repository string) (action.Integration, error) {
	at := 0
	if len(bound) > 1 {
		owner, _, _ := strings.Cut(repository, "/")
		params, err := json.Marshal(map[string]string{"owner": owner})
		if err != nil {
			return action.Integration{}, err
		}
		for _, m := range g.modules {
			if m.ID == githubID {
				at = m.Choose(params, bound)
			}
		}
	}
	if at < 0 {
		return action.Integration{}, action.Errorf(action.ErrForbidden, "ambiguous_integration", "Several integrations of this session could be for %s. Tell the user that a session with one of them is required.", repository)
	}
	in := bound[at]
	if in.Status != action.IntegrationActive {
		return in, action.Errorf(action.ErrUnavailable, sources.FaultReconnect, "The integration for %s is %s. Tell the user that a person must connect it again.", repository, in.Status)
	}
	return in, nil
}

// secretRemote returns a remote whose credential is a secret for the host: a token,
// or user:password.
func (g *Gateway) secretRemote(ctx context.Context, organization, host, repository string) (*gitserver.Remote, error) {
	base := &url.URL{Scheme: "https", Host: host}
	if guard.Loopback(base) {
		base.Scheme = "http"
	}
	secrets, err := g.DB.ListSecrets(ctx, organization)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(secrets, func(s action.Secret) bool {
		return strings.HasPrefix(s.Key, gitSecretPrefix) && action.SameHost(s.Host, base.String())
	})
	if at < 0 {
		return nil, action.Errorf(action.ErrForbidden, codeNoGitCredential,
			"This session has no credential for %s. Tell the user: the session needs an integration of it, or an admin must set a secret for the host (sallyport secret set %sNAME --host %s).", host, gitSecretPrefix, host)
	}
	key := secrets[at].Key
	return g.newGitRemote(base.JoinPath(repository), gitserver.Remote{
		Revision: "secret " + key,
		Credential: func(ctx context.Context, _ gitserver.Access) (user, password string, err error) {
			value, bound, err := g.secret(ctx, organization, key)
			if err != nil {
				return "", "", err
			}
			if !action.SameHost(bound, base.String()) { // it was set for another host meanwhile
				return "", "", action.Errorf(action.ErrUnavailable, sources.FaultCredential, "The secret for %s has just been changed. Retry.", host)
			}
			if user, password, ok := strings.Cut(value, ":"); ok {
				return user, password, nil
			}
			return gitUser, value, nil
		},
	}), nil
}

// gitRules implements [gitserver.Config.Rules].
func (g *Gateway) gitRules(ctx context.Context, s *action.Session, r *gitserver.Remote, p *gitpush.Params) (rules gitserver.Rules, err error) {
	if s.ForRun() {
		run, err := g.DB.RunOfSession(ctx, s.Organization, s.ID)
		if err != nil {
			return rules, err
		}
		rules.Own = "refs/heads/sallyport/" + run.ID + "/"
	}
	if r.Integration == "" {
		return rules, nil
	}
	in, err := g.DB.Integration(ctx, s.Organization, r.Integration, "")
	if err != nil {
		return rules, err
	}
	conn, err := g.integrationConn(ctx, in)
	if err != nil {
		return rules, err
	}
	_, repository, _ := strings.Cut(p.Repository, "/")
	push := github.Push{}
	push.Owner, push.Repo, _ = strings.Cut(repository, "/")
	for _, ref := range p.Refs {
		if name, ok := strings.CutPrefix(ref.Name, "refs/heads/"); ok {
			push.Branches = append(push.Branches, name)
		}
	}
	if rules.Production, err = push.Check(in.Settings); err != nil {
		return rules, action.Errorf(action.ErrForbidden, "guardrail", "GitHub: %s", err.Error())
	}
	if rules.Protected, err = push.ProtectedBranch(ctx, conn); err != nil {
		return rules, action.Errorf(action.ErrUnavailable, sources.FaultRefused, "GitHub did not say whether the branch is protected, so nothing was pushed. Retry later.").WithCause(err)
	}
	return rules, nil
}

// personName returns the name of a user for agents.
func (g *Gateway) personName(ctx context.Context, organization, id string) string {
	u, err := g.DB.User(ctx, organization, id)
	if err != nil {
		return "a person"
	}
	return u.Name
}

// newGitRemote completes a remote with its URL and a client that connects to its
// host only.
func (g *Gateway) newGitRemote(u *url.URL, r gitserver.Remote) *gitserver.Remote {
	transport := g.gitTransports[0]
	if guard.Loopback(u) {
		transport = g.gitTransports[1]
	}
	r.URL, r.Client = u, guard.Over(transport, u)
	return &r
}
