package mcpserver_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/action"
)

// gate is a Gate in memory that behaves as the real one does towards its
// callers: it holds, joins nothing, withdraws what was cancelled, and never
// forgets an invocation.
type gate struct {
	holdEvery time.Duration
	holdFor   time.Duration

	mu        sync.Mutex
	actions   map[string]*served // by tool
	version   int
	records   map[string]*record
	order     []string
	delivered []string
	answered  []string // which callers were let go with, to come back by themselves
	causes    []error  // with which callers left
	keys      []string
	listErr   error
	grantErr  error
	requests  []action.GrantRequest
	lists     int // calls of Available
	denied    []action.DeniedTools
	listDelay time.Duration
	refusals  []string // that were counted
	offered   action.Offerings
	offerings int            // calls of Offerings
	subs      map[string]int // by source and URI
	subErr    error
	admitErr  error
	admitted  int
	// subscribing is what happens at a source meanwhile.
	subscribing func(ctx context.Context, source, uri string, on bool) error
	replyErr    error
	replyErrs   int // replies that still fail so
	replied     int // calls of Reply
}

// served is an action of the test's organization.
type served struct {
	action.Action
	mode   action.Mode
	layer  action.Layer // that denies it; empty: the organization's
	note   string       // of that layer
	hidden bool         // not in the list, as an action that is denied
	run    func(ctx context.Context, params json.RawMessage, progress func(string)) action.Outcome
	err    error                        // instead of a row
	joined bool                         // every call is one that was made before
	talk   func(c *talk) action.Outcome // instead of run
}

// record is a row, and what those who wait for it are told by.
type record struct {
	action.Outcome
	moved   chan struct{} // closed and made anew at every change
	reports []string      // of progress, not yet handed on
	waiters int
	call    action.Call
	served  *served
	round   *askedRound // the one that is open
}

func newGate(actions ...*served) *gate {
	g := &gate{
		holdEvery: 3 * time.Second, holdFor: 5 * time.Minute,
		actions: map[string]*served{}, records: map[string]*record{}, version: 1,
	}
	for _, a := range actions {
		g.add(a)
	}
	return g
}

func (g *gate) add(a *served) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version++
	if a.Source == "" {
		a.Source, a.SourceName = "demo", "Demo"
	}
	if a.Name == "" {
		a.Name = a.Tool
	}
	if a.Definition == nil {
		a.Definition = json.RawMessage(fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, a.Tool))
	}
	if a.mode == "" {
		a.mode = action.ModeAllow
	}
	g.actions[cmp.Or(a.Tool, a.Source+":"+a.Name)] = a
}

func (g *gate) remove(tool string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.version++
	delete(g.actions, tool)
}

func (g *gate) Available(ctx context.Context, s *action.Session) ([]action.Available, string, error) {
	time.Sleep(g.listDelay)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lists++
	if g.listErr != nil {
		return nil, "", g.listErr
	}
	var list []action.Available
	for _, a := range g.actions {
		if !a.hidden && strings.HasPrefix(a.Tool, prefixOf(s)) {
			list = append(list, action.Available{Action: &a.Action, Decision: action.Decision{Mode: a.mode}})
		}
	}
	return list, fmt.Sprint(g.version, " ", prefixOf(s)), nil
}

func (g *gate) Denied(context.Context, *action.Session) ([]action.DeniedTools, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denied, nil
}

// prefixOf lets the organization "other", every automation, the tasks of every
// group, and sessions that an event started see tools of their own only.
func prefixOf(s *action.Session) string {
	switch {
	case s.Organization == "other":
		return "other_"
	case s.Group != "":
		return s.Group + s.Task
	case s.Event != "":
		return "event"
	}
	return s.Automation
}

