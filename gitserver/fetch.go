package gitserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// fetchTimeout bounds one fetch.
const fetchTimeout = time.Hour

// fetchParams are the params of git:fetch.
type fetchParams struct {
	Repository string   `json:"repository"` // host and path
	Refs       []string `json:"refs"`       // names; IDs of objects that have none
	Depth      string   `json:"depth,omitempty"`
	Filter     string   `json:"filter,omitempty"`
}

// maxShownRefs bounds the refs in the params of a fetch.
const maxShownRefs = 50

// fetchStream is a fetch whose client waits for the pack.
type fetchStream struct {
	*exchange
	remote *Remote
	body   io.Reader
	ctx    context.Context // of the client
	over   chan struct{}   // closed when nothing is written any more
	began  atomic.Bool     // the client got the start of an answer
	failed error
}

// advertiseFetch answers the first request of a fetch. It is not a call, since it
// has no effect and reveals at most the names of refs; a fetch that policy does not
// allow is refused here already.
func (s *Server) advertiseFetch(x *exchange) error {
	remote, err := s.mayFetch(x)
	if err != nil {
		return err
	}
	resp, err := remote.send(x.r.Context(), &forgeRequest{method: http.MethodGet, service: "info/refs?service=git-upload-pack", header: x.r.Header}) //nolint:bodyclose // relay closes it
	if err != nil {
		return err
	}
	return s.relay(x, resp, &refScanner{left: maxKnownRefs})
}

// mayFetch returns the remote of a repository that the session may fetch.
func (s *Server) mayFetch(x *exchange) (*Remote, error) {
	params, err := json.Marshal(fetchParams{Repository: x.repository, Refs: []string{}})
	if err != nil {
		return nil, err
	}
	found, err := s.gate.Explain(x.r.Context(), x.session, action.Git, fetchAction, params)
	switch {
	case err != nil:
		return nil, err
	case found.Decision.Mode == action.ModeDeny:
		return nil, action.Errorf(action.ErrForbidden, "denied", "The session may not fetch this repository: %s", found.Decision.Why())
	case found.Decision.Mode != action.ModeAllow:
		return nil, action.Errorf(action.ErrForbidden, "denied", "Fetching needs approval here, and git cannot wait for that. An admin can allow git:fetch, or create a grant for it.")
	}
	return s.remote(x)
}

// fetch serves POST git-upload-pack: a list of refs, or a pack, which is a call.
func (s *Server) fetch(x *exchange) error {
	head := make([]byte, maxRequestHead)
	x.moreTime()
	n, err := io.ReadFull(x.r.Body, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return refusal(http.StatusBadRequest, "The request could not be read.")
	}
	head = head[:n:n]
	command, p, err := s.parseFetch(x, head)
	if err != nil {
		return err
	}
	body := io.MultiReader(bytes.NewReader(head), x.r.Body)
	if command == "ls-refs" || command == "object-info" {
		remote, err := s.mayFetch(x)
		if err != nil {
			return err
		}
		resp, err := remote.send(x.r.Context(), x.forward("git-upload-pack", body)) //nolint:bodyclose // relay closes it
		if err != nil {
			return err
		}
		return s.relay(x, resp, &refScanner{left: maxKnownRefs})
	}
	remote, err := s.remote(x)
	if err != nil {
		return err
	}
	return s.callFetch(&fetchStream{exchange: x, remote: remote, body: body, ctx: x.r.Context(), over: make(chan struct{})}, p)
}

// forward returns the request of the client for the forge.
func (x *exchange) forward(service string, body io.Reader) *forgeRequest {
	return &forgeRequest{method: x.r.Method, service: service, header: x.r.Header, body: body, length: x.r.ContentLength}
}

