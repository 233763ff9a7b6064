package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

type userCommand struct {
	Add       userAdd       `cmd:"" help:"Add a person."`
	List      userList      `cmd:"" help:"List people."`
	Role      userRole      `cmd:"" help:"Change what a person may do."`
	Remove    userRemove    `cmd:"" help:"Remove a person and end their logins."`
	LoginLink userLoginLink `cmd:"" name:"login-link" help:"Print a link that signs a person in once."`
	SignOut   userSignOut   `cmd:"" name:"sign-out" help:"Sign a person out of every browser."`
	Removed   userRemoved   `cmd:"" help:"List people of an OpenID provider or a host application who were removed."`
	Readmit   userReadmit   `cmd:"" help:"Let such a person sign in again."`
}

type userRow struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Role      string     `json:"role"`
	CreatedAt *time.Time `json:"created_at"`
}

type userAdd struct {
	remote
	Name string `arg:"" help:"Their name."`
	Role string `enum:"owner,admin,member" default:"member" help:"owner, admin or member (default)."`
}

func (c *userAdd) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var made userRow
	raw, err := server.change(ctx, http.MethodPost, "/api/v1/users", map[string]any{"name": c.Name, "role": c.Role}, &made)
	if err != nil {
		return err
	}
	return c.print(std, raw, said(fmt.Sprintf("%s %s (%s) is added; the sign-in link is made with: %s", made.Role, made.Name, made.ID, c.hint("user", "login-link", made.ID))))
}

type userList struct{ remote }

func (c *userList) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var users list[userRow]
	raw, err := server.read(ctx, "/api/v1/users", nil, &users)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(users.Items))
		for _, u := range users.Items {
			rows = append(rows, []string{u.Name, u.Role, since(u.CreatedAt), u.ID})
		}
		table(w, []string{"NAME", "ROLE", "ADDED", "ID"}, rows)
	})
}

// person names a user by id, or by a name that only one has.
type person struct {
	remote
	User string `arg:"" help:"Id or name of the person."`
}

// find returns a client and the person.
func (p *person) find(ctx context.Context) (*client, userRow, error) {
	server, err := p.connect()
	if err != nil {
		return nil, userRow{}, err
	}
	var users list[userRow]
	if _, err := server.read(ctx, "/api/v1/users", nil, &users); err != nil {
		return nil, userRow{}, err
	}
	var found []userRow
	for _, u := range users.Items {
		if u.ID == p.User {
			return server, u, nil
		}
		if u.Name == p.User {
			found = append(found, u)
		}
	}
	switch len(found) {
	case 0:
		return nil, userRow{}, fmt.Errorf("nobody has the id or name %q; see: %s", visible(p.User), visible(p.hint("user", "list")))
	case 1:
		return server, found[0], nil
	}
	return nil, userRow{}, fmt.Errorf("%d people are called %q; use the id, see: %s", len(found), visible(p.User), visible(p.hint("user", "list")))
}

func (u userRow) path() string { return "/api/v1/users/" + url.PathEscape(u.ID) }

type userRole struct {
	person
	Role string `arg:"" enum:"owner,admin,member" help:"owner, admin or member."`
}

func (c *userRole) Run(ctx context.Context, std *stdio) error {
	server, u, err := c.find(ctx)
	if err != nil {
		return err
	}
	raw, err := server.change(ctx, http.MethodPatch, u.path(), map[string]any{"role": c.Role}, nil)
	if err != nil {
		return err
	}
	return c.print(std, raw, said(u.Name+" is "+c.Role+" now"))
}

type userRemove struct{ person }

func (c *userRemove) Run(ctx context.Context, std *stdio) error {
	server, u, err := c.find(ctx)
	if err != nil {
		return err
	}
	raw, err := server.change(ctx, http.MethodDelete, u.path(), nil, nil)
	if err != nil {
		return err
	}
	return c.print(std, raw, said(u.Name+" is removed"))
}

type userLoginLink struct{ person }

func (c *userLoginLink) Run(ctx context.Context, std *stdio) error {
	server, u, err := c.find(ctx)
	if err != nil {
		return err
	}
	var link struct {
		URL       string     `json:"url"`
		ExpiresAt *time.Time `json:"expires_at"`
	}
	raw, err := server.change(ctx, http.MethodPost, u.path()+"/login-link", nil, &link)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		fmt.Fprintln(w, visible(link.URL))
		fmt.Fprintf(std.Err, "it works once and ends %s\n", since(link.ExpiresAt))
	})
}

type userSignOut struct{ person }

func (c *userSignOut) Run(ctx context.Context, std *stdio) error {
	server, u, err := c.find(ctx)
	if err != nil {
		return err
	}
	var ended struct {
		Ended int `json:"ended"`
	}
	raw, err := server.change(ctx, http.MethodDelete, u.path()+"/logins", nil, &ended)
	if err != nil {
		return err
	}
	return c.print(std, raw, said(fmt.Sprintf("%s is signed out everywhere: %d browsers", u.Name, ended.Ended)))
}

type userRemoved struct{ remote }

func (c *userRemoved) Run(ctx context.Context, std *stdio) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	var removed list[struct {
		ID        string     `json:"id"`
		Name      string     `json:"name"`
		Issuer    string     `json:"issuer"`
		RemovedAt *time.Time `json:"removed_at"`
	}]
	raw, err := server.read(ctx, "/api/v1/removed-users", nil, &removed)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) {
		rows := make([][]string, 0, len(removed.Items))
		for _, u := range removed.Items {
			rows = append(rows, []string{u.Name, u.Issuer, since(u.RemovedAt), u.ID})
		}
		table(w, []string{"NAME", "FROM", "REMOVED", "ID"}, rows)
	})
}

type userReadmit struct {
	remote
	ID string `arg:"" help:"Id of the person who was removed."`
}

func (c *userReadmit) Run(ctx context.Context, std *stdio) error {
	return c.remove(ctx, std, "/api/v1/removed-users/"+url.PathEscape(c.ID), "user "+c.ID+" may sign in again")
}
