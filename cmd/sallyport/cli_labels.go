package main

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"sallyport/api"
)

// labels are what people call things, by the ids that rows have of them.
type labels map[string]string

// labeled is what labels read of an item.
type labeled struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// labels reads those of lists. What cannot be read is told by its id: something
// else was asked for.
func (c *client) labels(ctx context.Context, paths ...string) labels {
	all := make(labels)
	for _, path := range paths {
		route := api.Route[api.None, api.List[labeled]]{Operation: api.Operation{Method: http.MethodGet, Path: path}}
		found, _, _ := fetch(ctx, c, route, api.None{})
		for _, one := range found.Items {
			all[one.ID] = one.Name
		}
	}
	return all
}

// labels is that of a client, for commands that have none at hand.
func (r *remote) labels(ctx context.Context, paths ...string) labels {
	server, err := r.connect()
	if err != nil {
		return nil
	}
	return server.labels(ctx, paths...)
}

// key is a policy key with the name of its connector.
func (n labels) key(key string) string {
	id, action, _ := strings.Cut(strings.TrimPrefix(key, "connector:"), ":")
	if n[id] == "" {
		return key
	}
	return n[id] + ":" + action
}

// of is the name of what has an id. Keys are told as "key:ID", automations that
// act for nobody as "automation:ID".
func (n labels) of(id string) string {
	kind, bare, _ := strings.Cut(id, ":")
	if name := n[bare]; name != "" {
		return kind + " " + name
	}
	return cmp.Or(n[id], id)
}

// Lists that have names of those who act, and of what starts runs.
const (
	usersPath = "/api/v1/users"
	keysPath  = "/api/v1/api-keys"
)
