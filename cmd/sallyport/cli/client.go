package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"sallyport/action"
	"sallyport/api"
	apiclient "sallyport/client"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
	"sallyport/internal/shell"
)

// clientFlags are the flags of every client command. The API key comes from the
// environment (SALLYPORT_API_KEY) or the data folder. It is not a flag because
// every user of the machine can read a command line.
type clientFlags struct {
	Data string `placeholder:"DIR" type:"folder" help:"Data folder of a gateway on this machine (default: ${data})."`
	URL  string `placeholder:"URL" help:"URL of the gateway; needs SALLYPORT_API_KEY, or SALLYPORT_TOKEN for commands of agents."`
	JSON bool   `help:"Print the JSON of the API."`

	fields map[string]string // flags and arguments by API field, for error messages
}

// AfterApply gives an explicit --data precedence over a URL from the
// environment. A URL from the environment takes precedence over a data folder
// from the environment, because an agent's shell has both.
func (r *clientFlags) AfterApply(ctx *kong.Context) error {
	isSet := func(name string) bool {
		return slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name })
	}
	switch data := isSet("data"); {
	case data && isSet("url"):
		return errors.New("pass either --data or --url: both name a server")
	case data:
		r.URL = ""
	}
	r.fields = flagsByField(ctx.Selected())
	return nil
}

// hint returns a command that the user can paste; it addresses the same server.
func (r *clientFlags) hint(args ...string) string {
	line := "sallyport"
	for _, w := range args {
		line += " " + shell.Quote(w)
	}
	switch {
	case r.URL != "":
		line += " --url " + shell.Quote(r.URL)
	case r.Data != "":
		line += " --data " + shell.Quote(r.Data)
	}
	return line
}

// Client calls the HTTP API of a server and phrases its errors for the command
// line.
type Client struct {
	apiclient.Client

	startHint string            // how to start the server, if known
	fields    map[string]string // flags and arguments by API field
}

// connect finds the server by URL and key, or through the data folder, where a
// server on this machine publishes both.
func (r *clientFlags) connect() (*Client, error) {
	address, key := r.URL, os.Getenv("SALLYPORT_API_KEY")
	if address == "" {
		e, err := command.ReadEndpoint(r.dataFolder())
		if err != nil {
			return nil, err
		}
		address = e.URL
		if key == "" {
			key = e.APIKey
		}
	} else if gatewayURL(address) != strings.TrimRight(address, "/") { // a user may have passed the URL of a connector
		return nil, pathInURLError(address)
	}
	server, err := NewClient(address, key)
	if err == nil {
		server.fields = r.fields
	}
	if err == nil && r.URL == "" {
		server.startHint = "start it with: " + r.hint("serve")
	}
	if err == nil && key == "" { // an agent may not act as the owner
		if os.Getenv(agent.TokenVariable) != "" {
			return nil, fmt.Errorf("no API key for %s: only a person can do this, not the session of %s; tell the user what is pending", address, agent.TokenVariable)
		}
		return nil, fmt.Errorf("no API key for %s: set SALLYPORT_API_KEY to a key from `sallyport api-key create NAME` on its machine, or unset SALLYPORT_URL to reach the server of the data folder", address)
	}
	return server, err
}

// dataFolder returns the data folder of a server on this machine.
func (r *clientFlags) dataFolder() string { return cmp.Or(r.Data, command.DataFolder()) }

