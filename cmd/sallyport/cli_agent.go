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
	"slices"
	"syscall"
	"time"

	"sallyport/api"
	apiclient "sallyport/client"
	"sallyport/internal/agent"
)

// inSession are the flags of commands that a session's agent runs in its
// sandbox. The token comes from the environment alone.
type inSession struct {
	remote
	RetryEvery time.Duration `default:"1s" hidden:"" help:"Pause between attempts while the gateway does not answer."`
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

// connect finds the server and learns from it whose token this is.
func (c *inSession) connect(ctx context.Context, std *stdio) (*agentClient, error) {
	a, _, err := c.identify(ctx, std)
	return a, err
}

func (c *inSession) identify(ctx context.Context, std *stdio) (*agentClient, *api.Me, error) {
	token := os.Getenv(agent.TokenVariable)
	if token == "" {
		return nil, nil, fmt.Errorf("no session token: set %s to the token that sallyport session create printed", agent.TokenVariable)
	}
	at := c.URL
	if at == "" {
		e, err := readEndpoint(c.folder())
		if err != nil {
			return nil, nil, errors.New("where is the gateway? set SALLYPORT_URL to its address, such as https://gateway.example.com; or say --data DIR where one runs on this machine")
		}
		at = e.URL
	}
	server, err := newClient(at, token)
	if err != nil {
		return nil, nil, err
	}
	a := &agentClient{client: server, pause: c.RetryEvery, log: std.Err}
	_, who, _, err := fetchAs(ctx, a, api.GetMe, api.None{})
	if err != nil {
		return nil, nil, err
	}
	if who.Session == "" {
		return nil, nil, fmt.Errorf("%s is no token of a session; set it to the one that sallyport session create printed", agent.TokenVariable)
	}
	a.session = who.Session
	return a, who, nil
}

// in is the parameter of routes under the session.
func (a *agentClient) in() api.InSession { return api.InSession{Session: a.session} }

// fetchAs calls an operation as [agentClient.exchange] does, and returns the status and
// the answer, also as it came.
func fetchAs[In, Out any](ctx context.Context, a *agentClient, route api.Route[In, Out], in In) (status int, out *Out, raw json.RawMessage, err error) {
	out = new(Out)
	if status, raw, err = a.exchange(ctx, &route.Operation, in); err == nil {
		err = decode(raw, out)
	}
	return status, out, raw, err
}

// performAs calls an operation with [fetchAs] and prints its answer: as JSON with --json,
// and otherwise as human writes it.
func performAs[In, Out any](ctx context.Context, c *inSession, std *stdio, a *agentClient, route api.Route[In, Out], in In, human func(io.Writer, *Out)) error {
	_, out, raw, err := fetchAs(ctx, a, route, in)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { human(w, out) })
}

// exchange calls an operation and returns the status and body of the answer. What
// gets no answer is sent again, unchanged, so in must be what may arrive twice: a
// call has an idempotency key.
func (a *agentClient) exchange(ctx context.Context, op *api.Operation, in any) (int, json.RawMessage, error) {
	for try := 1; ; try++ {
		status, raw, err := a.once(ctx, op, in)
		if !errors.As(err, new(unanswered)) || ctx.Err() != nil || try > retries {
			return status, raw, err
		}
		if err := a.backOff(ctx, err, try, a.pause); err != nil {
			return 0, nil, err
		}
	}
}

// backOff says why a request is sent again, and waits before it is.
func (a *agentClient) backOff(ctx context.Context, err error, try int, pause time.Duration) error {
	said(fmt.Sprintf("%v; trying again (%d of %d)", err, try, retries))(a.log)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}

// unanswered is a request of which nobody knows whether it arrived, or that
// reached no gateway.
type unanswered struct{ error }

// Unwrap returns what went wrong.
func (e unanswered) Unwrap() error { return e.error }

func (a *agentClient) once(ctx context.Context, op *api.Operation, in any) (int, json.RawMessage, error) {
	request, err := a.NewRequest(ctx, op, in)
	if err != nil {
		return 0, nil, err
	}
	return a.answer(ctx, request)
}

// answer sends a request once.
func (a *agentClient) answer(ctx context.Context, request *http.Request) (int, json.RawMessage, error) {
	response, err := a.Send(request)
	if err != nil {
		return 0, nil, a.failed(ctx, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, apiclient.MaxAnswer))
	if err != nil {
		return 0, nil, unanswered{fmt.Errorf("the gateway's answer was cut off (%w)", err)}
	}
	return response.StatusCode, raw, nil
}

// failed is an error of a request that was sent. The gateway itself is out of
// reach where it or a proxy says so; what it says of a service is an answer.
func (a *agentClient) failed(ctx context.Context, err error) error {
	var refused *apiclient.Error
	var unexpected *apiclient.UnexpectedError
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable:
		return unanswered{a.refusal(refused)}
	case errors.As(err, &refused):
		return a.refusal(refused)
	case errors.As(err, &unexpected) && slices.Contains([]int{http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout}, unexpected.Response.StatusCode):
		return unanswered{err}
	case ctx.Err() == nil && connectionFailed(err):
		return unanswered{fmt.Errorf("the gateway at %s does not answer (%w)", a.Base, cause(err))}
	}
	return err
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
