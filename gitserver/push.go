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
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/action"
	"sallyport/internal/gitpush"
)

// Bounds of a push.
const (
	maxPushedRefs  = 50
	maxCommandLine = 1_000
	uploadTimeout  = 10 * time.Minute
	pushTimeout    = 5 * time.Minute
)

// advertisePush answers the first request of a push: the refs of the forge, with
// capabilities that the gateway can review.
func (s *Server) advertisePush(x *exchange) error {
	found, err := s.gate.Explain(x.r.Context(), x.session, action.Git, pushAction, nil)
	switch {
	case err != nil:
		return err
	case found.Decision.Mode == action.ModeDeny:
		return action.Errorf(action.ErrForbidden, "denied", "The session may not push: %s", found.Decision.Why())
	case s.program == "":
		return action.NewError("no_git_program")
	}
	remote, err := s.remote(x)
	if err != nil {
		return err
	}
	resp, err := remote.send(x.r.Context(), &forgeRequest{method: http.MethodGet, service: "info/refs?service=git-receive-pack", access: Access{Write: true}})
	if err != nil {
		return err
	}
	resp.ContentLength = -1
	body := resp.Body
	head, err := reviewable(body)
	if err != nil {
		_ = body.Close()
		return action.Errorf(action.ErrUnavailable, "upstream_protocol", "%s did not answer in Git's protocol. Check that the URL is that of a repository.", x.host).WithCause(err)
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}
	return s.relay(x, resp, io.Discard)
}

// reviewable reads an advertisement up to its first ref and adjusts the
// capabilities: packs must be complete in themselves, and nothing may be sent that
// has an effect beside the refs.
func reviewable(r io.Reader) ([]byte, error) {
	var head []byte
	for range 4 {
		kind, line, err := readPacket(r, maxPacket)
		switch {
		case err != nil:
			return nil, err
		case kind == flushPacket:
			head = append(head, flushLine...)
			continue
		}
		ref, capabilities, first := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\x00")
		if !first {
			head = append(head, packet(string(line))...)
			continue
		}
		list := slices.DeleteFunc(strings.Fields(capabilities), func(c string) bool {
			name, _, _ := strings.Cut(c, "=")
			return slices.Contains([]string{"push-options", "push-cert", "no-thin", "object-format"}, name)
		})
		if id, _, _ := strings.Cut(ref, " "); len(id) != 40 {
			return nil, errors.New("the repository does not use SHA-1")
		}
		list = append(list, "no-thin", "object-format=sha1")
		return append(head, packet(ref+"\x00"+strings.Join(list, " ")+"\n")...), nil
	}
	return nil, errPacket
}

// push serves POST git-receive-pack.
func (s *Server) push(x *exchange) error {
	if s.program == "" {
		return action.NewError("no_git_program")
	}
	body := io.Reader(&patientReader{x.r.Body, x, time.Now().Add(uploadTimeout)})
	switch x.r.Header.Get("Content-Encoding") {
	case "":
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return refusal(http.StatusBadRequest, "The request is not valid gzip.")
		}
		body = unzipped
	default:
		return refusal(http.StatusUnsupportedMediaType, "The gateway accepts gzip only.")
	}
	p, capabilities, err := readCommands(body)
	if err != nil {
		return refusal(http.StatusBadRequest, "The push cannot be read: %v.", err)
	}
	x.w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
	if len(p.Refs) == 0 { // a client that checks its credential before a large push
		x.w.WriteHeader(http.StatusOK)
		return nil
	}
	p.Repository = x.repository
	if len(p.Refs) == 1 {
		p.Branch, _ = strings.CutPrefix(p.Refs[0].Name, "refs/heads/")
		if p.Branch == p.Refs[0].Name {
			p.Branch = ""
		}
	}
	report := &pushReport{x: x, band: slices.Contains(capabilities, "side-band-64k"), refs: p.Refs}
	q, remote, err := s.receive(x, body, p)
	if err != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(body, s.MaxPush)) // git reads no answer before it has sent everything
		return report.failed(err)
	}
	defer func() { s.release(q) }()
	if err := s.review(x.r.Context(), q, remote, p); err != nil {
		return report.failed(s.explainReview(err))
	}
	if q, err = s.settle(x.session.ID, q, p); err != nil {
		return report.failed(err)
	}
	return s.callPush(x, q, p, report)
}

