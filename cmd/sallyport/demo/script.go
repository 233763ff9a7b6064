package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
	"sallyport/api"
	"sallyport/cmd/sallyport/cli"
	"sallyport/cmd/sallyport/command"
)

// scriptLimit bounds the whole script.
const scriptLimit = 60 * time.Second

// step is one step of the script.
type step struct {
	title string
	play  func(ctx context.Context, s *script) (seen string, err error)
}

// script runs the demo unattended. Every step compares what the agent got with what
// the notebook ran.
type script struct {
	*demo
	agent *demoAgent
}

// play runs the script and prints a table of its steps.
func (d *demo) play(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scriptLimit)
	defer cancel()
	agent, err := newDemoAgent(ctx, d.session)
	if err != nil {
		return err
	}
	defer agent.session.Close()
	s := &script{demo: d, agent: agent}
	var rows [][]string
	failed := 0
	for _, step := range []step{
		{"A read is allowed", readAllowed},
		{"A write is approved and runs once", writeApproved},
		{"Another write is denied", writeDenied},
		{"A destructive call is denied by policy", wipeRefused},
		{"A repeated call joins the first", repeatJoined},
	} {
		seen, err := step.play(ctx, s)
		verdict := "ok"
		if err != nil {
			verdict, seen = "FAILED", err.Error()
			failed++
		}
		rows = append(rows, []string{step.title, verdict, seen})
	}
	command.Table(d.Out, []string{"STEP", "", "RESULT"}, rows)
	if failed > 0 {
		return fmt.Errorf("%d of %d steps failed", failed, len(rows))
	}
	return nil
}

func readAllowed(ctx context.Context, s *script) (string, error) {
	got := s.agent.call(ctx, "list", nil, "read", nil)
	if err := got.check(false, "Buy milk"); err != nil {
		return "", err
	}
	return "returned the notes at once", s.checkEffects(1, 0, 0)
}

// writeApproved waits for two progress messages, to check that they continue, before
// a person approves.
func writeApproved(ctx context.Context, s *script) (string, error) {
	messages := make(chan string, 100)
	done := s.start(ctx, "add", "Call the plumber", "approved", messages)
	var last string
	for range 2 {
		select {
		case last = <-messages:
			fmt.Fprintln(s.Out, "  progress that the agent sees:", command.Printable(last))
		case got := <-done:
			return "", fmt.Errorf("the write did not wait for approval: %v", got)
		case <-ctx.Done():
			return "", errors.New("the agent got no progress while the write was pending")
		}
	}
	held, err := s.held(ctx)
	if err != nil {
		return "", err
	}
	if err := s.checkEffects(1, 0, 0); err != nil {
		return "", fmt.Errorf("before the approval: %w", err)
	}
	if err := s.approve(ctx, held.ID, &api.Approval{ParamsHash: held.ParamsHash}); err != nil {
		return "", err
	}
	got, err := await(ctx, done)
	if err == nil {
		err = got.check(false, "Noted")
	}
	if err != nil {
		return "", err
	}
	return "pending with progress, then: " + got.text, s.checkEffects(1, 1, 0)
}

func writeDenied(ctx context.Context, s *script) (string, error) {
	const reason = "Not on a Sunday."
	done := s.start(ctx, "add", "Mow the lawn", "denied", nil)
	held, err := s.held(ctx)
	if err != nil {
		return "", err
	}
	if err := s.deny(ctx, held.ID, reason); err != nil {
		return "", err
	}
	got, err := await(ctx, done)
	if err == nil {
		err = got.check(true, reason)
	}
	if err != nil {
		return "", err
	}
	return "the agent gets the reason: " + reason, s.checkEffects(1, 1, 0)
}

func wipeRefused(ctx context.Context, s *script) (string, error) {
	listed, err := s.agent.offers(ctx, "wipe")
	if err != nil {
		return "", err
	}
	if listed {
		return "", errors.New("a denied tool is listed")
	}
	if got := s.agent.call(ctx, "wipe", nil, "wipe", nil); got.err == nil && !got.refused {
		return "", fmt.Errorf("it returned %q", got.text)
	}
	return "not listed, and denied when called by name", s.checkEffects(1, 1, 0)
}

// repeatJoined sends the same call twice while it waits, as an agent does
// after a timeout of its own.
func repeatJoined(ctx context.Context, s *script) (string, error) {
	first := s.start(ctx, "add", "Water the plants", "first", nil)
	if _, err := s.held(ctx); err != nil {
		return "", err
	}
	heard := make(chan string, 100)
	second := s.start(ctx, "add", "Water the plants", "second", heard)
	select {
	case <-heard: // it is pending, too
	case <-ctx.Done():
		return "", errors.New("the repeated call did not wait for approval")
	}
	held, err := s.held(ctx)
	if err != nil {
		return "", err
	}
	if err := s.approve(ctx, held.ID, nil); err != nil {
		return "", err
	}
	for _, done := range []<-chan callResult{first, second} {
		got, err := await(ctx, done)
		if err == nil {
			err = got.check(false, "Noted")
		}
		if err != nil {
			return "", err
		}
	}
	return "two callers, one approval, one effect", s.checkEffects(1, 2, 0)
}

