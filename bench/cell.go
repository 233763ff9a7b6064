package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The protocol versions of the two eras.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// cell is one combination that is measured.
type cell struct {
	Store    string `json:"store"` // of the gateway: sqlite or postgres
	Era      string `json:"era"`   // a protocol version
	Kind     string `json:"kind"`  // read and write are calls; list10 asks for ten tools
	Sessions int    `json:"sessions"`
}

func (c cell) String() string {
	return fmt.Sprintf("%s %s %s, %d sessions", c.Store, c.Era, c.Kind, c.Sessions)
}

// tools is how many a cell lists; zero: it calls one.
func (c cell) tools() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(c.Kind, "list"))
	return n
}

// open connects one session.
func (c cell) open(ctx context.Context, to target, token string) (*connection, error) {
	switch {
	case c.Era == legacy:
		return open(ctx, to, token)
	case c.tools() > 0:
		return openModern(ctx, to, token, "tools/list", "")
	}
	return openModern(ctx, to, token, "tools/call", to.prefix+c.Kind)
}

// request is what each session sends again and again. No two carry the same n,
// so that no call joins another.
func (c cell) request(to target) func(*connection, int64) error {
	if tools := c.tools(); tools > 0 {
		return func(at *connection, n int64) error { return at.list(n, tools) }
	}
	tool := to.prefix + c.Kind
	return func(at *connection, n int64) error { return at.call(tool, n) }
}

// cells are all that the options want. Lists are asked for by one session:
// their cost is theirs, whoever else asks.
func (o *options) cells() (list []cell) {
	for _, store := range o.stores {
		for _, era := range o.eras {
			for _, kind := range []string{"read", "write"} {
				for _, n := range o.sessions {
					list = append(list, cell{store, era, kind, n})
				}
			}
		}
	}
	for _, n := range o.lists {
		list = append(list, cell{"sqlite", legacy, fmt.Sprint("list", n), 1})
	}
	return list
}
