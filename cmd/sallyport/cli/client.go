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
)

// clientFlags are the flags that every client command has. The API key comes from
// the environment (SALLYPORT_API_KEY) or the data folder, and is no flag,
// because a command line can be read by every user of the machine.
type clientFlags struct {
	Data string `placeholder:"DIR" type:"folder" help:"Data folder of a gateway on this machine (default: ${data})."`
	URL  string `placeholder:"URL" help:"URL of the gateway; needs SALLYPORT_API_KEY, or SALLYPORT_TOKEN for commands of agents."`
	JSON bool   `help:"Print the JSON of the API."`

	fields map[string]string // of the API, as the command's flags; for errors
}

// AfterApply has a --data that was written go before a URL of the environment. That one
// goes before a folder of the environment: an agent's shell has both.
func (r *clientFlags) AfterApply(ctx *kong.Context) error {
	isSet := func(name string) bool {
		return slices.ContainsFunc(ctx.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == name })
	}
	switch data := isSet("data"); {
	case data && isSet("url"):
		return errors.New("--data and --url each name a server: leave out --url for the one of the data folder, or --data for the one at the URL")
	case data:
		r.URL = ""
	}
	r.fields = flagsByField(ctx.Selected())
	return nil
}

// hint is a command to paste that finds the same server again.
func (r *clientFlags) hint(args ...string) string {
	line := "sallyport"
	for _, w := range args {
		line += " " + command.ShellQuote(w)
	}
	switch {
	case r.URL != "":
		line += " --url " + command.ShellQuote(r.URL)
	case r.Data != "":
		line += " --data " + command.ShellQuote(r.Data)
	}
	return line
}

// Client calls the HTTP API of a server and words its errors for the command line.
type Client struct {
	apiclient.Client

	startHint string            // what to do where nobody answers, if that is known
	fields    map[string]string // what refusals call the fields of the API
}

// connect finds the server: by URL and key, or by the data folder in which a
// server on this machine tells both.
func (r *clientFlags) connect() (*Client, error) {
	at, key := r.URL, os.Getenv("SALLYPORT_API_KEY")
	if at == "" {
		e, err := command.ReadEndpoint(r.dataFolder())
		if err != nil {
			return nil, err
		}
		at = e.URL
		if key == "" {
			key = e.APIKey
		}
	} else if gatewayURL(at) != strings.TrimRight(at, "/") { // of an agent; a person may mean another's
		return nil, pathInURLError(at)
	}
	server, err := NewClient(at, key)
	if err == nil {
		server.fields = r.fields
	}
	if err == nil && r.URL == "" {
		server.startHint = "start it with: " + r.hint("serve")
	}
	if err == nil && key == "" { // an agent's variables are no reason to act as a person
		if os.Getenv(agent.TokenVariable) != "" {
			return nil, fmt.Errorf("no API key for %s: people do this, and the session of %s may not; tell the user what waits", at, agent.TokenVariable)
		}
		return nil, fmt.Errorf("no API key for %s: set SALLYPORT_API_KEY to a key from `sallyport api-key create NAME` on its machine, or unset SALLYPORT_URL to reach the server of the data folder", at)
	}
	return server, err
}

// dataFolder is the data folder of a server on this machine.
func (r *clientFlags) dataFolder() string { return cmp.Or(r.Data, command.DataFolder()) }