// receive reads the pack into a quarantine.
func (s *Server) receive(x *exchange, body io.Reader, p *gitpush.Params) (*quarantine, *Remote, error) {
	remote, err := s.remote(x)
	if err != nil {
		return nil, nil, err
	}
	q, err := s.newQuarantine(x.session.ID)
	if err != nil {
		return nil, nil, err
	}
	s.hold(q)
	if !slices.ContainsFunc(p.Refs, func(r gitpush.Ref) bool { return r.Kind != gitpush.Delete }) {
		return q, remote, nil
	}
	if err = q.store(body); err == nil {
		err = s.indexPush(x.r.Context(), q)
	}
	if err != nil {
		s.release(q)
		return nil, nil, s.explainPack(err)
	}
	p.Pack = "pending" // see review
	return q, remote, nil
}

// indexPush indexes the pack of a push when there are few others.
func (s *Server) indexPush(ctx context.Context, q *quarantine) error {
	select {
	case s.indexing <- struct{}{}:
		defer func() { <-s.indexing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	pack, err := q.packFile()
	if err != nil {
		return err
	}
	defer pack.Close() //nolint:errcheck // only read
	return q.run(ctx, pack, discard, "index-pack", "--stdin", "--fsck-objects")
}

// explainPack returns the error of a pack that cannot be accepted.
func (s *Server) explainPack(err error) error {
	var broken *gitError
	switch {
	case errors.Is(err, errTooLarge):
		return action.NewError("push_too_large", s.MaxPush>>20)
	case errors.As(err, &broken):
		if broken.text == "" { // git was killed
			broken.text = "git needs too much time to read it"
		}
		return action.Errorf(action.ErrInvalid, "pack_refused", "The pack is not accepted: %s. Check the repository with git fsck, and push with Git 2.7 or later.", oneLine(broken.text, 300))
	}
	return err
}

// explainReview returns the error of a pack whose content cannot be read.
func (s *Server) explainReview(err error) error {
	if shown := (*action.Error)(nil); errors.As(err, &shown) {
		return err
	}
	s.Log.Warn("the content of a push could not be read", "error", err)
	return action.Errorf(action.ErrInvalid, "pack_refused", "The gateway could not read what the push contains: %s.", oneLine(err.Error(), 300))
}

// settle moves the quarantine to where the call of the params finds it. One that an
// equal push left there stays.
func (s *Server) settle(session string, q *quarantine, p *gitpush.Params) (*quarantine, error) {
	at, err := s.quarantineFor(session, p)
	if err != nil {
		return q, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.exists() {
		s.unhold(q)
	} else if err := os.Rename(q.dir, at.dir); err != nil {
		return q, fmt.Errorf("moving a quarantine: %w", err)
	} else {
		delete(s.held, q.dir)
	}
	s.held[at.dir]++
	return at, nil
}

// hold keeps a quarantine until it is released as often.
func (s *Server) hold(q *quarantine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[q.dir]++
}

// release removes a quarantine that nobody holds, unless its call is still open.
func (s *Server) release(q *quarantine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unhold(q)
}

func (s *Server) unhold(q *quarantine) {
	if s.held[q.dir]--; s.held[q.dir] > 0 {
		return
	}
	delete(s.held, q.dir)
	if !s.open[q.dir] {
		q.remove()
	}
}

// keepOpen marks a quarantine whose call waits without a client, or no longer does.
func (s *Server) keepOpen(q *quarantine, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if open {
		s.open[q.dir] = true
	} else {
		delete(s.open, q.dir)
	}
}

// readCommands reads the commands of a push, up to the pack.
func readCommands(r io.Reader) (p *gitpush.Params, capabilities []string, err error) {
	p = &gitpush.Params{Refs: []gitpush.Ref{}}
	for {
		kind, line, err := readPacket(r, maxPacket)
		switch {
		case errors.Is(err, io.EOF) && len(p.Refs) == 0:
			return p, nil, nil
		case err != nil:
			return nil, nil, err
		case kind == flushPacket:
			return p, capabilities, nil
		case kind != dataPacket:
			return nil, nil, errPacket
		}
		text, list, first := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\x00")
		if id, ok := strings.CutPrefix(text, "shallow "); ok && isSHA1(id) && len(p.Shallow) < maxShownCommits {
			p.Shallow = append(p.Shallow, id)
			continue
		}
		if first && len(p.Refs) == 0 {
			capabilities = strings.Fields(list)
			p.Atomic = slices.Contains(capabilities, "atomic")
		}
		ref, err := parseCommand(text)
		switch {
		case err != nil:
			return nil, nil, err
		case len(p.Refs) == maxPushedRefs:
			return nil, nil, fmt.Errorf("it has more than %d refs", maxPushedRefs)
		case slices.ContainsFunc(p.Refs, func(r gitpush.Ref) bool { return r.Name == ref.Name }):
			return nil, nil, fmt.Errorf("it changes a ref twice")
		}
		p.Refs = append(p.Refs, ref)
	}
}

func parseCommand(text string) (ref gitpush.Ref, err error) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 || !isSHA1(parts[0]) || !isSHA1(parts[1]) {
		return ref, errors.New("only commands with SHA-1 IDs are accepted")
	}
	ref = gitpush.Ref{Name: parts[2], Old: parts[0], New: parts[1], Kind: gitpush.Update}
	switch {
	case !validRef(ref.Name):
		return ref, errors.New("a ref has a name that Git does not permit, or that is longer than 250 bytes")
	case isZero(ref.Old) && isZero(ref.New):
		return ref, errors.New("a ref is neither created nor deleted")
	case isZero(ref.Old):
		ref.Kind = gitpush.Create
	case isZero(ref.New):
		ref.Kind = gitpush.Delete
	}
	return ref, nil
}

func isSHA1(id string) bool { return len(id) == 40 && isObjectID(id) }

// validRef reports whether a name is that of a ref, with printable characters only.
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || len(name) > 250 || printable(name) != name || strings.ContainsAny(name, " ~^:?*[\\\n\t") || strings.Contains(name, "..") ||
		strings.Contains(name, "@{") || strings.HasSuffix(name, ".") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// patientReader reads from a client that must send something every two minutes, and
// everything before the end.
type patientReader struct {
	io.Reader
	x   *exchange
	end time.Time
}

func (r *patientReader) Read(p []byte) (int, error) {
	if time.Now().After(r.end) {
		return 0, fmt.Errorf("the upload took more than %s", uploadTimeout)
	}
	r.x.moreTime()
	return r.Reader.Read(p)
}

// callPush makes the call of a push and reports its outcome to the client, which gets
// progress while it waits for a person.
func (s *Server) callPush(x *exchange, q *quarantine, p *gitpush.Params, report *pushReport) error {
	params, err := json.Marshal(p)
	if err != nil {
		return report.failed(err)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(x.r.Context(), func() { cancel(action.ErrCancelled) })()
	call := &action.Call{Session: *x.session, Source: action.Git, Action: pushAction, Params: params}
	call.Patience = action.Forever
	call.OnHeld = func(inv *action.Invocation) {
		if err := report.progress(waitingText(inv, s.Now())); err != nil {
			cancel(action.ErrCancelled)
		}
	}
	out, err := s.gate.Call(ctx, call)
	inv := &out.Invocation
	s.keepOpen(q, x.session.Kind == action.Unattended && inv.ID != "" && !inv.Status.Terminal())
	switch {
	case err != nil:
		return report.failed(err)
	case inv.Status == action.StatusCompleted, inv.Status == action.StatusFailed && len(out.Answer.Body) > 0:
		return report.answered(out.Answer.Body)
	}
	return report.failed(action.Errorf(action.ErrForbidden, "denied", "%s", s.ending(ctx, inv)))
}

// ending says in words why a call of push did not run.
func (s *Server) ending(ctx context.Context, inv *action.Invocation) string {
	switch {
	case inv.Error != nil:
		return inv.Error.Code + ": " + inv.Error.Message
	case inv.DeniedReason == action.DeniedHuman:
		text := "denied by " + s.Person(ctx, inv.Organization, inv.ApprovedBy)
		if inv.DeniedNote != "" {
			text += ": " + inv.DeniedNote
		}
		return text
	case inv.Status == action.StatusDenied:
		return "denied (" + inv.DeniedReason + "): " + inv.DeniedNote
	case inv.Status == action.StatusExpired:
		return "nobody approved the push in time; push again to ask again"
	}
	return "the gateway is restarting while the push waits for approval; push again to go on waiting"
}

// waitingText is a line of progress.
func waitingText(inv *action.Invocation, now time.Time) string {
	if inv.Status != action.StatusPending {
		return "Approved; pushing"
	}
	left := ""
	if inv.ExpiresAt != nil {
		left = " (" + max(0, inv.ExpiresAt.Sub(now)).Round(time.Second).String() + " left)"
	}
	return "Waiting for approval: " + inv.ApprovalURL + left
}

// pushReport writes the answer to a push.
type pushReport struct {
	x     *exchange
	band  bool // the client reads side bands
	refs  []gitpush.Ref
	mu    sync.Mutex
	begun bool
}

// progress shows a line to the person at the client.
func (r *pushReport) progress(text string) error {
	if !r.band {
		return nil
	}
	return r.write(bandProgress, []byte(text+"\n"))
}

func (r *pushReport) write(band byte, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		r.begun = true
		r.x.w.WriteHeader(http.StatusOK)
	}
	r.x.moreTime()
	var err error
	if r.band {
		err = writeBand(r.x.w, band, data)
	} else {
		_, err = r.x.w.Write(data)
	}
	if err == nil {
		err = http.NewResponseController(r.x.w).Flush()
	}
	return err
}

// pushResult is the answer of a call of git:push, as JSON.
type pushResult struct {
	// Refs has why the forge rejected each ref; empty: it is updated.
	Refs     map[string]string `json:"refs"`
	Messages string            `json:"messages,omitempty"` // of the forge
}

// answered reports the answer of a call.
func (r *pushReport) answered(body json.RawMessage) error {
	var reply struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	var result pushResult
	if err := json.Unmarshal(body, &reply); err != nil || len(reply.Content) == 0 {
		return r.failed(errors.New("an answer of git:push cannot be read"))
	}
	if err := json.Unmarshal([]byte(reply.Content[0].Text), &result); err != nil {
		return r.failed(err)
	}
	for line := range strings.Lines(result.Messages) {
		_ = r.progress(strings.TrimSuffix(line, "\n")) // the report below fails, too
	}
	return r.end(func(ref string) string {
		why, ok := result.Refs[ref]
		if !ok {
			return "not reported by the forge"
		}
		return why
	})
}

// failed reports that nothing was pushed, and why.
func (r *pushReport) failed(err error) error {
	why := action.Public(err).Message
	if e := (*action.Error)(nil); !errors.As(err, &e) && r.x.r.Context().Err() == nil {
		defer func() { r.x.failure = err }()
	}
	return r.end(func(string) string { return why })
}

// end writes the report, with the reason why each ref is rejected; empty: it is not.
func (r *pushReport) end(reason func(ref string) string) error {
	report := packet("unpack ok\n")
	for _, ref := range r.refs {
		line := "ok " + ref.Name
		if why := reason(ref.Name); why != "" {
			line = "ng " + ref.Name + " " + oneLine(why, 600)
		}
		report = append(report, packet(line+"\n")...)
	}
	report = append(report, flushLine...)
	if err := r.write(bandData, report); err != nil {
		return nil //nolint:nilerr // the client is gone
	}
	if r.band {
		_, _ = io.WriteString(r.x.w, flushLine)
	}
	return nil
}
