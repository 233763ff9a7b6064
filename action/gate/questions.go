package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// executionCaller is the [action.Caller] of an execution: it connects the source to
// the callers that wait.
type executionCaller struct {
	*Gate
	job   *job
	asked atomic.Bool // a round was opened
	over  atomic.Bool // the execution ended

	turn   sync.Mutex // held while a round is open: one at a time
	rounds int

	mu    sync.Mutex // guards the fields below
	can   action.ClientFeatures
	level string
}

func (l *executionCaller) Session() string { return l.job.Session }

func (l *executionCaller) Invocation() string { return l.job.ID }

func (l *executionCaller) Integration() string { return l.job.Integration }

func (l *executionCaller) Production() bool { return l.job.act.Production != "" }

func (l *executionCaller) Features() action.ClientFeatures {
	can, _ := l.listeners()
	return can
}

func (l *executionCaller) LogLevel() string {
	_, level := l.listeners()
	return level
}

// listeners returns the features and log level of the callers here. Without callers
// it returns the last known ones: a client of the stateless protocol leaves with
// every question and comes back with the reply, perhaps on another instance.
func (l *executionCaller) listeners() (can action.ClientFeatures, level string) {
	callers, can, level, _ := l.board.audience(l.job.ID, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if callers > 0 {
		l.can, l.level = can, level
	}
	return l.can, l.level
}

func (l *executionCaller) Progress(params json.RawMessage) { l.tell(message{params: params}) }

func (l *executionCaller) Log(params json.RawMessage) { l.tell(message{log: true, params: params}) }

func (l *executionCaller) tell(w message) {
	if !l.over.Load() {
		l.board.post(l.job.ID, w)
	}
}

// severity orders the log levels of MCP, the least severe first. An unknown level
// counts as the least severe.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// Ask opens a round of questions as a row, which a caller on any instance may take,
// and closes it when it was answered or the time for it is over.
func (l *executionCaller) Ask(ctx context.Context, questions []action.Question) (map[string]action.Reply, error) {
	l.turn.Lock()
	defer l.turn.Unlock()
	needs, err := l.mayAsk(questions)
	if err != nil {
		return nil, err
	}
	if callers, _, _, able := l.board.audience(l.job.ID, needs); callers > 0 && !able {
		return nil, notAsked("The client of the caller does not offer what the question needs.")
	}
	row, err := l.open(ctx, questions, needs)
	if err != nil {
		return nil, err
	}
	l.asked.Store(true)
	replies, err := l.replies(ctx, row)
	if closed := l.close(row, questions, replies, err); closed != nil && err == nil {
		return nil, closed // a reply that was not recorded does not count
	}
	return replies, err
}

// maxKey bounds the key of a question, in bytes.
const maxKey = 256

// mayAsk returns the features that a client needs for the questions.
func (l *executionCaller) mayAsk(questions []action.Question) (needs action.ClientFeatures, err error) {
	if l.over.Load() {
		return 0, notAsked("The call is over.")
	}
	if l.rounds++; l.rounds > l.MaxRounds {
		return 0, action.NewError("too_many_questions", l.MaxRounds)
	}
	size := 0
	seen := map[string]bool{}
	for i := range questions {
		q := &questions[i]
		kind, f, ok := q.Needs()
		switch {
		case !ok:
			return 0, notAsked(fmt.Sprintf("%.60q is not a question that clients can be asked.", q.Method))
		case !slices.Contains(l.job.act.MayAsk, kind):
			return 0, notAsked(fmt.Sprintf("This source may not ask for %s; an admin can allow it.", kind))
		case seen[q.Key]:
			return 0, notAsked("Two questions of a round have the same key. Use a key once.")
		case q.Key == "" || len(q.Key) > maxKey || !printable(q.Key):
			return 0, notAsked(fmt.Sprintf("The key of a question must have 1 to %d bytes of printable text.", maxKey))
		}
		seen[q.Key] = true
		needs |= f
		size += len(q.Params) + len(q.Key)
	}
	switch {
	case len(questions) == 0:
		return 0, notAsked("The round has no question.")
	case size > l.MaxAsked:
		return 0, action.NewError("question_too_large", size>>10, l.MaxAsked>>10)
	}
	return needs, nil
}

func notAsked(message string) error {
	return action.Errorf(action.ErrForbidden, "not_asked", "%s", message)
}

// open writes the row of the round.
func (l *executionCaller) open(ctx context.Context, questions []action.Question, needs action.ClientFeatures) (*action.AskedRound, error) {
	now := l.Now()
	until := now.Add(l.AskWithin)
	if end, ok := ctx.Deadline(); ok && time.Until(end) < l.AskWithin {
		until = now.Add(time.Until(end))
	}
	row := &action.AskedRound{
		ID: l.NewID(), Organization: l.job.Organization, Invocation: l.job.ID, Session: l.job.Session,
		Needs: needs, AskedAt: now, Until: until,
	}
	round := action.Round{
		ID: row.ID, Invocation: l.job.ID, Source: l.job.Source, SourceName: l.job.SourceName, Questions: questions, Until: until,
	}
	for _, q := range questions {
		row.Keys = append(row.Keys, q.Key)
	}
	plain, err := encode(round)
	if err != nil {
		return nil, err
	}
	if row.Sealed, err = l.Vault.Seal(roundRef(row, "sealed"), plain); err != nil {
		return nil, err
	}
	return row, l.Ledger.OpenRound(ctx, row)
}

func roundRef(r *action.AskedRound, column string) action.Ref {
	return action.Ref{Organization: r.Organization, Table: "rounds", Row: r.ID, Column: column}
}

// replies waits until the round is answered.
func (l *executionCaller) replies(ctx context.Context, row *action.AskedRound) (map[string]action.Reply, error) {
	woken, done := l.board.listenForReplies(l.job.ID)
	defer done()
	l.announceRound(row)
	ticker := time.NewTicker(l.PollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, action.NewError("not_answered")
		case <-woken:
		case <-ticker.C:
		}
		at := l.Now() // before the read, so that it covers what happened until then
		now, err := l.Ledger.LoadRound(ctx, row.Organization, row.ID)
		switch {
		case err != nil && !errors.Is(err, action.ErrUnavailable):
			return nil, err
		case err != nil: // the database is unreachable for a moment
		case now.AnsweredAt != nil:
			return l.openReplies(&now)
		case l.refusing.Load() && l.alone():
			return nil, notAsked("The gateway is shutting down, and the caller that was asked is gone.")
		case now.TakenAt == nil && at.Sub(row.AskedAt) > l.takeWithin():
			return nil, notAsked("No caller that can answer waits for this call.")
		case at.After(row.Until):
			return nil, action.NewError("not_answered")
		}
	}
}