// callFetch makes the call of a fetch, which writes the answer of the forge to the
// client, and returns when nothing is written any more.
func (s *Server) callFetch(f *fetchStream, p *fetchParams) error {
	params, err := json.Marshal(p)
	if err != nil {
		return err
	}
	key := f.session.ID + "\n" + string(params)
	s.mu.Lock()
	s.waiting[key] = append(s.waiting[key], f)
	s.mu.Unlock()
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	out, err := s.gate.Call(ctx, &action.Call{
		Session: *f.session, Source: action.Git, Action: fetchAction, Params: params,
		Waiting: action.Waiting{Patience: action.Forever, OnHeld: func(*action.Invocation) { cancel(action.ErrCancelled) }}, // see mayFetch
	})
	if !s.takeBack(key, f) {
		<-f.over
	}
	switch {
	case f.failed != nil && f.began.Load():
		panic(http.ErrAbortHandler) // the client must not take what it got for a whole answer
	case f.failed != nil:
		return f.failed
	case f.began.Load():
		return nil
	case err != nil:
		return err
	}
	inv := &out.Invocation
	if inv.Status == action.StatusDenied {
		return action.Errorf(action.ErrForbidden, "denied", "The session may not fetch this repository: %s", inv.DeniedNote)
	}
	if inv.Error != nil {
		return action.Errorf(action.ErrUnavailable, inv.Error.Code, "%s", inv.Error.Message)
	}
	return fmt.Errorf("a fetch ended as %s without an answer", inv.Status)
}

// take returns the fetch that a call of the Gate runs.
func (s *Server) take(key string) *fetchStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.waiting[key]
	if len(list) == 0 {
		return nil
	}
	f := list[0]
	s.drop(key, f)
	return f
}

// takeBack removes a fetch that no call runs yet; false if one does.
func (s *Server) takeBack(key string, f *fetchStream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drop(key, f)
}

// drop removes a fetch from those that wait. The caller holds the lock.
func (s *Server) drop(key string, f *fetchStream) bool {
	list := s.waiting[key]
	i := slices.Index(list, f)
	if i < 0 {
		return false
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(s.waiting, key)
	} else {
		s.waiting[key] = list
	}
	return true
}

// runFetch is the Run of git:fetch.
func (s *Server) runFetch(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
	var p fetchParams
	if err := json.Unmarshal(params, &p); err != nil {
		return action.Result{}, err
	}
	key, err := json.Marshal(p)
	if err != nil {
		return action.Result{}, err
	}
	f := s.take(caller.Session() + "\n" + string(key))
	if f == nil {
		return action.Result{}, action.NewError("git_only")
	}
	defer close(f.over)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(f.ctx, stop)()
	counted := &countingWriter{}
	err = s.streamFetch(ctx, f, counted)
	f.failed = err
	if err != nil {
		if f.ctx.Err() != nil {
			err = action.NewError("git_client_gone", counted.n)
		}
		return action.Result{Integration: f.remote.Integration}, err
	}
	return textResult(f.remote, fmt.Sprintf(`{"bytes":%d}`, counted.n), false), nil
}

func (s *Server) streamFetch(ctx context.Context, f *fetchStream, counted *countingWriter) error {
	resp, err := f.remote.send(ctx, f.forward("git-upload-pack", f.body)) //nolint:bodyclose // relay closes it
	if err != nil {
		return err
	}
	f.began.Store(true)
	return s.relay(f.exchange, resp, counted)
}

// countingWriter counts what is written.
type countingWriter struct{ n int64 }

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// buffers are those of answers that are relayed.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// relay streams the answer of a forge to the client and to the observer. Every part
// is sent at once.
func (s *Server) relay(x *exchange, resp *http.Response, observer io.Writer) error {
	body := newIdleReader(resp.Body)
	defer body.Close() //nolint:errcheck // read or given up
	header := x.w.Header()
	header.Set("Content-Type", resp.Header.Get("Content-Type"))
	if resp.ContentLength >= 0 {
		header.Set("Content-Length", fmt.Sprint(resp.ContentLength))
	}
	x.w.WriteHeader(http.StatusOK)
	client := http.NewResponseController(x.w)
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	for {
		n, err := body.Read(*buffer)
		if n > 0 {
			s.received.Add(int64(n))
			_, _ = observer.Write((*buffer)[:n]) // cannot fail
			x.moreTime()
			if _, err := x.w.Write((*buffer)[:n]); err != nil {
				return fmt.Errorf("writing to the client: %w", err)
			}
			_ = client.Flush() // a failure is that of the next write
		}
		switch {
		case errors.Is(err, io.EOF):
			if known, ok := observer.(*refScanner); ok {
				s.names.keep(x, known.refs)
			}
			return nil
		case err != nil:
			return action.Errorf(action.ErrUnavailable, "upstream_failed", "%s broke off its answer. Retry.", x.host).WithCause(err)
		}
	}
}

