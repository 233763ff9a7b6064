// Package client calls the HTTP API of a Sallyport server through the routes
// that package api declares.
//
//	c := &client.Client{Base: base, Key: key, HTTP: http.DefaultClient}
//	answer, err := client.Do(ctx, c, api.GetRun, api.ByID{ID: id})
//
// It does not retry and sets no timeout; both are up to the caller.
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"sallyport/api"
)

// MaxAnswer is the maximum size of a response, in bytes.
const MaxAnswer = 64 << 20

// Client calls a server with a credential. It is safe for concurrent use if
// its HTTP client is.
type Client struct {
	Base *url.URL     // scheme and host
	Key  string       // an API key or session token; empty: none
	HTTP *http.Client // should not follow redirects: the API has none, and a request may contain a secret
}

// Answer is the response of an operation.
type Answer[Out any] struct {
	Status int
	Body   Out
	Raw    json.RawMessage // the unparsed body; empty if there is none
}

// Error is an error response of the server.
type Error struct {
	api.Problem
	Request *http.Request
}

func (e *Error) Error() string { return e.Detail }

// UnexpectedError is a response that is not from a Sallyport server, such as
// that of a proxy.
type UnexpectedError struct{ Response *http.Response }

func (e *UnexpectedError) Error() string {
	return "the server answered " + e.Response.Status + ", which is not a Sallyport response; check the URL"
}

// Do calls an operation. An error response is returned as an [*Error]. If the
// body cannot be decoded, the returned answer has it in Raw.
func Do[In, Out any](ctx context.Context, c *Client, route api.Route[In, Out], in In) (*Answer[Out], error) {
	request, err := c.NewRequest(ctx, &route.Operation, in)
	if err != nil {
		return nil, err
	}
	response, err := c.Send(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := &Answer[Out]{Status: response.StatusCode}
	if answer.Raw, err = read(response); err != nil || len(answer.Raw) == 0 {
		return answer, err
	}
	if err := json.Unmarshal(answer.Raw, &answer.Body); err != nil {
		return answer, fmt.Errorf("cannot decode the server's response; check that server and client have the same version: %w", err)
	}
	return answer, nil
}

// Send sends a request and returns the response unless it is an error. The
// caller must close its body.
func (c *Client) Send(request *http.Request) (*http.Response, error) {
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response, nil
	}
	defer response.Body.Close()
	raw, err := read(response)
	if err != nil {
		return nil, err
	}
	refusal := &Error{Request: request}
	if json.Unmarshal(raw, &refusal.Problem) != nil || refusal.Detail == "" {
		return nil, &UnexpectedError{response}
	}
	refusal.Status = response.StatusCode
	return nil, refusal
}

func read(response *http.Response) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(response.Body, MaxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the server's response: %w", err)
	}
	return raw, nil
}