// RequestGrant writes wishes down as the real store does, ten of a session.
func (g *gate) RequestGrant(_ context.Context, s *action.Session, t action.Terms, reason string) (action.GrantRequest, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.grantErr != nil {
		return action.GrantRequest{}, g.grantErr
	}
	mine := 0
	for _, r := range g.requests {
		if r.Session == s.ID {
			mine++
		}
	}
	if mine == 10 {
		return action.GrantRequest{}, action.Errorf(action.ErrTooMany, "too_many_requests", "10 requests of this session wait for a person; go on without a grant.")
	}
	r := action.GrantRequest{
		ID: fmt.Sprintf("req-%d", len(g.requests)+1), Organization: s.Organization, Session: s.ID, Terms: t, Reason: reason,
		Status: action.RequestPending, CreatedAt: time.Now().UTC(), ExpiresAt: time.Now().UTC().Add(24 * time.Hour),
	}
	g.requests = append(g.requests, r)
	return r, nil
}

// snapshot tells a session its own name, for want of more.
func (g *gate) snapshot(_ context.Context, s *action.Session) (action.Snapshot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return action.Snapshot{
		GeneratedAt: time.Now().UTC(), Group: s.Group, Task: s.Task, Capabilities: []action.ProviderAbility{}, Providers: []string{"of " + s.ID},
	}, g.listErr
}

// Resolve finds hidden actions too.
func (g *gate) Resolve(_ context.Context, _ *action.Session, tool string) (string, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.actions[tool]; a != nil {
		return a.Source, a.Name, nil
	}
	return "", "", action.Errorf(action.ErrNotFound, "unknown_tool", "no such tool")
}

func (g *gate) find(source, name string) *served {
	for _, a := range g.actions {
		if a.Source == source && a.Name == name {
			return a
		}
	}
	return nil
}

func (g *gate) Call(ctx context.Context, c *action.Call) (*action.Outcome, error) {
	g.mu.Lock()
	a := g.find(c.Source, c.Action)
	if a == nil {
		g.mu.Unlock()
		return &action.Outcome{}, action.Errorf(action.ErrNotFound, "unknown_action", "no such action")
	}
	if a.err != nil {
		g.mu.Unlock()
		return &action.Outcome{}, a.err
	}
	r := &record{moved: make(chan struct{}), call: *c, served: a}
	r.Repeated, r.Joins = a.joined, true
	r.Invocation = action.Invocation{
		ID: fmt.Sprintf("inv-%d", len(g.order)+1), Organization: c.Session.Organization, Session: c.Session.ID,
		Source: a.Source, SourceName: a.SourceName, Action: a.Name, Mode: a.mode, ModeSource: action.LayerOrganization,
		CreatedAt: time.Now(), Params: c.Params,
	}
	r.Invocation.ApprovalURL = "https://gate.example/approve/" + r.Invocation.ID
	g.records[r.Invocation.ID] = r
	g.order = append(g.order, r.Invocation.ID)
	g.keys = append(g.keys, c.IdempotencyKey)
	switch a.mode {
	case action.ModeDeny:
		r.Invocation.Status, r.Invocation.DeniedReason, r.Invocation.DeniedNote = action.StatusDenied, action.DeniedPolicy, a.note
		r.Invocation.ModeSource = cmp.Or(a.layer, r.Invocation.ModeSource)
	case action.ModeRequireApproval:
		r.Invocation.Status = action.StatusPending
		expires := time.Now().Add(g.holdFor)
		if c.Session.Kind == action.Unattended {
			expires = time.Now().Add(24 * time.Hour)
		}
		r.Invocation.ExpiresAt = &expires
	default:
		r.Invocation.Status = action.StatusExecuting
		go g.execute(r)
	}
	g.mu.Unlock()
	return g.await(ctx, r, c.Waiting, !a.joined)
}

func (g *gate) Wait(ctx context.Context, s *action.Session, id string, w action.Waiting) (*action.Outcome, error) {
	g.mu.Lock()
	r := g.records[id]
	g.mu.Unlock()
	if r == nil || r.Invocation.Session != s.ID {
		return &action.Outcome{}, action.Errorf(action.ErrNotFound, "unknown_invocation", "no such invocation")
	}
	return g.await(ctx, r, w, false)
}

func (g *gate) Status(_ context.Context, s *action.Session, id string) (action.Invocation, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.records[id]
	if r == nil || r.Invocation.Session != s.ID {
		return action.Invocation{}, action.Errorf(action.ErrNotFound, "unknown_invocation", "no such invocation")
	}
	return r.Invocation, nil
}