// start calls a tool in a goroutine; messages, if not nil, receives the progress
// messages.
func (s *script) start(ctx context.Context, tool, note, token string, messages chan<- string) <-chan callResult {
	done := make(chan callResult, 1)
	onProgress := func(_ float64, message string) {
		select {
		case messages <- message: // nil: never
		default:
		}
	}
	go func() { done <- s.agent.call(ctx, tool, map[string]any{"text": note}, token, onProgress) }()
	return done
}

func await(ctx context.Context, done <-chan callResult) (callResult, error) {
	select {
	case got := <-done:
		return got, got.err
	case <-ctx.Done():
		return callResult{}, errors.New("the agent got no result")
	}
}

// check compares the result with the expected one.
func (s callResult) check(refused bool, part string) error {
	switch {
	case s.err != nil:
		return s.err
	case s.refused != refused:
		return fmt.Errorf("refused is %t, not %t: %s", s.refused, refused, s.text)
	case !strings.Contains(s.text, part):
		return fmt.Errorf("the answer lacks %q: %s", part, s.text)
	}
	return nil
}

// held waits for the pending call of the session and returns it.
func (s *script) held(ctx context.Context) (*api.InvocationView, error) {
	in := api.ListInvocationsInput{CallFilters: api.CallFilters{Status: []action.Status{action.StatusPending}}, CallerFilters: api.CallerFilters{Session: s.session.ID}}
	for {
		held, _, err := cli.Fetch(ctx, s.admin, api.ListInvocations, in)
		if err != nil {
			return nil, err
		}
		switch len(held.Items) {
		case 1:
			return &held.Items[0], nil
		case 0:
		default:
			return nil, fmt.Errorf("%d calls are pending, want 1", len(held.Items))
		}
		select {
		case <-ctx.Done():
			return nil, errors.New("no call is pending")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// approve approves a call as a person, over the API.
func (s *script) approve(ctx context.Context, call string, as *api.Approval) error {
	_, _, err := cli.Fetch(ctx, s.admin, api.ApproveInvocation, api.ByIDWaitWith[*api.Approval]{ByIDWait: api.ByIDWait{ByID: api.ByID{ID: call}}, Body: as})
	return err
}

// deny denies a call as a person, over the API.
func (s *script) deny(ctx context.Context, call, reason string) error {
	_, _, err := cli.Fetch(ctx, s.admin, api.DenyInvocation, api.ByIDWith[*api.Denial]{ByID: api.ByID{ID: call}, Body: &api.Denial{Reason: reason}})
	return err
}

// checkEffects compares the number of calls that the notebook ran.
func (s *script) checkEffects(reads, writes, wipes int) error {
	r, w, x := s.notebook.Counts()
	if r != reads || w != writes || x != wipes {
		return fmt.Errorf("the notebook ran %d reads, %d writes and %d wipes, want %d, %d and %d", r, w, x, reads, writes, wipes)
	}
	return nil
}

// demoAgent is the agent of the script: an MCP client with a session's token.
type demoAgent struct {
	session *mcp.ClientSession

	mu    sync.Mutex
	heard map[string]func(float64, string) // by progress token
}

// newDemoAgent connects over streamable HTTP.
func newDemoAgent(ctx context.Context, s mintedSession) (*demoAgent, error) {
	a := &demoAgent{heard: make(map[string]func(float64, string))}
	client := mcp.NewClient(&mcp.Implementation{Name: "demo-agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: a.progress,
	})
	transport := &mcp.StreamableClientTransport{
		Endpoint: s.MCP, HTTPClient: &http.Client{Transport: bearer(s.Token)}, DisableStandaloneSSE: true,
	}
	var err error
	if a.session, err = client.Connect(ctx, transport, nil); err != nil {
		return nil, fmt.Errorf("connecting as an agent: %w", err)
	}
	return a, nil
}

// bearer adds a token to every request.
type bearer string

// RoundTrip sends the request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (a *demoAgent) progress(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
	a.mu.Lock()
	onProgress := a.heard[fmt.Sprint(r.Params.ProgressToken)]
	a.mu.Unlock()
	if onProgress != nil {
		onProgress(r.Params.Progress, r.Params.Message)
	}
}

// callResult is what an agent got for a call.
type callResult struct {
	text    string
	refused bool // the result says that it is an error
	err     error
}

// call calls a tool and waits; onProgress receives the progress.
func (a *demoAgent) call(ctx context.Context, tool string, args map[string]any, token string, onProgress func(float64, string)) callResult {
	a.mu.Lock()
	a.heard[token] = onProgress
	a.mu.Unlock()
	params := &mcp.CallToolParams{Name: demoSlug + "_" + tool, Arguments: args}
	params.SetProgressToken(token)
	result, err := a.session.CallTool(ctx, params)
	if err != nil {
		return callResult{err: err}
	}
	var words []string
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			words = append(words, t.Text)
		}
	}
	return callResult{text: strings.Join(words, " "), refused: result.IsError}
}

// offers reports whether the agent's list has a tool.
func (a *demoAgent) offers(ctx context.Context, tool string) (bool, error) {
	list, err := a.session.ListTools(ctx, nil)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == demoSlug+"_"+tool }), nil
}