// NewClient returns a client of the gateway at a URL. The URL may be the MCP
// endpoint of the gateway; a URL with any other path is an error, so that no
// key is sent to another server.
func NewClient(address, key string) (*Client, error) {
	// Users often paste the MCP endpoint, which their client configuration has.
	base, err := url.Parse(strings.TrimSuffix(gatewayURL(address), "/"))
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a server; pass a URL such as http://127.0.0.1:8787", address)
	}
	if base.Path != "" {
		return nil, pathInURLError(address)
	}
	return &Client{Client: apiclient.Client{Base: base, Key: key, HTTP: &http.Client{
		Timeout: 2 * time.Minute,
		// The API never redirects, and the request body may contain a secret.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}, nil
}

// pathInURLError reports a URL with a path, which addresses a connector or
// another server. No key is sent there.
func pathInURLError(address string) error {
	return command.UsageErrorf("--url (SALLYPORT_URL) is the URL of the gateway without a path, such as http://127.0.0.1:8787; %s has a path", command.Printable(address))
}

// checkGateway checks that the URL addresses a gateway, without sending the
// key.
func (c *Client) checkGateway(ctx context.Context) error {
	_, _, err := Fetch(ctx, &Client{Client: apiclient.Client{Base: c.Base, HTTP: c.HTTP}}, api.GetMe, api.None{})
	if p := new(problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized && p.Code != "" {
		return nil
	}
	if none := new(UnreachableError); errors.As(err, none) {
		return err
	}
	return fmt.Errorf("%s is not a Sallyport gateway, so the API key was not sent; --url is the URL of the gateway, --endpoint that of the connector", c.Base)
}

// problem is an API error phrased for the command line.
type problem struct{ api.Problem }

func (p *problem) Error() string {
	text := command.Printable(p.Detail)
	if p.Field != "" && !strings.Contains(p.Detail, strings.TrimPrefix(p.Field, "/")) {
		text += " (" + command.Printable(p.Field) + ")"
	}
	return text
}

// do sends a request and returns an error for every response that is not a
// success. The caller closes the body.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	response, err := c.Send(request)
	return response, c.describe(err)
}

// UnreachableError reports a refused connection: no request was sent.
type UnreachableError struct{ error }

// describe adds to an error what the user can do about it.
func (c *Client) describe(err error) error {
	var refused *apiclient.Error
	switch {
	case errors.As(err, &refused):
		return c.apiError(refused)
	case errors.Is(err, context.Canceled):
		return errStopped()
	case errors.Is(err, syscall.ECONNREFUSED):
		return UnreachableError{fmt.Errorf("no server is running at %s; %s", c.Base, cmp.Or(c.startHint, "start it, or check the URL"))}
	case errors.As(err, new(*url.Error)):
		return fmt.Errorf("the server does not answer; check that it is running: %w", err)
	}
	return err
}

// apiError converts an error response of the API.
func (c *Client) apiError(apiErr *apiclient.Error) error {
	p, path := &problem{apiErr.Problem}, apiErr.Request.URL.Path
	p.useFlagNames(c.fields, path)
	if p.Code == "role_required" {
		p.Detail += " If this is your own server, start it with --local-admin, or set SALLYPORT_API_KEY to an admin's API key."
	}
	if p.Code == "session_ended" && (strings.HasSuffix(path, "/stop") || strings.HasSuffix(path, "/fail")) {
		p.Detail = strings.Replace(p.Detail, ", which is final. Create a new session.", " already.", 1)
	}
	if id := strings.Split(path, "/"); p.Code == "invocation_not_found" && len(id) > 4 && len(id[4]) < 36 {
		p.Detail += " Pass the full ID."
	}
	if !strings.Contains(path, "/actions/") { // keep the pointer into params
		p.Field = strings.TrimPrefix(strings.TrimRight(p.Field, "/0123456789"), "/")
	}
	return p
}

func decode(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the server's response cannot be parsed; check that server and command have the same version: %w", err)
	}
	return nil
}

// useFlagNames replaces the API's field names and routes by flags and commands.
// fields are those of the command that ran; see [flagsByField].
func (p *problem) useFlagNames(fields map[string]string, path string) {
	p.Detail = regexp.MustCompile(`\b(GET|POST|PUT) /api/v1/[\w/-]+`).ReplaceAllStringFunc(p.Detail, commandForRoute)
	if strings.Contains(path, "/actions/") { // params are not fields of the API
		p.Field = strings.TrimPrefix(p.Field, "/params")
		return
	}
	p.Detail = regexp.MustCompile(fieldPattern).ReplaceAllStringFunc(p.Detail, func(field string) string {
		return flagFor(fields, field, ".")
	})
	if fields["kind"] == "--oauth" { // the flag has short values
		p.Detail = strings.NewReplacer("--oauth client_credentials", "--oauth client", "--oauth authorization_code", "--oauth code").Replace(p.Detail)
	}
	pointer := strings.TrimPrefix(p.Field, "/")
	flag := flagFor(fields, pointer, "/")
	if strings.HasPrefix(pointer, "tools") {
		p.Field = "" // the message names the tool
	}
	if flag == pointer {
		return
	}
	if p.Field = flag; flag == strings.ToUpper(flag) {
		p.Field = "" // the message names the argument
	}
	if strings.HasSuffix(pointer, "seconds") { // the flag is a duration
		p.Detail = regexp.MustCompile(`must be at (least|most) (\d+)`).ReplaceAllString(p.Detail, "must be at $1 ${2}s")
	}
}

// fieldPattern matches a field name in a message: at its beginning, in
// backticks, or anywhere if it cannot be an English word.
const fieldPattern = "^[\\w.]+(?:\\[\\d+\\])?|`\\w+`|\\boauth\\.\\w+|\\w+_\\w+(?:\\[\\d+\\])?"

// flagFor returns the flag of a field, with the key or index within it. A field
// without a flag is returned unchanged. The fields of OAuth and of a grant have
// flags of their own.
func flagFor(flags map[string]string, field, separator string) string {
	path := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(field, "`"), "oauth"+separator), "grant"+separator)
	name, key, _ := strings.Cut(path, separator)
	name, _, _ = strings.Cut(name, "[")
	flag, ok := flags[name]
	switch {
	case !ok:
		return field
	case strings.Trim(key, "0123456789") == "": // no subfield, or an index
		return flag
	}
	return flag + " " + strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
}

