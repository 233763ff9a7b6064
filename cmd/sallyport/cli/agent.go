package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
	"sallyport/api"
	apiclient "sallyport/client"
	"sallyport/cmd/sallyport/command"
	"sallyport/internal/agent"
	"sallyport/sources/platform"
)

// agentFlags are the flags of commands that a session's agent runs in its
// sandbox. The token comes only from the environment.
type agentFlags struct {
	clientFlags
	RetryEvery time.Duration `default:"1s" hidden:"" help:"Pause between attempts while the gateway does not answer."`
}

// maxRetries is how often a request without a response is retried.
const maxRetries = 10

// agentClient calls a server as one session.
type agentClient struct {
	*Client
	session  string
	pause    time.Duration
	deadline time.Time // after it nothing is retried; zero: no limit
	log      io.Writer // receives progress messages
}

// connect finds the server and the session of the token.
func (c *agentFlags) connect(ctx context.Context, std *command.Streams) (*agentClient, error) {
	a, _, err := c.identify(ctx, std, time.Time{})
	return a, err
}

// identify is [agentFlags.connect] with what the server says of the session. It
// retries until the deadline.
func (c *agentFlags) identify(ctx context.Context, std *command.Streams, deadline time.Time) (*agentClient, *api.Me, error) {
	token := os.Getenv(agent.TokenVariable)
	if token == "" {
		return nil, nil, fmt.Errorf("no session token: set %s to the token that sallyport session create printed", agent.TokenVariable)
	}
	address := c.URL
	if address == "" {
		e, err := command.ReadEndpoint(c.dataFolder())
		if err != nil {
			return nil, nil, errors.New("the URL of the gateway is not set: set SALLYPORT_URL, such as to https://gateway.example.com, or pass --data DIR if the gateway runs on this machine")
		}
		address = e.URL
	}
	server, err := NewClient(address, token)
	if err != nil {
		return nil, nil, err
	}
	a := &agentClient{Client: server, pause: c.RetryEvery, deadline: deadline, log: std.Err}
	_, me, _, err := fetchAs(ctx, a, api.GetMe, api.None{})
	if err != nil {
		return nil, nil, err
	}
	if me.Session == "" {
		return nil, nil, fmt.Errorf("%s is not a session token; set it to the token that sallyport session create printed", agent.TokenVariable)
	}
	a.session = me.Session
	return a, me, nil
}

// sessionParam returns the path parameter of routes under the session.
func (a *agentClient) sessionParam() api.InSession { return api.InSession{Session: a.session} }

// fetchAs calls an operation with [agentClient.exchange] and returns the status
// and the response, decoded and raw.
func fetchAs[In, Out any](ctx context.Context, a *agentClient, route api.Route[In, Out], in In) (status int, out *Out, raw json.RawMessage, err error) {
	out = new(Out)
	if status, raw, err = a.exchange(ctx, &route.Operation, in); err == nil {
		err = decode(raw, out)
	}
	return status, out, raw, err
}

// performAs calls an operation with [fetchAs] and prints the response: as JSON
// with --json, otherwise with show.
func performAs[In, Out any](ctx context.Context, c *agentFlags, std *command.Streams, a *agentClient, route api.Route[In, Out], in In, show func(io.Writer, *Out)) error {
	_, out, raw, err := fetchAs(ctx, a, route, in)
	if err != nil {
		return err
	}
	return c.print(std, raw, func(w io.Writer) { show(w, out) })
}

// exchange calls an operation and returns the status and body of the response.
// A request without a response is retried unchanged, so in must be idempotent:
// calls carry an idempotency key.
func (a *agentClient) exchange(ctx context.Context, op *api.Operation, in any) (int, json.RawMessage, error) {
	for try := 1; ; try++ {
		request, err := a.NewRequest(ctx, op, in)
		if err != nil {
			return 0, nil, err
		}
		status, raw, err := a.send(ctx, request)
		if !errors.As(err, new(noResponseError)) || a.giveUp(ctx, try) {
			return status, raw, err
		}
		if err := a.backOff(ctx, err, try, a.pause); err != nil {
			return 0, nil, err
		}
	}
}

// giveUp reports whether a request that got no response is not retried.
func (a *agentClient) giveUp(ctx context.Context, try int) bool {
	return ctx.Err() != nil || try > maxRetries || !a.deadline.IsZero() && time.Until(a.deadline) < a.pause
}

// backOff logs the reason for a retry and waits.
func (a *agentClient) backOff(ctx context.Context, err error, try int, pause time.Duration) error {
	printLine(a.log, fmt.Sprintf("%v; retrying (%d of %d)", err, try, maxRetries))
	select {
	case <-ctx.Done():
		return errStopped()
	case <-time.After(pause):
		return nil
	}
}

