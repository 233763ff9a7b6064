package main

import (
	"cmp"
	"context"
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
func (c *client) labels(ctx context.Context, lists ...api.Operation) labels {
	all := make(labels)
	for _, list := range lists {
		found, _, _ := fetch(ctx, c, api.Route[api.None, api.List[labeled]]{Operation: list}, api.None{})
		for _, one := range found.Items {
			all[one.ID] = one.Name
		}
	}
	return all
}

// labels is that of a client, for commands that have none at hand.
func (r *remote) labels(ctx context.Context, lists ...api.Operation) labels {
	server, err := r.connect()
	if err != nil {
		return nil
	}
	return server.labels(ctx, lists...)
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

// actors list those who act, and then what others are asked for.
func actors(others ...api.Operation) []api.Operation {
	return append([]api.Operation{api.ListUsers.Operation, api.ListKeys.Operation}, others...)
}