// takeWithin is how long a question waits to be taken. Clients that poll come back
// only every few seconds.
func (l *executionCaller) takeWithin() time.Duration {
	if l.job.returning != 0 {
		return 3 * l.TakeWithin
	}
	return l.TakeWithin
}

// alone reports whether no caller waits here.
func (l *executionCaller) alone() bool {
	callers, _, _, _ := l.board.audience(l.job.ID, 0)
	return callers == 0
}

// announceRound reports that a round was opened or answered, here and to other
// instances.
func (g *Gate) announceRound(r *action.AskedRound) {
	g.board.notifyQuestion(r.Invocation)
	g.Hints.Publish(action.Hint{
		Kind: action.HintInvocation, Organization: r.Organization, Session: r.Session, Invocation: r.Invocation,
		Status: action.StatusExecuting, Asking: true,
	})
}

func (l *executionCaller) openReplies(row *action.AskedRound) (map[string]action.Reply, error) {
	replies := make(map[string]action.Reply, len(row.Replies))
	for key, sealed := range row.Replies {
		plain, err := l.Vault.Open(roundRef(row, "reply/"+key), sealed)
		if err != nil {
			return nil, err
		}
		var r action.Reply
		if err := json.Unmarshal(plain, &r); err != nil {
			return nil, fmt.Errorf("a kept reply cannot be read: %w", err)
		}
		replies[key] = r
	}
	return replies, nil
}

