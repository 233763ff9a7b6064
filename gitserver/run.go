package gitserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/gitpush"
)

// Rules are what the settings of an integration, the forge and the session say about
// a push.
type Rules struct {
	Production string // why it changes production, as in [action.Binding]; empty: it does not
	Protected  string // the protected branch that it changes; empty: none
	// Own is the prefix of the refs of the session's own run; empty: it has none.
	Own string
}

// pushOf returns the params of a call and the quarantine of the push. There is one
// only if this server received the push of this session and computed the params.
func (s *Server) pushOf(session string, params json.RawMessage) (*gitpush.Params, *quarantine, error) {
	p := &gitpush.Params{}
	if err := json.Unmarshal(params, p); err != nil {
		return nil, nil, err
	}
	q, err := s.quarantineFor(session, p)
	if err == nil && !q.exists() {
		err = action.NewError("git_only")
	}
	return p, q, err
}

// bindPush is the Bind of git:push. It reads the refs of the forge again, so that
// what a person approved is not pushed onto something else.
func (s *Server) bindPush(ctx context.Context, who *action.Session, params json.RawMessage) (b action.Binding, err error) {
	p, _, err := s.pushOf(who.ID, params)
	if err != nil {
		return b, err
	}
	// With an error, too, the binding has what is known: an allowed call runs then.
	if p.NoDiff != "" {
		b.NoGrant = "its content could not be compared with what is at the forge"
	}
	b.Danger = "whether it changes a protected branch could not be checked"
	host, path, _ := strings.Cut(p.Repository, "/")
	remote, err := s.Remote(ctx, who, host, path)
	if err != nil {
		return b, err
	}
	b.Integration, b.Revision = remote.Integration, remote.Revision
	rules, err := s.Rules(ctx, who, remote, p)
	if err != nil {
		return b, err
	}
	b.Production, b.Danger = rules.Production, ""
	if own(p, rules.Own) {
		if p.NoDiff == "" && len(p.Findings) == 0 && !slices.ContainsFunc(p.Files, func(f gitpush.File) bool { return f.Runs == runsInCI }) {
			b.Allowed = "it changes only branches of the session's own run, " + rules.Own + "…"
		}
	} else {
		b.Danger = danger(p, &rules)
	}
	return b, s.unmoved(ctx, remote, p)
}

// own reports whether all refs are branches of the session's run.
func own(p *gitpush.Params, prefix string) bool {
	return prefix != "" && !slices.ContainsFunc(p.Refs, func(r gitpush.Ref) bool { return !strings.HasPrefix(r.Name, prefix) })
}

// danger says why a push is destructive; empty: it is not.
func danger(p *gitpush.Params, rules *Rules) string {
	for _, r := range p.Refs {
		switch r.Kind {
		case gitpush.Force:
			return "it overwrites " + r.Name
		case gitpush.Delete:
			return "it deletes " + r.Name
		case gitpush.Create, gitpush.Update:
		}
	}
	if rules.Protected != "" {
		return rules.Protected + " is protected"
	}
	return ""
}

// unmoved returns an error if a ref is no longer where the push expects it.
func (s *Server) unmoved(ctx context.Context, remote *Remote, p *gitpush.Params) error {
	now, err := remote.refsOf(ctx, p)
	if err != nil {
		return notSent(err)
	}
	for _, r := range p.Refs {
		if now[r.Name] != r.Old {
			return action.NewError("ref_moved", r.Name, where(now[r.Name]), where(r.Old))
		}
	}
	return nil
}

func where(id string) string {
	if isZero(id) {
		return "no commit"
	}
	return gitpush.Short(id)
}

// refsOf reads where the refs of a push are now.
func (r *Remote) refsOf(ctx context.Context, p *gitpush.Params) (map[string]string, error) {
	var names []string
	for _, ref := range p.Refs {
		names = append(names, ref.Name)
	}
	now, _, err := r.readRefs(ctx, names, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if now[name] == "" {
			now[name] = strings.Repeat("0", 40)
		}
	}
	return now, nil
}

// runPush is the Run of git:push. It sends the push once. If the answer is lost, the
// refs of the forge say what happened.
func (s *Server) runPush(ctx context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
	p, q, err := s.pushOf(caller.Session(), params)
	if err != nil {
		return action.Result{}, err
	}
	s.hold(q)
	defer s.release(q)
	defer s.keepOpen(q, false)
	who, err := s.Session(ctx, caller.Session())
	if err != nil {
		return action.Result{}, notSent(err)
	}
	host, path, _ := strings.Cut(p.Repository, "/")
	remote, err := s.Remote(ctx, who, host, path)
	if err != nil {
		return action.Result{}, notSent(err)
	}
	if approved := caller.Integration(); approved != "" && approved != remote.Integration {
		return action.Result{}, action.Errorf(action.ErrUnavailable, "upstream_config", "The push would now use another integration than the one it was approved for. Push again.")
	}
	result, err := s.send(ctx, q, remote, p)
	if err != nil {
		return action.Result{Integration: remote.Integration}, err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return action.Result{Integration: remote.Integration}, err
	}
	rejected := false
	for _, why := range result.Refs {
		rejected = rejected || why != ""
	}
	return textResult(remote, string(text), rejected), nil
}