// flagsByField maps the API fields that a command sets to its flags and
// arguments. The names are equal unless a tag such as field:"timeout_seconds"
// says otherwise.
func flagsByField(command *kong.Node) map[string]string {
	fields := map[string]string{}
	add := func(v *kong.Value, written string) {
		declared, _, _ := strings.Cut(v.Tag.Get("json"), ",") // flags declared by a type of package api
		names := strings.Split(cmp.Or(v.Tag.Get("field"), declared, v.Tag.Get("query"), v.Tag.Get("path")), ",")
		if names[0] == "" {
			names = []string{strings.ReplaceAll(strings.TrimSuffix(v.Name, "-stdin"), "-", "_")}
		}
		for _, name := range names {
			fields[name] = written
		}
	}
	if command == nil {
		return nil
	}
	for _, arg := range command.Positional {
		add(arg, strings.ToUpper(arg.Name))
	}
	for _, flag := range command.Flags {
		if flag.Name != "url" && flag.Name != "data" { // these are not fields of the API
			add(flag.Value, "--"+flag.Name)
		}
	}
	return fields
}

// routedCommand is a command that replaces its route in error messages.
type routedCommand interface{ route() api.Operation }

// commandForRoute returns the command for a route of the API such as GET
// /api/v1/grants, or the route itself if it has none.
func commandForRoute(route string) string {
	app, err := kong.New(New(), kong.Name("sallyport"), Vars(), FlagTypes())
	if err != nil {
		return route
	}
	for _, node := range app.Model.Leaves(false) {
		command, ok := node.Target.Addr().Interface().(routedCommand)
		if !ok {
			continue
		}
		op := command.route()
		pattern := regexp.MustCompile(`\{\w+\}`).ReplaceAllLiteralString(op.Method+" "+op.Path, `([\w-]+)`)
		if values := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(route); values != nil {
			return commandLine(node, values[1:])
		}
	}
	return route
}

// commandLine returns a command as the user types it, with the known argument
// values.
func commandLine(node *kong.Node, values []string) string {
	var words []string
	for n := node; n != nil; n = n.Parent {
		words = append([]string{n.Name}, words...)
	}
	for i, arg := range node.Positional {
		switch {
		case i < len(values):
			words = append(words, values[i])
		case arg.Required:
			words = append(words, strings.ToUpper(arg.Name))
		}
	}
	return strings.Join(words, " ")
}