// maxRequestHead is how much of a request is parsed: what it wants comes first.
const maxRequestHead = 16 << 10

// parseFetch returns the command of a request of protocol 2, or "fetch" for those
// before, and what it wants.
func (s *Server) parseFetch(x *exchange, head []byte) (command string, p *fetchParams, err error) {
	var lines io.Reader = bytes.NewReader(head)
	switch x.r.Header.Get("Content-Encoding") {
	case "":
	case "gzip":
		unzipped, err := gzip.NewReader(lines)
		if err != nil {
			return "", nil, refusal(http.StatusBadRequest, "The request is not valid gzip.")
		}
		lines = io.LimitReader(unzipped, 8*maxRequestHead)
	default:
		return "", nil, refusal(http.StatusUnsupportedMediaType, "The gateway accepts gzip only.")
	}
	p = &fetchParams{Repository: x.repository, Refs: []string{}}
	command = "fetch"
	names := s.names.of(x)
	for wants := 0; ; {
		kind, line, err := readPacket(lines, maxPacket)
		text := strings.TrimSuffix(string(line), "\n")
		word, value, _ := strings.Cut(text, " ")
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // the rest is not parsed
			return command, p, nil
		case err != nil:
			return "", nil, refusal(http.StatusBadRequest, "The request is not in Git's protocol.")
		case kind != dataPacket || word == "have" || word == "done":
		case strings.HasPrefix(text, "command="):
			if command = text[len("command="):]; command != "fetch" && command != "ls-refs" && command != "object-info" {
				return "", nil, refusal(http.StatusForbidden, "The gateway does not support this command of Git's protocol.")
			}
		case word == "want", word == "want-ref":
			value, _, _ = strings.Cut(value, " ") // capabilities before protocol 2
			if name := names[value]; name != "" {
				value = name
			}
			if wants++; wants <= maxShownRefs && !slices.Contains(p.Refs, value) {
				p.Refs = append(p.Refs, clip(value, 250))
			}
		case strings.HasPrefix(word, "deepen"):
			p.Depth = clip(strings.TrimPrefix(text, "deepen "), 100)
		case word == "filter":
			p.Filter = clip(value, 100)
		}
	}
}

// clip returns at most n bytes of valid text.
func clip(text string, n int) string {
	if len(text) > n {
		text = text[:n]
	}
	return strings.ToValidUTF8(text, "?")
}

// refNames are the names of objects that clients were told last, so that the record
// of a fetch has names.
type refNames struct {
	mu  *sync.Mutex
	all map[string]map[string]string // by session and repository, by ID
}

const (
	maxKnownRefs  = 200 // of a repository
	maxKnownLists = 128
)

func newRefNames() refNames { return refNames{&sync.Mutex{}, map[string]map[string]string{}} }

func (n *refNames) keep(x *exchange, refs map[string]string) {
	if len(refs) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.all) >= maxKnownLists {
		clear(n.all)
	}
	n.all[x.session.ID+"\n"+x.repository] = refs
}

func (n *refNames) of(x *exchange) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[x.session.ID+"\n"+x.repository]
}

// textResult is the answer of a call as a result of tools/call.
func textResult(r *Remote, text string, isError bool) action.Result {
	reply := action.ToolReply{Text: text, Failed: isError}
	result := reply.Result()
	result.Integration = r.Integration
	return result
}
