package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"sallyport/api"
)

// accept takes what was shown as reviewed, and nothing else: a tool that is
// another by now is refused here, and one that changes in between by the
// server, to which the whole hashes go.
func (c *connectorReview) accept(ctx context.Context, std *stdio, server *client) error {
	tools, raw, err := fetch(ctx, server, api.ListTools, api.ListToolsInput{ByRef: c.ref()})
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
	body := api.NewReview{Tools: make([]api.SeenTool, len(chosen))}
	for i := range chosen {
		body.Tools[i] = seen(&chosen[i])
	}
	return perform(ctx, &c.remote, std, api.ReviewTools, api.ByRefWith[api.NewReview]{ByRef: c.ref(), Body: body}, func(w io.Writer, _ *api.List[api.ReviewView]) {
		said("accepted as shown: " + strings.Join(tags(chosen), ", "))(w)
	})
}

// choose returns those that are to be accepted, all of them as they were shown.
func (c *connectorReview) choose(tools []api.ReviewView) ([]api.ReviewView, error) {
	if c.AcceptAll {
		if open := waiting(tools); digest(open) == c.Digest {
			return open, nil
		}
		return nil, c.moved("what waits for a review", "--digest "+c.Digest)
	}
	var chosen []api.ReviewView
	whole := true
	for _, text := range c.Accept {
		row, hash, err := c.find(tools, text)
		if err != nil {
			return nil, err
		}
		if whole = whole && hash; hash && tag(&row) != text {
			return nil, c.moved(row.Tool, text)
		}
		chosen = append(chosen, row)
	}
	if whole {
		return chosen, nil
	}
	words := []string{"connector", "review", c.Ref}
	for _, tag := range tags(chosen) {
		words = append(words, "--accept", tag)
	}
	return nil, &unseen{wrongUse("say which definition you accept: %s", visible(c.hint(words...))), chosen}
}

// unseen refuses to accept rows of which nobody said what he saw.
type unseen struct {
	error
	rows []api.ReviewView
}

// Unwrap returns what is wrong.
func (u *unseen) Unwrap() error { return u.error }

func (c *connectorReview) moved(what, shown string) error {
	return fmt.Errorf("%s changed since it was shown as %s, and nothing is accepted; look again with: %s",
		visible(what), visible(shown), visible(c.hint("connector", "review", c.Ref)))
}

// find returns the tool that text names, and whether with a hash. A tool's name
// may have a @ in it.
func (c *connectorReview) find(tools []api.ReviewView, text string) (row api.ReviewView, hash bool, err error) {
	at := strings.LastIndexByte(text, '@')
	for _, name := range []string{text[:max(at, 0)], text} {
		if i := slices.IndexFunc(tools, func(r api.ReviewView) bool { return name != "" && r.Tool == name }); i >= 0 {
			return tools[i], name != text, nil
		}
	}
	return row, false, fmt.Errorf("%s lists no tool %q; it lists: %s", visible(c.Ref), visible(text), visible(strings.Join(names(tools), ", ")))
}

func names(rows []api.ReviewView) []string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = r.Tool
	}
	return all
}

// seen is the tool as it was shown; one that is gone has no hashes.
func seen(r *api.ReviewView) api.SeenTool {
	if r.Current == nil {
		return api.SeenTool{Tool: r.Tool}
	}
	return api.SeenTool{Tool: r.Tool, Behaviour: r.Current.Behaviour, Text: r.Current.Text}
}

// tag stands for the tool as it is listed now: whoever accepts says it, and so
// what he saw.
func tag(r *api.ReviewView) string {
	if r.Current == nil {
		return r.Tool + "@gone"
	}
	return r.Tool + "@" + shortHash(r.Current.Behaviour+r.Current.Text)
}

// digest stands for several tools as they are listed now.
func digest(rows []api.ReviewView) string { return shortHash(strings.Join(tags(rows), "\n")) }

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

func tags(rows []api.ReviewView) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = tag(&rows[i])
	}
	return all
}