func (g *gate) Peek(_ context.Context, s *action.Session, id string, can action.ClientFeatures) (*action.Outcome, error) {
	inv, err := g.Status(context.Background(), s, id)
	if err != nil {
		return &action.Outcome{}, err
	}
	g.mu.Lock()
	r := g.records[id]
	now := r.Outcome
	o := &now
	if r.round != nil && r.round.taken && len(r.round.replies) < len(r.round.Questions) { // lost, perhaps
		r.round.taken = false
	}
	g.mu.Unlock()
	if inv.Status == action.StatusExecuting && can != 0 {
		o.Round = g.unanswered(r, g.take(r, can))
	}
	return o, nil
}

// unanswered is a round without what was answered.
func (g *gate) unanswered(r *record, round *action.Round) *action.Round {
	if round == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	left := *round
	left.Questions = slices.DeleteFunc(slices.Clone(left.Questions), func(q action.Question) bool {
		_, answered := r.round.replies[q.Key]
		return answered
	})
	return &left
}

func (g *gate) Withdraw(_ context.Context, s *action.Session, id string) error {
	if _, err := g.Status(context.Background(), s, id); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.records[id]
	if r.Invocation.Status != action.StatusPending {
		return action.Errorf(action.ErrConflict, "not_pending", "it is not held any more")
	}
	now := time.Now()
	r.Invocation.Status, r.Invocation.DeniedReason, r.Invocation.CompletedAt = action.StatusDenied, action.DeniedWithdrawn, &now
	r.wakeLocked()
	return nil
}

func (g *gate) Delivered(o *action.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.delivered = append(g.delivered, o.Invocation.ID)
}

// await waits as the real Gate does: all callbacks come from this goroutine.
func (g *gate) await(ctx context.Context, r *record, w action.Waiting, begins bool) (*action.Outcome, error) {
	g.mu.Lock()
	r.waiters++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		r.waiters--
		g.mu.Unlock()
	}()
	var tick, patience <-chan time.Time
	o, moved := g.look(r)
	if round := g.take(r, w.Features); round != nil {
		o.Round = round
		return o, nil
	}
	if w.Polls && o.Invocation.Mode == action.ModeRequireApproval && !o.Invocation.Status.Terminal() {
		return g.leaves(o)
	}
	if o.Invocation.Status == action.StatusPending {
		if w.OnOpened != nil && w.Patience > 0 && begins && w.OnOpened(&o.Invocation) {
			return g.leaves(o)
		}
		ticker := time.NewTicker(g.holdEvery)
		defer ticker.Stop()
		tick = ticker.C
		if w.Patience != action.Forever {
			timer := time.NewTimer(w.Patience)
			defer timer.Stop()
			patience = timer.C
		}
		if w.OnHeld != nil && w.Patience > 0 {
			w.OnHeld(&o.Invocation)
		}
	}
	for !o.Invocation.Status.Terminal() {
		select {
		case <-moved:
			o, moved = g.look(r)
			for _, p := range g.said(r) {
				switch params, log := strings.CutPrefix(p, "log "); {
				case log && w.OnLog != nil:
					w.OnLog(json.RawMessage(params))
				case !log && w.OnProgress != nil:
					w.OnProgress(json.RawMessage(p))
				}
			}
			if round := g.take(r, w.Features); round != nil {
				o.Round = round
				return o, nil
			}
		case <-tick:
			if w.OnHeld != nil && o.Invocation.Status == action.StatusPending {
				w.OnHeld(&o.Invocation)
			}
		case <-patience:
			if o.Invocation.Status == action.StatusPending {
				return g.leaves(o)
			}
		case <-ctx.Done():
			return o, g.left(ctx, r)
		}
	}
	return o, nil
}

func (g *gate) leaves(o *action.Outcome) (*action.Outcome, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered = append(g.answered, o.Invocation.ID)
	return o, nil
}

func (g *gate) look(r *record) (*action.Outcome, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := r.Outcome
	return &o, r.moved
}

func (g *gate) left(ctx context.Context, r *record) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	cause := context.Cause(ctx)
	g.causes = append(g.causes, cause)
	if errors.Is(cause, action.ErrCancelled) && r.waiters == 1 && r.Invocation.Status == action.StatusPending {
		r.Invocation.Status, r.Invocation.DeniedReason = action.StatusDenied, action.DeniedWithdrawn
		r.wakeLocked()
	}
	return cause
}

