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

// line is the [Caller] of an execution: it leads to whoever waits for it.
type line struct {
	*Gate
	job   *job
	asked atomic.Bool // a round was opened
	over  atomic.Bool // Run returned

	turn   sync.Mutex // held by the round that is open: there is one at a time
	rounds int

	mu    sync.Mutex // guards what follows
	can   action.ClientFeatures
	level string
}

func (l *line) Session() string { return l.job.Session }

func (l *line) Invocation() string { return l.job.ID }

func (l *line) Integration() string { return l.job.Integration }

func (l *line) Features() action.ClientFeatures {
	can, _ := l.listeners()
	return can
}

func (l *line) LogLevel() string {
	_, level := l.listeners()
	return level
}

// listeners returns what is known of those who wait here. While nobody does it
// is what was known last: a client of the stateless era leaves with every
// question, and comes back with the reply, perhaps to another instance.
func (l *line) listeners() (can action.ClientFeatures, level string) {
	callers, can, level, _ := l.board.audience(l.job.ID, 0)
	l.mu.Lock()
	defer l.mu.Unlock()
	if callers > 0 {
		l.can, l.level = can, level
	}
	return l.can, l.level
}

func (l *line) Progress(params json.RawMessage) { l.tell(word{params: params}) }

func (l *line) Log(params json.RawMessage) { l.tell(word{log: true, params: params}) }

func (l *line) tell(w word) {
	if !l.over.Load() {
		l.board.tell(l.job.ID, w)
	}
}

// severity orders the levels of log messages, the least severe first; one that
// MCP does not know counts as the least.
func severity(level string) int {
	return slices.Index([]string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}, level)
}

// Ask opens a round in the rows, where a caller on any instance may take it,
// and closes it when it was answered or nobody did in time.
func (l *line) Ask(ctx context.Context, questions []action.Question) (map[string]action.Reply, error) {
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
		return nil, closed // what nobody wrote down was not answered
	}
	return replies, err
}

// maxKey is how long the key of a question may be, in bytes.
const maxKey = 256

// mayAsk returns what a client must offer for the questions.
func (l *line) mayAsk(questions []action.Question) (needs action.ClientFeatures, err error) {
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
			return 0, notAsked(fmt.Sprintf("Clients are not asked %.60q.", q.Method))
		case !slices.Contains(l.job.act.MayAsk, kind):
			return 0, notAsked(fmt.Sprintf("This source may not ask for %s; an admin can allow it.", kind))
		case seen[q.Key]:
			return 0, notAsked("Two questions of a round have the same key.")
		case q.Key == "" || len(q.Key) > maxKey || !printable(q.Key):
			return 0, notAsked(fmt.Sprintf("The key of a question has 1 to %d bytes of printable text.", maxKey))
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

// open writes the round's row.
func (l *line) open(ctx context.Context, questions []action.Question, needs action.ClientFeatures) (*action.AskedRound, error) {
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
func (l *line) replies(ctx context.Context, row *action.AskedRound) (map[string]action.Reply, error) {
	woken, done := l.board.listen(l.job.ID)
	defer done()
	l.told(row)
	ticker := time.NewTicker(l.PollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, action.NewError("not_answered")
		case <-woken:
		case <-ticker.C:
		}
		at := l.Now() // before the look, so that what happened by then is seen
		now, err := l.Ledger.LoadRound(ctx, row.Organization, row.ID)
		switch {
		case err != nil && !errors.Is(err, action.ErrUnavailable):
			return nil, err
		case err != nil: // the rows are out of reach for a moment
		case now.AnsweredAt != nil:
			return l.openReplies(&now)
		case l.refusing.Load() && l.alone():
			return nil, notAsked("The gateway is shutting down, and whoever was asked is not here.")
		case now.TakenAt == nil && at.Sub(row.AskedAt) > l.takeWithin():
			return nil, notAsked("Nobody who can be asked waits for this call.")
		case at.After(row.Until):
			return nil, action.NewError("not_answered")
		}
	}
}

// takeWithin is how long the question waits for somebody to take it. Who comes
// back by himself does so every few seconds.
func (l *line) takeWithin() time.Duration {
	if l.job.returning != 0 {
		return 3 * l.TakeWithin
	}
	return l.TakeWithin
}

// alone reports whether nobody waits here.
func (l *line) alone() bool {
	callers, _, _, _ := l.board.audience(l.job.ID, 0)
	return callers == 0
}

// told tells everybody that a round was opened or answered.
func (g *Gate) told(r *action.AskedRound) {
	g.board.asks(r.Invocation)
	g.Hints.Publish(action.Hint{
		Kind: action.HintInvocation, Organization: r.Organization, Session: r.Session, Invocation: r.Invocation,
		Status: action.StatusExecuting, Asking: true,
	})
}

func (l *line) openReplies(row *action.AskedRound) (map[string]action.Reply, error) {
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

// close ends the round, and has what was asked and answered written down. An
// error tells that it could not be.
func (l *line) close(row *action.AskedRound, questions []action.Question, replies map[string]action.Reply, asking error) error {
	type record struct {
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
	said := struct {
		Round     string   `json:"round"`
		Outcome   string   `json:"outcome"`
		Questions []record `json:"questions"`
	}{Round: row.ID, Outcome: "answered"}
	if asking != nil {
		said.Outcome = action.Public(asking).Message
	}
	for _, q := range questions {
		r := replies[q.Key]
		said.Questions = append(said.Questions, record{Method: q.Method, Params: kept(q.Params), Reply: kept(r.Result), Error: kept(r.Problem)})
	}
	data, err := json.Marshal(said)
	if err != nil {
		data = json.RawMessage(`{"outcome":"it could not be written down"}`)
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	if err := l.Ledger.CloseRound(ctx, row.Organization, row.ID, data, l.Now()); err != nil {
		l.Gate.Log.Error("closing a round of questions", "invocation", row.Invocation, "error", err)
		return action.NewError("not_recorded")
	}
	return nil
}

// encode keeps foreign JSON as it is, but for white space between its tokens.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// asked takes the round that the call's source opened, if it is for this
// caller: nil otherwise.
func (g *Gate) asked(ctx context.Context, t *wait) (*action.Round, error) {
	if t.w.can == 0 || t.inv.Status != action.StatusExecuting || !g.board.asking(t.inv.ID) {
		return nil, nil
	}
	return g.take(ctx, &t.inv, t.w.can, t.w.lost)
}

// take gives the open round of an executing call to one caller; nil when there
// is none for him. Who comes back is not asked again what he answered.
func (g *Gate) take(ctx context.Context, inv *action.Invocation, can action.ClientFeatures, lost time.Time) (*action.Round, error) {
	row, err := g.Ledger.TakeRound(ctx, inv.Organization, inv.ID, can, lost, g.Now())
	if err == nil && row != nil && !lost.IsZero() {
		*row, err = g.Ledger.LoadRound(ctx, row.Organization, row.ID) // with the replies
	}
	switch {
	case errors.Is(err, action.ErrUnavailable) && ctx.Err() == nil:
		return nil, nil // whoever asks gives up in time
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

// Reply answers questions of a [Round] that a caller of the session was given,
// by their keys, and returns the invocation that goes on then. With final, keys
// that are missing stay unanswered; without it the rest is waited for. Errors:
// ErrNotFound, ErrGone when the source waits no more, ErrTooLarge.
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
		g.told(&now)
	}
	return now.Invocation, nil
}
