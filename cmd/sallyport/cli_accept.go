package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// accept takes what was shown as reviewed, and nothing else: a tool that is
// another by now is refused here, and one that changes in between by the
// server, to which the whole hashes go.
func (c *connectorReview) accept(ctx context.Context, std *stdio, server *client) error {
	var tools reviewList
	raw, err := server.read(ctx, connectorPath(c.Name)+"/tools", nil, &tools)
	if err != nil {
		return err
	}
	chosen, err := c.choose(tools.Items)
	if bare := new(unseen); errors.As(err, &bare) {
		return cmp.Or(c.print(std, raw, func(w io.Writer) { report(w, bare.rows) }), err)
	}
	if err != nil {
		return err
	}
	if raw, err = server.change(ctx, http.MethodPost, connectorPath(c.Name)+"/review", map[string]any{"tools": hashes(chosen)}, nil); err != nil {
		return err
	}
	return c.print(std, raw, said("accepted as shown: "+strings.Join(tags(chosen), ", ")))
}

// choose returns those that are to be accepted, all of them as they were shown.
func (c *connectorReview) choose(tools []reviewRow) ([]reviewRow, error) {
	if c.AcceptAll {
		if open := waiting(tools); digest(open) == c.Digest {
			return open, nil
		}
		return nil, c.moved("what waits for a review", "--digest "+c.Digest)
	}
	var chosen []reviewRow
	whole := true
	for _, text := range c.Accept {
		row, hash, err := c.find(tools, text)
		if err != nil {
			return nil, err
		}
		if whole = whole && hash; hash && row.tag() != text {
			return nil, c.moved(row.Tool, text)
		}
		chosen = append(chosen, row)
	}
	if whole {
		return chosen, nil
	}
	words := []string{"connector", "review", c.Name}
	for _, tag := range tags(chosen) {
		words = append(words, "--accept", tag)
	}
	return nil, &unseen{wrongUse("say which definition you accept: %s", visible(c.hint(words...))), chosen}
}

// unseen refuses to accept rows of which nobody said what he saw.
type unseen struct {
	error
	rows []reviewRow
}

// Unwrap returns what is wrong.
func (u *unseen) Unwrap() error { return u.error }

func (c *connectorReview) moved(what, seen string) error {
	return fmt.Errorf("%s changed since it was shown as %s, and nothing is accepted; look again with: %s",
		visible(what), visible(seen), visible(c.hint("connector", "review", c.Name)))
}

// find returns the tool that text names, and whether with a hash. A tool's name
// may have a @ in it.
func (c *connectorReview) find(tools []reviewRow, text string) (row reviewRow, hash bool, err error) {
	at := strings.LastIndexByte(text, '@')
	for _, name := range []string{text[:max(at, 0)], text} {
		if i := slices.IndexFunc(tools, func(r reviewRow) bool { return name != "" && r.Tool == name }); i >= 0 {
			return tools[i], name != text, nil
		}
	}
	return row, false, fmt.Errorf("%s lists no tool %q; it lists: %s", visible(c.Name), visible(text), visible(strings.Join(names(tools), ", ")))
}

func names(rows []reviewRow) []string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = r.Tool
	}
	return all
}

// hashes are of the tools as they were shown; one that is gone has none.
func hashes(rows []reviewRow) []map[string]string {
	all := make([]map[string]string, len(rows))
	for i, r := range rows {
		all[i] = map[string]string{"tool": r.Tool}
		if r.Current != nil {
			all[i]["behaviour_hash"], all[i]["text_hash"] = r.Current.Behaviour, r.Current.Text
		}
	}
	return all
}

// tag stands for the tool as it is listed now: whoever accepts says it, and so
// what he saw.
func (r *reviewRow) tag() string {
	if r.Current == nil {
		return r.Tool + "@gone"
	}
	return r.Tool + "@" + shortHash(r.Current.Behaviour+r.Current.Text)
}

// digest stands for several tools as they are listed now.
func digest(rows []reviewRow) string { return shortHash(strings.Join(tags(rows), "\n")) }

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func tags(rows []reviewRow) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].tag()
	}
	return all
}