// errStopped is the error of a command that a signal ended.
func errStopped() error { return errors.New("stopped before the gateway answered") }

// noResponseError reports a request that may or may not have arrived, or that
// reached no gateway. It can be retried.
type noResponseError struct{ error }

// Unwrap returns the cause.
func (e noResponseError) Unwrap() error { return e.error }

// send sends a request once.
func (a *agentClient) send(ctx context.Context, request *http.Request) (int, json.RawMessage, error) {
	response, err := a.Send(request)
	if err != nil {
		return 0, nil, a.sendError(ctx, err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, apiclient.MaxAnswer))
	if err != nil {
		return 0, nil, noResponseError{fmt.Errorf("the response of the gateway was truncated (%w)", err)}
	}
	return response.StatusCode, raw, nil
}

// sendError classifies the error of a request. The gateway is unreachable only
// if the gateway itself or a proxy says so; an error of an upstream service is
// a response.
func (a *agentClient) sendError(ctx context.Context, err error) error {
	var refused *apiclient.Error
	var unexpected *apiclient.UnexpectedError
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return errStopped()
	case errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable:
		return noResponseError{a.apiError(refused)}
	case errors.As(err, &refused):
		return a.apiError(refused)
	case errors.As(err, &unexpected) && slices.Contains([]int{http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout}, unexpected.Response.StatusCode):
		return noResponseError{err}
	case ctx.Err() == nil && connectionFailed(err):
		return noResponseError{fmt.Errorf("the gateway at %s does not answer (%w)", a.Base, withoutURL(err))}
	}
	return err
}

// connectionFailed reports whether the connection broke before a response.
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

// withoutURL unwraps the error of a request, whose URL the message already has.
func withoutURL(err error) error {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		return urlErr.Err
	}
	return err
}

type verifyCommand struct {
	agentFlags
	waitFlags
	Folder string `arg:"" optional:"" default:".sallyport/verification/" help:"Folder with the files; symbolic links are skipped (default: .sallyport/verification/)."`
	Upload string `env:"-" placeholder:"ID" help:"ID of an interrupted upload to continue (default: a new upload)."`
}

// Run uploads every file and then calls the tool that seals the upload.
func (c *verifyCommand) Run(ctx context.Context, std *command.Streams) error {
	if c.Upload != "" && !action.ValidUploadID(c.Upload) {
		return command.UsageErrorf("--upload takes the ID that verify printed when it was interrupted, a UUID in lower case; leave it out for a new upload")
	}
	root, err := os.OpenRoot(c.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no folder %s; create it with files that show your work, such as screenshots and test reports", c.Folder)
	}
	if info, statErr := os.Stat(c.Folder); statErr == nil && !info.IsDir() {
		return command.UsageErrorf("%s is a file; put the files that show your work in a folder and pass the folder", command.Printable(c.Folder))
	}
	if err != nil {
		return err
	}
	defer root.Close()
	list, err := listEvidence(root, std)
	if err != nil {
		return err
	}
	w, err := c.waiter(ctx, std, &c.agentFlags)
	if err != nil {
		return err
	}
	w.deadline = time.Time{} // that of the call; an upload takes what it takes
	if c.Upload == "" {
		c.Upload = uuid.NewString()
	}
	for i := range list {
		if err := w.uploadFile(ctx, root, c.Upload, &list[i]); err != nil {
			return fmt.Errorf("%s: %w%s", command.Printable(list[i].Name), err, c.resumeHint(err))
		}
	}
	w.deadline = time.Now().Add(c.Wait)
	params, err := json.Marshal(map[string]string{"folder": filepath.ToSlash(c.Folder), "upload": c.Upload})
	if err != nil {
		return err
	}
	return w.call(ctx, api.NewCall{
		Source: action.Platform, Action: platform.VerifyTool, Params: params,
		IdempotencyKey: fmt.Sprintf("verify-%s-%.4x", c.Upload, sha256.Sum256([]byte(c.Folder))),
	})
}

// resumeHint says how to continue after a failed upload: with the same upload
// if it still accepts files, with a new one if it does not. It is empty if the
// file itself is not acceptable.
func (c *verifyCommand) resumeHint(err error) string {
	p := new(problem)
	switch {
	case !errors.As(err, &p), p.Status >= http.StatusInternalServerError, p.Status == http.StatusTooManyRequests, p.Code == "body_broken":
		return " (resume with: --upload " + c.Upload + ")"
	case p.Status == http.StatusConflict:
		return " (run verify again without --upload to start a new upload)"
	}
	return ""
}

// maxListedErrors is how many invalid files the error lists.
const maxListedErrors = 10