// close ends the round and records its questions and replies. It fails if they
// cannot be recorded.
func (l *executionCaller) close(row *action.AskedRound, questions []action.Question, replies map[string]action.Reply, asking error) error {
	type exchange struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params,omitempty"`
		Reply  json.RawMessage `json:"reply,omitempty"`
		Error  json.RawMessage `json:"error,omitempty"`
	}
	kept := func(raw json.RawMessage) json.RawMessage {
		if len(raw) == 0 {
			return nil
		}
		return l.JSON.Prune(l.JSON.Redact(raw, nil), l.KeepResult/len(questions))
	}
	record := struct {
		Round     string     `json:"round"`
		Outcome   string     `json:"outcome"`
		Questions []exchange `json:"questions"`
	}{Round: row.ID, Outcome: "answered"}
	if asking != nil {
		record.Outcome = action.Public(asking).Message
	}
	for _, q := range questions {
		r := replies[q.Key]
		record.Questions = append(record.Questions, exchange{Method: q.Method, Params: kept(q.Params), Reply: kept(r.Result), Error: kept(r.Problem)})
	}
	data, err := json.Marshal(record)
	if err != nil {
		data = json.RawMessage(`{"outcome":"the round could not be recorded"}`)
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := l.Ledger.CloseRound(ctx, row.Organization, row.ID, data, l.Now()); err != nil {
		l.Gate.Log.Error("could not close a round of questions", "invocation", row.Invocation, "error", err)
		return action.NewError("not_recorded")
	}
	return nil
}

// encode keeps foreign JSON as it is, except for white space between its tokens.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// asked returns the open round of the call if this caller gets it, otherwise nil.
func (g *Gate) asked(ctx context.Context, t *wait) (*action.Round, error) {
	if t.w.can == 0 || t.inv.Status != action.StatusExecuting || !g.board.hasQuestion(t.inv.ID) {
		return nil, nil
	}
	return g.take(ctx, &t.inv, t.w.can, t.w.lostBefore)
}

// take assigns the open round of an executing call to one caller; nil if there is
// none for it. Questions that were answered before are left out.
func (g *Gate) take(ctx context.Context, inv *action.Invocation, can action.ClientFeatures, lost time.Time) (*action.Round, error) {
	row, err := g.Ledger.TakeRound(ctx, inv.Organization, inv.ID, can, lost, g.Now())
	if err == nil && row != nil && !lost.IsZero() {
		*row, err = g.Ledger.LoadRound(ctx, row.Organization, row.ID) // with the replies
	}
	switch {
	case errors.Is(err, action.ErrUnavailable) && ctx.Err() == nil:
		return nil, nil // the source gives up in time
	case err != nil || row == nil || row.AnsweredAt != nil || row.ClosedAt != nil:
		return nil, err
	}
	plain, err := g.Vault.Open(roundRef(row, "sealed"), row.Sealed)
	if err != nil {
		return nil, err
	}
	var r action.Round
	if err := json.Unmarshal(plain, &r); err != nil {
		return nil, fmt.Errorf("a kept round of questions cannot be read: %w", err)
	}
	r.Questions = slices.DeleteFunc(r.Questions, func(q action.Question) bool { return row.Replies[q.Key] != nil })
	return &r, nil
}

// Reply answers questions of an [action.Round] by their keys, and returns the
// invocation that continues. With final, missing keys stay unanswered; without it
// the source waits for the rest. Errors: ErrNotFound, ErrGone if the source no
// longer waits, ErrTooLarge.
func (g *Gate) Reply(ctx context.Context, s *action.Session, round string, replies map[string]action.Reply, final bool) (invocation string, err error) {
	row := &action.AskedRound{ID: round, Organization: s.Organization}
	size := 0
	for key, r := range replies {
		size += len(key) + len(r.Result) + len(r.Problem)
	}
	if size > g.MaxAsked {
		return "", action.NewError("reply_too_large", size>>10, g.MaxAsked>>10)
	}
	sealed := make(map[string][]byte, len(replies))
	for key, r := range replies {
		plain, err := encode(r)
		if err != nil {
			return "", action.NewError("invalid_reply", key)
		}
		if sealed[key], err = g.Vault.Seal(roundRef(row, "reply/"+key), plain); err != nil {
			return "", err
		}
	}
	now, err := g.Ledger.ReplyRound(ctx, s.Organization, s.ID, round, sealed, final, g.Now())
	if err != nil {
		return "", err
	}
	if now.AnsweredAt != nil {
		g.announceRound(&now)
	}
	return now.Invocation, nil
}
