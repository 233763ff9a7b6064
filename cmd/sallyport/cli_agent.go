package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"time"

	"sallyport/internal/agent"
)

// inSession are the flags of commands that a session's agent runs in its
// sandbox. The token comes from the environment alone.
type inSession struct {
	remote
	RetryEvery time.Duration `default:"1s" hidden:"" help:"Between two tries while the gateway does not answer."`
}

// retries is how often a request is sent again when the gateway does not
// answer it.
const retries = 10

// agentClient speaks to a server as one session.
type agentClient struct {
	*client
	session string
	pause   time.Duration
	log     io.Writer // where it tells what it waits for
}

// me is who the server says the caller is.
type me struct {
	Session string `json:"session_id"`
	Kind    string `json:"session_kind"`
	Model   string `json:"model"`
	MCPURL  string `json:"mcp_url"`
}

// connect finds the server and learns from it whose token this is.
func (c *inSession) connect(ctx context.Context, std *stdio) (*agentClient, error) {
	a, _, err := c.identify(ctx, std)
	return a, err
}

func (c *inSession) identify(ctx context.Context, std *stdio) (*agentClient, me, error) {
	token := os.Getenv(agent.TokenVariable)
	if token == "" {
		return nil, me{}, fmt.Errorf("no session token: set %s to the token that sallyport session create printed", agent.TokenVariable)
	}
	at := c.URL
	if at == "" {
		e, err := readEndpoint(c.folder())
		if err != nil {
			return nil, me{}, errors.New("where is the gateway? set SALLYPORT_URL to its address, such as https://gateway.example.com; or say --data DIR where one runs on this machine")
		}
		at = e.URL
	}
	server, err := newClient(at, token)
	if err != nil {
		return nil, me{}, err
	}
	a := &agentClient{client: server, pause: c.RetryEvery, log: std.Err}
	var who me
	if _, err := a.get(ctx, "/api/v1/me", nil, &who); err != nil {
		return nil, me{}, err
	}
	if who.Session == "" {
		return nil, me{}, fmt.Errorf("%s is no token of a session; set it to the one that sallyport session create printed", agent.TokenVariable)
	}
	a.session = who.Session
	return a, who, nil
}

// path is a route under the session's actions.
func (a *agentClient) path(rest string) string {
	return "/api/v1/sessions/" + url.PathEscape(a.session) + "/actions" + rest
}

// get reads path into out.
func (a *agentClient) get(ctx context.Context, path string, query url.Values, out any) (json.RawMessage, error) {
	_, raw, err := a.ask(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	return raw, decode(raw, out)
}

// ask sends in, unless it is nil, and returns the status and body of the
// answer. What gets no answer is sent again, unchanged, so in must be what may
// arrive twice: a call has an idempotency key.
func (a *agentClient) ask(ctx context.Context, method, path string, query url.Values, in any) (int, json.RawMessage, error) {
	for try := 1; ; try++ {
		status, raw, err := a.once(ctx, method, path, query, in)
		if !errors.As(err, new(unanswered)) || ctx.Err() != nil || try > retries {
			return status, raw, err
		}
		said(fmt.Sprintf("%v; trying again (%d of %d)", err, try, retries))(a.log)
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(a.pause):
		}
	}
}

// unanswered is a request of which nobody knows whether it arrived, or that
// reached no gateway.
type unanswered struct{ error }

// Unwrap returns what went wrong.
func (e unanswered) Unwrap() error { return e.error }

func (a *agentClient) once(ctx context.Context, method, path string, query url.Values, in any) (int, json.RawMessage, error) {
	request, err := a.request(ctx, method, path, query, in)
	if err != nil {
		return 0, nil, err
	}
	return a.answer(ctx, request)
}

// answer sends a request once.
func (a *agentClient) answer(ctx context.Context, request *http.Request) (int, json.RawMessage, error) {
	response, err := a.http.Do(request)
	if err != nil {
		if ctx.Err() == nil && connectionFailed(err) {
			err = unanswered{fmt.Errorf("the gateway at %s does not answer (%w)", a.base, cause(err))}
		}
		return 0, nil, err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return 0, nil, unanswered{fmt.Errorf("the gateway's answer was cut off (%w)", err)}
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response.StatusCode, raw, nil
	}
	err = a.refusal(request, response, raw)
	if away(response.StatusCode, err) {
		err = unanswered{err}
	}
	return response.StatusCode, nil, err
}

// away reports whether an answer says that the gateway is out of reach. One of
// the gateway itself about a service that is away is an answer.
func away(status int, err error) bool {
	switch status {
	case http.StatusServiceUnavailable:
		return true
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return !errors.As(err, new(*problem))
	}
	return false
}

// connectionFailed reports whether no answer came because of the connection.
func connectionFailed(err error) bool {
	for _, e := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	var broken *net.OpError
	var name *net.DNSError
	var slow net.Error
	return errors.As(err, &broken) || errors.As(err, &name) || errors.As(err, &slow) && slow.Timeout()
}

// cause is an error of a request without the URL, which the message has.
func cause(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