// NewClient returns a client of the gateway at a URL, which may also be that of its
// MCP endpoint. A URL with another path is refused before a key is sent to it.
func NewClient(at, key string) (*Client, error) {
	// The URL of MCP clients is the one that people have at hand.
	base, err := url.Parse(strings.TrimSuffix(gatewayURL(at), "/"))
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("%q is no URL of a server; want something like http://127.0.0.1:8787", at)
	}
	if base.Path != "" {
		return nil, pathInURLError(at)
	}
	return &Client{Client: apiclient.Client{Base: base, Key: key, HTTP: &http.Client{
		Timeout: 2 * time.Minute,
		// The API never redirects, and what is sent may be a secret.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}}, nil
}

// pathInURLError refuses a URL with a path before a key is sent there: it is
// another's, or a connector's.
func pathInURLError(at string) error {
	return command.UsageErrorf("--url (SALLYPORT_URL) is the gateway's address without a path, such as http://127.0.0.1:8787; %s has one", command.Printable(at))
}

// checkGateway asks without the key whether a gateway is at the URL.
func (c *Client) checkGateway(ctx context.Context) error {
	_, _, err := Fetch(ctx, &Client{Client: apiclient.Client{Base: c.Base, HTTP: c.HTTP}}, api.GetMe, api.None{})
	if p := new(problem); errors.As(err, &p) && p.Status == http.StatusUnauthorized && p.Code != "" {
		return nil
	}
	if none := new(UnreachableError); errors.As(err, none) {
		return err
	}
	return fmt.Errorf("%s does not answer as a gateway does, so it is not sent the key; --url is the gateway's address, the connector's is --endpoint", c.Base)
}

// problem is a refusal in the words of the command line.
type problem struct{ api.Problem }

func (p *problem) Error() string {
	text := command.Printable(p.Detail)
	if p.Field != "" && !strings.Contains(p.Detail, strings.TrimPrefix(p.Field, "/")) {
		text += " (" + command.Printable(p.Field) + ")"
	}
	return text
}

// do sends a request and returns an answer that is no refusal. Its body is
// the caller's to close.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	response, err := c.Send(request)
	return response, c.describe(err)
}

// UnreachableError reports that nothing listens at the URL: no request was sent.
type UnreachableError struct{ error }

// describe has an error say what a person can do about it.
func (c *Client) describe(err error) error {
	var refused *apiclient.Error
	switch {
	case errors.As(err, &refused):
		return c.apiError(refused)
	case errors.Is(err, syscall.ECONNREFUSED):
		return UnreachableError{fmt.Errorf("no server runs at %s any more; %s", c.Base, cmp.Or(c.startHint, "start it, or see that the URL is right"))}
	case errors.As(err, new(*url.Error)):
		return fmt.Errorf("the server does not answer; is it running? %w", err)
	}
	return err
}

// apiError is one in the words of the command line.
func (c *Client) apiError(apiErr *apiclient.Error) error {
	p, path := &problem{apiErr.Problem}, apiErr.Request.URL.Path
	p.useFlagNames(c.fields, path)
	if p.Code == "role_required" {
		p.Detail += " With a server of your own, start it with --local-admin or use an admin's API key in SALLYPORT_API_KEY."
	}
	if p.Code == "session_ended" && (strings.HasSuffix(path, "/stop") || strings.HasSuffix(path, "/fail")) {
		p.Detail = strings.Replace(p.Detail, ", and does not live again; mint a new one.", " already.", 1)
	}
	if id := strings.Split(path, "/"); p.Code == "invocation_not_found" && len(id) > 4 && len(id[4]) < 36 {
		p.Detail += " The whole id is needed."
	}
	if !strings.Contains(path, "/actions/") { // a place in params says which
		p.Field = strings.TrimPrefix(strings.TrimRight(p.Field, "/0123456789"), "/")
	}
	return p
}

func decode(raw json.RawMessage, out any) error {
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the server's answer is not understood; are server and command of one version? %w", err)
	}
	return nil
}

// useFlagNames has a refusal say flags and commands where the API says its fields
// and routes. fields are those of the command that ran; see fieldsOf.
func (p *problem) useFlagNames(fields map[string]string, path string) {
	p.Detail = regexp.MustCompile(`\b(GET|POST|PUT) /api/v1/[\w/-]+`).ReplaceAllStringFunc(p.Detail, commandForRoute)
	if strings.Contains(path, "/actions/") { // params have names of their own
		p.Field = strings.TrimPrefix(p.Field, "/params")
		return
	}
	p.Detail = regexp.MustCompile(fieldPattern).ReplaceAllStringFunc(p.Detail, func(field string) string {
		return flagFor(fields, field, ".")
	})
	if fields["kind"] == "--oauth" { // its values have shorter words, too
		p.Detail = strings.NewReplacer("--oauth client_credentials", "--oauth client", "--oauth authorization_code", "--oauth code").Replace(p.Detail)
	}
	pointer := strings.TrimPrefix(p.Field, "/")
	flag := flagFor(fields, pointer, "/")
	if strings.HasPrefix(pointer, "tools") {
		p.Field = "" // the sentence names the tool
	}
	if flag == pointer {
		return
	}
	if p.Field = flag; flag == strings.ToUpper(flag) {
		p.Field = "" // an argument, which the sentence names
	}
	if strings.HasSuffix(pointer, "seconds") { // the flag is a duration
		p.Detail = regexp.MustCompile(`must be at (least|most) (\d+)`).ReplaceAllString(p.Detail, "must be at $1 ${2}s")
	}
}

// fieldPattern is how a sentence names a field: at its beginning, in backticks, or
// anywhere where it cannot be an English word.
const fieldPattern = "^[\\w.]+(?:\\[\\d+\\])?|`\\w+`|\\boauth\\.\\w+|\\w+_\\w+(?:\\[\\d+\\])?"

// flagFor is the flag of a field, with the key or place within it; a field
// without a flag stays. The fields of OAuth and of a grant have
// flags of their own.
func flagFor(flags map[string]string, field, separator string) string {
	inner := strings.TrimPrefix(strings.TrimPrefix(strings.Trim(field, "`"), "oauth"+separator), "grant"+separator)
	name, of, _ := strings.Cut(inner, separator)
	name, _, _ = strings.Cut(name, "[")
	flag, ok := flags[name]
	switch {
	case !ok:
		return field
	case strings.Trim(of, "0123456789") == "": // nothing, or a place in a list
		return flag
	}
	return flag + " " + strings.NewReplacer("~1", "/", "~0", "~").Replace(of)
}

