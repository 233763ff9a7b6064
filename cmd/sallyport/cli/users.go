package cli

import (
	"context"
	"fmt"
	"io"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/command"
)

type userCommand struct {
	Add       request[api.Body[api.NewUser], action.User]     `cmd:"" help:"Add a person."`
	List      request[api.None, api.List[action.User]]        `cmd:"" help:"List people."`
	Role      userRole                                        `cmd:"" help:"Change the role of a person."`
	Remove    userRemove                                      `cmd:"" help:"Remove a person and end their sign-ins."`
	LoginLink userLoginLink                                   `cmd:"" name:"login-link" help:"Print a one-time sign-in link for a person."`
	SignOut   userSignOut                                     `cmd:"" name:"sign-out" help:"Sign a person out of every browser."`
	Removed   request[api.None, api.List[action.RemovedUser]] `cmd:"" help:"List removed people of an identity provider or host application."`
	Readmit   request[api.ByID, api.None]                     `cmd:"" help:"Let a removed person sign in again."`
}

// userRef is the argument that names a user by ID or unique name.
type userRef struct {
	clientFlags
	User string `arg:"" help:"ID or name of the person."`
}

// find looks up the user.
func (p *userRef) find(ctx context.Context) (*action.User, error) {
	server, err := p.connect()
	if err != nil {
		return nil, err
	}
	users, _, err := Fetch(ctx, server, api.ListUsers, api.None{})
	if err != nil {
		return nil, err
	}
	var found []*action.User
	for i := range users.Items {
		u := &users.Items[i]
		if u.ID == p.User {
			return u, nil
		}
		if u.Name == p.User {
			found = append(found, u)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no person with the ID or name %q; see: %s", command.Printable(p.User), command.Printable(p.hint("user", "list")))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d people have the name %q; pass the ID, see: %s", len(found), command.Printable(p.User), command.Printable(p.hint("user", "list")))
}

type userRole struct {
	userRef
	api.RoleChange
}

func (c *userRole) Run(ctx context.Context, std *command.Streams) error {
	u, err := c.find(ctx)
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.UpdateUserRole, api.ByIDWith[api.RoleChange]{ByID: api.ByID{ID: u.ID}, Body: c.RoleChange}, func(w io.Writer, _ *action.User) {
		printLine(w, u.Name+" is now "+string(c.Role))
	})
}

type userRemove struct{ userRef }

func (c *userRemove) Run(ctx context.Context, std *command.Streams) error {
	u, err := c.find(ctx)
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.DeleteUser, api.ByID{ID: u.ID}, confirmation(u.Name+" is removed"))
}

type userLoginLink struct{ userRef }

func (*userLoginLink) route() api.Operation { return api.CreateLoginLink.Operation }

func (c *userLoginLink) Run(ctx context.Context, std *command.Streams) error {
	u, err := c.find(ctx)
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.CreateLoginLink, api.ByID{ID: u.ID}, func(w io.Writer, link *api.Link) {
		fmt.Fprintln(w, command.Printable(link.URL))
		fmt.Fprintf(std.Err, "it works once and expires %s\n", relativeTime(&link.ExpiresAt))
	})
}

type userSignOut struct{ userRef }

func (c *userSignOut) Run(ctx context.Context, std *command.Streams) error {
	u, err := c.find(ctx)
	if err != nil {
		return err
	}
	return perform(ctx, &c.clientFlags, std, api.EndUserLogins, api.ByID{ID: u.ID}, func(w io.Writer, l *api.EndedLogins) {
		printLine(w, fmt.Sprintf("signed %s out of %s", u.Name, command.Plural(l.Ended, "browser")))
	})
}

type apiKeyCommand struct {
	Create apiKeyCreate                               `cmd:"" help:"Create a key and print it once."`
	List   request[api.None, api.List[action.APIKey]] `cmd:"" help:"List keys without their values."`
	Revoke request[api.ByID, api.None]                `cmd:"" help:"Revoke a key."`
}

type apiKeyCreate struct {
	clientFlags
	api.NewKey
}

func (c *apiKeyCreate) Run(ctx context.Context, std *command.Streams) error {
	return perform(ctx, &c.clientFlags, std, api.CreateKey, api.Body[api.NewKey]{Body: c.NewKey}, func(w io.Writer, k *api.MintedKey) {
		fmt.Fprintln(w, command.Printable(k.Key))
		fmt.Fprintf(std.Err, "key %s; it is not shown again\n", command.Printable(k.ID))
	})
}

func showNewUser(_ context.Context, w io.Writer, c *clientFlags, u *action.User) {
	printLine(w, fmt.Sprintf("%s %s (%s) is added; create a sign-in link: %s", u.Role, u.Name, u.ID, c.hint("user", "login-link", u.ID)))
}

func apiKeyRow(k *action.APIKey) []string {
	role, state := string(k.Role), "active"
	if k.Scope != "" {
		role = "only " + string(k.Scope)
	}
	if k.RevokedAt != nil {
		state = "revoked " + relativeTime(k.RevokedAt)
	}
	return []string{k.Name, role, k.User, relativeTime(&k.CreatedAt), state, k.ID}
}