// notSent returns an error from before anything was sent.
func notSent(err error) error {
	e := *action.Public(err)
	e.Kind = action.ErrUnavailable
	return &e
}

// send sends the push to the forge.
func (s *Server) send(ctx context.Context, q *quarantine, remote *Remote, p *gitpush.Params) (*pushResult, error) {
	commands, size := encodeCommands(p), int64(0)
	var pack io.Reader = strings.NewReader("")
	if file, err := q.packFile(); err != nil {
		return nil, notSent(err)
	} else if file != nil {
		defer file.Close() //nolint:errcheck // only read
		info, err := file.Stat()
		if err != nil {
			return nil, notSent(err)
		}
		pack, size = file, info.Size()
	}
	body := &boundedReader{r: io.MultiReader(bytes.NewReader(commands), pack), left: int64(len(commands)) + size}
	total := body.left
	resp, err := remote.send(ctx, &forgeRequest{
		method: http.MethodPost, service: "git-receive-pack", body: body, length: total,
		header: http.Header{"Content-Type": {"application/x-git-receive-pack-request"}, "Accept": {"application/x-git-receive-pack-result"}},
		access: Access{Write: true, Workflows: slices.ContainsFunc(p.Files, func(f gitpush.File) bool { return strings.HasPrefix(f.Path, ".github/workflows/") })},
	})
	s.sent.Add(total - max(0, body.left))
	var result *pushResult
	if err == nil {
		result, err = readReport(resp, p)
		_ = resp.Body.Close()
	}
	if err == nil {
		return result, nil
	}
	if errors.Is(err, action.ErrUnavailable) || errors.Is(err, action.ErrForbidden) || errors.Is(err, action.ErrNotFound) || body.left > 0 {
		return nil, notSent(err) // refused, or the forge did not get all of it
	}
	return s.lookUp(ctx, remote, p, err)
}

// encodeCommands returns the commands of a push as a request for the forge.
func encodeCommands(p *gitpush.Params) []byte {
	var b []byte
	for _, id := range p.Shallow {
		b = append(b, packet("shallow "+id)...)
	}
	for i, r := range p.Refs {
		line := r.Old + " " + r.New + " " + r.Name
		if i == 0 {
			if line += "\x00 report-status side-band-64k agent=git/sallyport"; p.Atomic {
				line += " atomic"
			}
		}
		b = append(b, packet(line)...)
	}
	return append(b, flushLine...)
}

// Bounds of the answer to a push.
const (
	maxReport   = 1 << 20
	maxMessages = 8 << 10
)

// readReport reads the answer of the forge.
func readReport(resp *http.Response, p *gitpush.Params) (*pushResult, error) {
	body := newIdleReader(resp.Body)
	defer body.Close() //nolint:errcheck // read or given up
	result := &pushResult{Refs: map[string]string{}}
	var messages strings.Builder
	bands := &bandReader{r: body, progress: func(text []byte) {
		if messages.Len() < maxMessages {
			messages.WriteString(printable(strings.ReplaceAll(string(text), "\r", "\n")))
		}
	}}
	report := io.LimitReader(bands, maxReport)
	for {
		kind, line, err := readPacket(report, maxPacket)
		if err != nil {
			return nil, fmt.Errorf("reading the report of the forge: %w", err)
		}
		if kind != dataPacket {
			break
		}
		word, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		name, why, _ := strings.Cut(rest, " ")
		switch word {
		case "ok":
			result.Refs[name] = ""
		case "ng":
			result.Refs[name] = oneLine(why, 300)
		case "unpack":
			if rest != "ok" {
				for _, r := range p.Refs {
					result.Refs[r.Name] = "the forge could not unpack it: " + oneLine(rest, 200)
				}
			}
		}
	}
	result.Messages = strings.TrimSpace(messages.String())
	return result, nil
}

// lookUp finds out what became of a push without an answer. It never pushes again.
func (s *Server) lookUp(ctx context.Context, remote *Remote, p *gitpush.Params, lost error) (*pushResult, error) {
	s.Log.Warn("the answer to a push was lost; its outcome is looked up", "repository", p.Repository, "error", lost)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer stop()
	for _, delay := range []time.Duration{0, time.Second, 5 * time.Second} {
		time.Sleep(delay)
		now, err := remote.refsOf(ctx, p)
		if err != nil {
			continue
		}
		result, done := &pushResult{Refs: map[string]string{}, Messages: "The answer of the forge was lost; its refs show what happened."}, 0
		for _, r := range p.Refs {
			if now[r.Name] == r.New {
				done++
			} else {
				result.Refs[r.Name] = "not updated"
				continue
			}
			result.Refs[r.Name] = ""
		}
		if done > 0 {
			return result, nil
		}
	}
	return nil, action.Errorf(action.ErrOutcomeUnknown, "upstream_failed", "%s did not answer the push, and its refs are unchanged so far. Fetch before you push again.", remote.URL.Host).WithCause(lost)
}