// flagsByField are the fields of the API that a command sets, and the flags and
// arguments that set them. They have the same name unless a tag says another:
// field:"timeout_seconds".
func flagsByField(command *kong.Node) map[string]string {
	fields := map[string]string{}
	add := func(v *kong.Value, written string) {
		declared, _, _ := strings.Cut(v.Tag.Get("json"), ",") // where the API's own type holds the flags
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
		if flag.Name != "url" && flag.Name != "data" { // say where the server is
			add(flag.Value, "--"+flag.Name)
		}
	}
	return fields
}

// routedCommand is a command that refusals name where the API names a route.
type routedCommand interface{ route() api.Operation }

// commandForRoute is the command that does what a route of the API does, such as GET
// /api/v1/grants; a route without a command stays.
func commandForRoute(route string) string {
	app, err := kong.New(new(Commands), kong.Name("sallyport"), Vars(), FlagTypes())
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

// commandLine is a command as it is typed, with the values of its arguments as
// far as they are known.
func commandLine(node *kong.Node, values []string) string {
	var words []string
	for at := node; at != nil; at = at.Parent {
		words = append([]string{at.Name}, words...)
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

// withoutPeriod is a sentence that another one goes on from.
func withoutPeriod(text string) string { return strings.TrimSuffix(command.Printable(text), ".") }

// perform calls an operation of the server and prints its answer: as JSON with
// --json, and otherwise as human writes it.
func perform[In, Out any](ctx context.Context, r *clientFlags, std *command.Streams, route api.Route[In, Out], in In, human func(io.Writer, *Out)) error {
	server, err := r.connect()
	if err != nil {
		return err
	}
	out, raw, err := Fetch(ctx, server, route, in)
	if err != nil {
		return err
	}
	return r.print(std, raw, func(w io.Writer) { human(w, out) })
}

// Fetch calls an operation and returns its response, decoded and raw. With
// an error the answer is empty, for callers that can do without it.
func Fetch[In, Out any](ctx context.Context, server *Client, route api.Route[In, Out], in In) (*Out, json.RawMessage, error) {
	_, out, raw, err := fetchStatus(ctx, server, route, in)
	return out, raw, err
}

// fetchStatus is fetch with the status of the answer.
func fetchStatus[In, Out any](ctx context.Context, server *Client, route api.Route[In, Out], in In) (status int, out *Out, raw json.RawMessage, err error) {
	answer, err := apiclient.Do(ctx, &server.Client, route, in)
	if answer == nil {
		return 0, new(Out), nil, server.describe(err)
	}
	return answer.Status, &answer.Body, answer.Raw, err
}

// print prints raw with --json, and otherwise what human writes.
func (r *clientFlags) print(s *command.Streams, raw json.RawMessage, human func(w io.Writer)) error {
	if r.JSON {
		return s.PrintJSON(raw)
	}
	human(s.Out)
	return nil
}

// loadLabels is that of a client, for commands that have none at hand.
func (r *clientFlags) loadLabels(ctx context.Context, lists ...api.Operation) labels {
	server, err := r.connect()
	if err != nil {
		return nil
	}
	return server.loadLabels(ctx, lists...)
}

// loadRunLabels are the names of who works on runs and of what starts them.
func (r *clientFlags) loadRunLabels(ctx context.Context) labels {
	return r.loadLabels(ctx, actorLists(api.ListTriggers.Operation, api.ListSchedules.Operation)...)
}

func (r *clientFlags) showGrantHint(w io.Writer) {
	printLine(w, fmt.Sprintf("grant with: %s (narrow it with --max-calls, --expires, --pin), or: %s",
		r.hint("grant", "approve", "ID"), r.hint("grant", "deny", "ID", "--reason", "TEXT")))
}

// noSignInError says of a connector without a person's sign-in why, and what to do.
func (r *clientFlags) noSignInError(c *api.ConnectorView, does string) error {
	why := "it has no OAuth; change that first with: " + r.hint("connector", "update", c.Name, "--oauth", "code")
	if hasOAuth(c, action.OAuthClient) {
		why = "the gateway does so by itself; when the service refuses it, set its secret again with: " + r.hint("secret", "set", connectorSecret(c), "--host", "HOST")
	}
	return fmt.Errorf("nobody %s to connector %s: %s", does, command.Printable(c.Name), command.Printable(why))
}

// setupSteps says what to do with a connector that nobody asked yet.
func (r *clientFlags) setupSteps(done string) func(io.Writer, *api.ConnectorView) {
	return func(w io.Writer, c *api.ConnectorView) {
		connectorMessage(done)(w, c)
		if hasOAuth(c, action.OAuthCode) {
			printLine(w, "sign in to its service: "+r.hint("connector", "sign-in", c.Name))
		}
		printLine(w, "test the connection: "+r.hint("connector", "validate", c.Name))
		printLine(w, "set the modes of its tools: "+r.hint("connector", "onboard", c.Name))
	}
}

func (r *clientFlags) showEnvHint(w io.Writer) {
	printLine(w, envAnswerWarning)
	printLine(w, fmt.Sprintf("answer with: %s (the value on standard input) or: %s, or: %s",
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