func (r *record) wakeLocked() {
	close(r.moved)
	r.moved = make(chan struct{})
}

// said returns what a running action reported since it was last asked.
func (g *gate) said(r *record) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := r.reports
	r.reports = nil
	return out
}

func (g *gate) execute(r *record) {
	progress := func(p string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		r.reports = append(r.reports, p)
		r.wakeLocked()
	}
	o := action.Outcome{Answer: action.Answer{Body: json.RawMessage(`{"content":[{"type":"text","text":"done"}]}`)}}
	if r.served.talk != nil {
		o = r.served.talk(&talk{g, r})
	} else if r.served.run != nil {
		o = r.served.run(context.Background(), r.call.Params, progress)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Answer = o.Answer
	r.Invocation.Status, r.Invocation.Error = o.Invocation.Status, o.Invocation.Error
	if r.Invocation.Status == "" {
		r.Invocation.Status = action.StatusCompleted
	}
	r.wakeLocked()
}

// approve, deny and expire are what people and time do.
func (g *gate) approve(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.records[id]
	if r.Invocation.Status == action.StatusPending {
		r.Invocation.Status = action.StatusExecuting
		r.wakeLocked()
		go g.execute(r)
	}
}

func (g *gate) settle(id string, status action.Status, reason, note string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.records[id]
	r.Invocation.Status, r.Invocation.DeniedReason, r.Invocation.DeniedNote = status, reason, note
	r.wakeLocked()
}

// wishes returns what was asked for, in a line each.
func (g *gate) wishes() (lines []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range g.requests {
		terms, _ := json.Marshal(r.Terms)
		lines = append(lines, fmt.Sprintf("%s %s %q %s", r.ID, r.Session, r.Reason, terms))
	}
	return lines
}

// status returns where an invocation stands.
func (g *gate) status(id string) action.Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.records[id]; r != nil {
		return r.Invocation.Status
	}
	return ""
}

func (g *gate) ids() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.order)
}

func (g *gate) deliveries() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.delivered)
}

func (g *gate) leavers() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.causes)
}

// hints carries hints in process.
type hints struct {
	mu   sync.Mutex
	next int
	subs map[int]func(action.Hint)
}

func (h *hints) Publish(hint action.Hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.subs {
		f(hint)
	}
}

func (h *hints) Subscribe(f func(action.Hint)) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[int]func(action.Hint){}
	}
	h.next++
	n := h.next
	h.subs[n] = f
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, n)
	}
}

// authenticate knows some tokens.
func authenticate(_ context.Context, bearer string) (*action.Session, error) {
	s := &action.Session{Organization: "acme", Kind: action.Interactive}
	switch bearer {
	case "token-a", "token-b":
		s.ID = "session-" + bearer[6:]
	case "token-u":
		s.ID, s.Kind = "session-u", action.Unattended
	case "token-o":
		s.ID, s.Organization = "session-o", "other"
	case "token-dev1", "token-dev2":
		s.ID, s.Group = "session-"+bearer[6:], "dev"
	case "token-dev-t1", "token-dev-t2":
		s.ID, s.Group, s.Task = "session-"+bearer[6:], "dev", bearer[10:]
	case "token-t1":
		s.ID, s.Task = "session-t1", "t1"
	case "token-event":
		s.ID, s.Event = "session-event", "event-1"
	case "token-auto":
		s.ID, s.Automation = "session-auto", "auto"
	case "token-expired":
		past := time.Now().Add(-time.Second)
		s.ID, s.ExpiresAt = "session-e", &past
	case "token-revoked":
		return s, action.Errorf(action.ErrUnauthenticated, "session_revoked", "This session was revoked; ask for a new session token.")
	case "token-forbidden":
		return s, action.Errorf(action.ErrForbidden, "not_an_agent", "An API key may not call tools.")
	case "token-broken":
		return s, errors.New("dial tcp 10.0.0.7: secret-detail")
	default:
		return s, action.ErrUnauthenticated
	}
	return s, nil
}