// listEvidence lists the regular files of a folder. Files that the gateway
// would reject are an error before anything is sent.
func listEvidence(root *os.Root, std *command.Streams) (list []action.UploadFile, err error) {
	var bytes int64
	var invalid []string
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			fmt.Fprintf(std.Err, "skipped %s: not a regular file\n", command.Printable(name))
			return nil
		}
		if err := action.CheckUploadName(name); err != nil {
			invalid = append(invalid, command.Printable(name)+": "+action.Public(err).Message)
			return nil
		}
		f, err := hashFile(root, name)
		if err != nil {
			return err
		}
		if err := f.Check(); err != nil {
			invalid = append(invalid, command.Printable(name)+": "+action.Public(err).Message)
			return nil
		}
		list, bytes = append(list, f), bytes+f.Size
		if len(list) > action.MaxUploadFiles || bytes > action.MaxUploadBytes {
			return fmt.Errorf("the folder has more than %d files or %d MiB; keep only the files that show your work", action.MaxUploadFiles, action.MaxUploadBytes>>20)
		}
		return nil
	})
	if n := len(invalid); err == nil && n > 0 {
		if n > maxListedErrors {
			invalid = append(invalid[:maxListedErrors], fmt.Sprintf("and %d more", n-maxListedErrors))
		}
		return nil, fmt.Errorf("%s would be rejected, so nothing was sent:\n%s", command.Plural(n, "file"), strings.Join(invalid, "\n"))
	}
	if err == nil && len(list) == 0 {
		err = errors.New("the folder is empty; add files that show your work, such as screenshots and test reports")
	}
	return list, err
}

// hashFile reads a file once for its size and digest.
func hashFile(root *os.Root, name string) (f action.UploadFile, err error) {
	in, err := root.Open(name)
	if err != nil {
		return f, err
	}
	defer in.Close()
	digest := sha256.New()
	size, err := io.Copy(digest, io.LimitReader(in, action.MaxUploadFile+1))
	if err != nil {
		return f, err
	}
	return action.UploadFile{Name: name, Size: size, SHA256: hex.EncodeToString(digest.Sum(nil))}, nil
}

// uploadFile uploads one file, and retries while the gateway does not answer or
// is temporarily unable to store it.
func (a *agentClient) uploadFile(ctx context.Context, root *os.Root, upload string, f *action.UploadFile) error {
	for try := 1; ; try++ {
		err := a.uploadOnce(ctx, root, upload, f, uploadStallTimeout)
		pause := a.pause
		var p *problem
		switch {
		case errors.As(err, &p) && p.Status == http.StatusTooManyRequests:
			pause *= 10 // the gateway holds an aborted upload for a minute
		case p != nil && slices.Contains([]string{"files_unavailable", "body_broken"}, p.Code), errors.As(err, new(noResponseError)):
		default:
			return err
		}
		if a.giveUp(ctx, try) {
			return err
		}
		if err := a.backOff(ctx, err, try, pause); err != nil {
			return err
		}
	}
}

// uploadStallTimeout limits the time without progress, while sending and while
// waiting for the response.
const uploadStallTimeout = 2 * time.Minute

// uploadOnce has no overall timeout; it fails only when no bytes move for
// stallTimeout.
func (a *agentClient) uploadOnce(outer context.Context, root *os.Root, upload string, f *action.UploadFile, stallTimeout time.Duration) error {
	ctx, stop := context.WithCancelCause(outer)
	defer stop(nil)
	timer := time.AfterFunc(stallTimeout, func() { stop(fmt.Errorf("no data was sent or received for %s", stallTimeout)) })
	defer timer.Stop()
	noTimeout := *a.HTTP
	noTimeout.Timeout = 0
	in, err := root.Open(f.Name)
	if err != nil {
		return err
	}
	defer in.Close()
	request, err := a.NewRequest(ctx, &api.PutEvidence.Operation, api.EvidenceFile{
		InUpload: api.InUpload{InSession: a.sessionParam(), Upload: upload, Name: f.Name}, SHA256: f.SHA256,
	})
	if err != nil {
		return err
	}
	request.ContentLength = f.Size
	request.Body = http.NoBody
	if f.Size > 0 {
		request.Body = io.NopCloser(io.TeeReader(io.LimitReader(in, f.Size), writeNotifier(func() { timer.Reset(stallTimeout) })))
	}
	request.Header.Set("Content-Type", "application/octet-stream")
	_, _, err = (&agentClient{Client: &Client{Client: apiclient.Client{Base: a.Base, Key: a.Key, HTTP: &noTimeout}}}).send(ctx, request)
	if stalled := context.Cause(ctx); stalled != nil && outer.Err() == nil {
		return noResponseError{fmt.Errorf("the gateway at %s does not accept data: %w", a.Base, stalled)}
	}
	return err
}
