// Command connectorclient lets the official MCP conformance suite test the
// gateway's connectors: it registers the server that the suite started as a
// connector, as the gateway does, and performs through it what the scenario is
// about. Where a person has to sign in, it does so.
//
//	MCP_CONFORMANCE_SCENARIO=tools_call connectorclient URL
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/sources"
)

// limit bounds a scenario; the suite's own limit is 30 s.
const limit = 25 * time.Second

// maxSignIns is how often a person signs in before giving up.
const maxSignIns = 3

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stderr))
}

func run(ctx context.Context, args []string, env func(string) string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintln(stderr, "usage: MCP_CONFORMANCE_SCENARIO=name connectorclient URL")
		return 2
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var given given
	if raw := env("MCP_CONFORMANCE_CONTEXT"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &given); err != nil {
			fmt.Fprintln(stderr, "MCP_CONFORMANCE_CONTEXT:", err)
			return 2
		}
	}
	if err := play(ctx, args[0], env("MCP_CONFORMANCE_SCENARIO"), &given); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// given is what the suite tells of a scenario.
type given struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

// play performs a scenario, and again after each sign-in that it needed.
func play(ctx context.Context, url, scenario string, given *given) (err error) {
	h, err := newHouse(ctx, url, strings.HasPrefix(scenario, "auth/"), scenario, given)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.catalog.Close()) }()
	perform := scenarios()[scenario]
	if perform == nil {
		perform = everything
	}
	for signIns := 0; ; signIns++ {
		err = perform(ctx, h, given)
		if signIns == maxSignIns || !h.signsIn() || !needsPerson(err) {
			return err
		}
		if err := h.signIn(ctx); err != nil {
			return fmt.Errorf("signing in: %w", err)
		}
	}
}

// needsPerson reports whether a sign-in may help.
func needsPerson(err error) bool {
	var e *action.Error
	return errors.As(err, &e) && (e.Code == sources.FaultReconnect || e.Code == sources.FaultAuth)
}