// withoutPeriod returns a sentence without its final period, so that the caller
// can continue it.
func withoutPeriod(text string) string { return strings.TrimSuffix(command.Printable(text), ".") }

// perform calls an operation and prints the response: as JSON with --json,
// otherwise with show.
func perform[In, Out any](ctx context.Context, r *clientFlags, std *command.Streams, route api.Route[In, Out], in In, show func(io.Writer, *Out)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	out, raw, err := Fetch(ctx, server, route, in)
	if err != nil {
		return err
	}
	return r.print(std, raw, func(w io.Writer) { show(w, out) })
}

// Fetch calls an operation and returns its response, decoded and raw. On error
// the response is empty but not nil, so that a caller can ignore the error.
func Fetch[In, Out any](ctx context.Context, server *Client, route api.Route[In, Out], in In) (*Out, json.RawMessage, error) {
	_, out, raw, err := fetchStatus(ctx, server, route, in)
	return out, raw, err
}

// fetchStatus is [Fetch] with the HTTP status of the response.
func fetchStatus[In, Out any](ctx context.Context, server *Client, route api.Route[In, Out], in In) (status int, out *Out, raw json.RawMessage, err error) {
	answer, err := apiclient.Do(ctx, &server.Client, route, in)
	if answer == nil {
		return 0, new(Out), nil, server.describe(err)
	}
	return answer.Status, &answer.Body, answer.Raw, err
}

// print prints raw with --json, and otherwise calls show.
func (r *clientFlags) print(s *command.Streams, raw json.RawMessage, show func(w io.Writer)) error {
	if r.JSON {
		return s.PrintJSON(raw)
	}
	show(s.Out)
	return nil
}

// loadLabels connects and calls [Client.loadLabels].
func (r *clientFlags) loadLabels(ctx context.Context, lists ...api.Operation) labels {
	server, err := r.connect()
	if err != nil {
		return nil
	}
	return server.loadLabels(ctx, lists...)
}

func (r *clientFlags) showGrantHint(w io.Writer) {
	printLine(w, fmt.Sprintf("grant with: %s (narrow it with --max-calls, --expires, --pin), or: %s",
		r.hint("grant", "approve", "ID"), r.hint("grant", "deny", "ID", "--reason", "TEXT")))
}

// noSignInError explains why a connector has no sign-in, and what to do.
func (r *clientFlags) noSignInError(c *api.ConnectorView, predicate string) error {
	reason := "it does not use OAuth; change that first: " + r.hint("connector", "update", c.Name, "--oauth", "code")
	if hasOAuth(c, action.OAuthClient) {
		reason = "the gateway signs in itself; if the service rejects it, set its secret again: " + r.hint("secret", "set", connectorSecret(c), "--host", "HOST")
	}
	return fmt.Errorf("%s connector %s: %s", predicate, command.Printable(c.Name), command.Printable(reason))
}

// showSteps prints the next steps with a new or moved connector.
func (r *clientFlags) showSteps(w io.Writer, c *api.ConnectorView) {
	if hasOAuth(c, action.OAuthCode) {
		printLine(w, "sign in to its service: "+r.hint("connector", "sign-in", c.Name))
	}
	printLine(w, "test the connection: "+r.hint("connector", "validate", c.Name))
	printLine(w, "set the modes of its tools: "+r.hint("connector", "onboard", c.Name))
}

func (r *clientFlags) showEnvHint(w io.Writer) {
	printLine(w, envAnswerWarning)
	printLine(w, fmt.Sprintf("answer with: %s (the value on standard input), or: %s. Refuse with: %s",
		r.hint("env", "answer", "ID", "NAME"), r.hint("env", "answer", "ID", "--values", "FILE"), r.hint("env", "refuse", "ID", "--reason", "TEXT")))
}

// Ready checks the readiness probe of the server.
func (c *Client) Ready(ctx context.Context) error {
	request, err := c.NewRequest(ctx, &api.Operation{Method: http.MethodGet, Path: "/readyz"}, api.None{})
	if err != nil {
		return err
	}
	response, err := c.do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
