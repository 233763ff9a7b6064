package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/action"
	"sallyport/action/gate"
)

// These are the stories of sources that ask the caller of a call that runs.

// inquirer is an action whose source asks, one round after the other, and then
// answers with what it was told.
type inquirer struct {
	effects
	rounds [][]action.Question
	begun  chan struct{} // closed when the first run began
	asks   chan struct{} // nothing is asked before it is closed

	caller action.Caller // of the first run; to be read after begun
}

func newInquirer(rounds ...[]action.Question) *inquirer {
	q := &inquirer{rounds: rounds, begun: make(chan struct{}), asks: make(chan struct{})}
	close(q.asks)
	return q
}

// quiet has it ask nothing before the returned function is called.
func (q *inquirer) quiet() (ask func()) {
	q.asks = make(chan struct{})
	return func() { close(q.asks) }
}

func (q *inquirer) run(ctx context.Context, _ json.RawMessage, caller action.Caller) (action.Result, error) {
	if q.n.Add(1) == 1 {
		q.caller = caller
		close(q.begun)
	}
	<-q.asks
	said := []string{}
	for _, round := range q.rounds {
		replies, err := caller.Ask(ctx, round)
		if e := (*action.Error)(nil); errors.As(err, &e) {
			said = append(said, e.Code)
			continue
		}
		if err != nil {
			return action.Result{}, err
		}
		for _, question := range round {
			r, ok := replies[question.Key]
			switch {
			case !ok:
				said = append(said, "open")
			case r.Problem != nil:
				said = append(said, "problem "+string(r.Problem))
			default:
				said = append(said, string(r.Result))
			}
		}
	}
	body, err := json.Marshal(map[string]any{"content": []string{}, "said": said})
	return action.Result{Body: body}, err
}

// tool is the action, which may ask for forms unless told otherwise.
func (q *inquirer) tool(name string, risk action.Risk, may ...action.AskKind) *action.Action {
	a := tool(name, risk, q.run)
	if a.MayAsk = may; len(may) == 0 {
		a.MayAsk = []action.AskKind{action.AskElicitation}
	}
	return a
}

func form(key string) action.Question {
	return action.Question{
		Key: key, Method: "elicitation/create",
		Params: json.RawMessage(`{"message":"who?","requestedSchema":{"type":"object"},"later":9007199254740993,"api_key":"sk-canary"}`),
	}
}

func heard(h *house, out *action.Outcome) []string {
	h.t.Helper()
	var body struct {
		Said []string `json:"said"`
	}
	if err := json.Unmarshal(out.Answer.Body, &body); err != nil {
		h.t.Fatalf("%v in %s", err, out.Answer.Body)
	}
	return body.Said
}

// askable is how a caller waits who can be asked what is in a form.
func askable() action.Waiting {
	return action.Waiting{Patience: action.Forever, Features: action.ClientElicitsForm}
}

func (h *house) askable(name string) action.Call {
	c := h.call(name, `{}`)
	c.Waiting = askable()
	return c
}

// wait comes back for an invocation.
func (h *house) wait(id string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		out, err := h.gate.Wait(context.Background(), &h.session, id, askable())
		done <- answer{out, err}
	}()
	return done
}

// asked is the round that a caller is given.
func (h *house) asked(a answer) *action.Round {
	h.t.Helper()
	out := h.want(a, action.StatusExecuting)
	if out.Round == nil || out.Round.Invocation != out.Invocation.ID || len(out.Answer.Body) > 0 {
		h.t.Fatalf("the caller was given %+v, %+v", out.Round, out.Answer)
	}
	return out.Round
}

func result(text string) action.Reply { return action.Reply{Result: json.RawMessage(text)} }

// reply answers all questions of a round alike.
func (h *house) reply(r *action.Round, with action.Reply) {
	h.t.Helper()
	all := map[string]action.Reply{}
	for _, q := range r.Questions {
		all[q.Key] = with
	}
	if id, err := h.gate.Reply(h.t.Context(), &h.session, r.ID, all, true); err != nil || id != r.Invocation {
		h.t.Fatalf("replying: %q, %v", id, err)
	}
}

// written are the rounds that stand with the invocation.
func (h *house) written(id string) (outcomes []string, text string) {
	h.t.Helper()
	events, err := h.db.Events(context.Background(), org, id)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range events {
		if e.Kind != "asked" {
			continue
		}
		var data struct{ Outcome string }
		if err := json.Unmarshal(e.Data, &data); err != nil {
			h.t.Fatal(err)
		}
		outcomes, text = append(outcomes, data.Outcome), text+string(e.Data)
	}
	return outcomes, text
}

func TestSourceAsksItsCaller(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		q := newInquirer([]action.Question{form("a"), form("b")}, []action.Question{form("a")})
		h.catalog.put(q.tool("read", action.RiskRead))
		r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
		if r.Source != "notes" || r.SourceName != "notes" || len(r.Questions) != 2 || r.Until.Before(time.Now()) {
			t.Errorf("the round is %+v", r)
		}
		if got := r.Questions[0]; got.Key != "a" || string(got.Params) != string(form("a").Params) {
			t.Errorf("the question became %s", got.Params)
		}
		if can := q.caller.Features(); can != action.ClientElicitsForm || h.gate.Callers(r.Invocation) != 0 {
			t.Errorf("of the caller who is away with the question it is known that he can %b", can)
		}
		h.reply(r, result(`{"action":"accept","content":{"n":9007199254740993,"password":"sk-canary"}}`))
		second := h.asked(h.get(h.wait(r.Invocation)))
		h.reply(second, action.Reply{Problem: json.RawMessage(`{"code":-1,"message":"no"}`)})
		out := h.want(h.get(h.wait(r.Invocation)), action.StatusCompleted)
		reply := `{"action":"accept","content":{"n":9007199254740993,"password":"sk-canary"}}`
		if got := heard(h, out); fmt.Sprint(got) != fmt.Sprint([]string{reply, reply, `problem {"code":-1,"message":"no"}`}) {
			t.Errorf("the source heard %q", got)
		}
		if n := len(h.rows()); n != 1 || q.n.Load() != 1 {
			t.Errorf("%d rows and %d runs, want one of each", n, q.n.Load())
		}
		outcomes, text := h.written(r.Invocation)
		if len(outcomes) != 2 || strings.Contains(text, "sk-canary") || !strings.Contains(text, "9007199254740993") || !strings.Contains(text, `"who?"`) {
			t.Errorf("written down: %s", text)
		}
		// A reply that is sent again is no harm: it says which call to wait for.
		h.reply(r, result(`"else"`))
		if again := h.want(h.get(h.wait(r.Invocation)), action.StatusCompleted); string(again.Answer.Body) != string(out.Answer.Body) {
			t.Errorf("a repeated reply led to %s", again.Answer.Body)
		}
	})
}

// Who leaves with a question may come back to another instance, which is told
// of the answer and of the next question, and hands out the answer of a read.
func TestCallerElsewhereIsAsked(t *testing.T) {
	t.Parallel()
	for name, hints := range map[string]bool{"with hints": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			a, b := twins(t, hints)
			q := newInquirer([]action.Question{form("a")}, []action.Question{form("b")})
			ask := q.quiet()
			a.catalog.put(q.tool("read", action.RiskRead))
			ctx, leave := context.WithCancelCause(t.Context())
			gone := a.begin(ctx, a.askable("read"))
			<-q.begun
			leave(action.ErrCallerGone)
			id := a.get(gone).Invocation.ID
			waits := b.wait(id)
			b.eventually("the caller to wait there", func() bool { return b.gate.Callers(id) == 1 })
			ask()
			r := b.asked(b.get(waits))
			b.reply(r, result(`"one"`))
			r = a.asked(a.get(a.wait(id))) // and back
			b.reply(r, result(`"two"`))
			out := b.want(b.get(b.wait(id)), action.StatusCompleted)
			if got := heard(b, out); fmt.Sprint(got) != `["one" "two"]` || q.n.Load() != 1 {
				t.Errorf("the source heard %q in %d runs", got, q.n.Load())
			}
			if rec, err := a.db.Load(t.Context(), org, id); err != nil || rec.Executor != a.config.Instance {
				t.Errorf("run by %s (%v)", rec.Executor, err)
			}
		})
	}
}

// Who waited there before the call ran here is asked as well.
func TestCallerWhoWaitedElsewhereIsAsked(t *testing.T) {
	t.Parallel()
	for name, hints := range map[string]bool{"with hints": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			a, b := twins(t, hints)
			q := newInquirer([]action.Question{form("a")})
			ask := q.quiet()
			a.catalog.put(q.tool("write", action.RiskWrite))
			ctx, leave := context.WithCancelCause(t.Context())
			here := a.begin(ctx, a.call("write", `{}`))
			id := a.pending().ID
			there := b.begin(t.Context(), b.askable("write"))
			b.eventually("both callers", func() bool { return a.gate.Callers(id) == 1 && b.gate.Callers(id) == 1 })
			a.approve(id) // and so it runs here
			<-q.begun
			leave(action.ErrCallerGone)
			a.get(here)
			ask()
			b.reply(b.asked(b.get(there)), result(`"yes"`))
			if got := heard(b, b.want(b.get(b.wait(id)), action.StatusCompleted)); fmt.Sprint(got) != `["yes"]` || q.n.Load() != 1 {
				t.Errorf("the source heard %q in %d runs", got, q.n.Load())
			}
		})
	}
}

func TestNobodyIsThereToBeAsked(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *gate.Config) { c.TakeWithin = 50 * time.Millisecond })
	q := newInquirer([]action.Question{form("a")})
	ask := q.quiet()
	h.catalog.put(q.tool("write", action.RiskWrite))
	h.allow("write")
	ctx, leave := context.WithCancelCause(t.Context())
	gone := h.begin(ctx, h.askable("write"))
	<-q.begun
	leave(action.ErrCallerGone)
	id := h.get(gone).Invocation.ID
	ask()
	h.eventually("the call to end", func() bool { return h.row(id).Status == action.StatusCompleted })
	if got := heard(h, h.want(h.get(h.begin(t.Context(), h.askable("write"))), action.StatusCompleted)); fmt.Sprint(got) != "[not_asked]" {
		t.Errorf("the source heard %q", got)
	}
	if outcomes, _ := h.written(id); len(outcomes) != 1 || !strings.Contains(outcomes[0], "No caller that can answer") {
		t.Errorf("written down: %q", outcomes)
	}
}

// allow lets an action of the notes run without asking a person.
func (h *house) allow(name string) { h.mode(name, action.ModeAllow) }

func (h *house) mode(name string, mode action.Mode) {
	h.t.Helper()
	o := action.Override{Organization: org, Key: action.Key{Source: "notes", Action: name}, Mode: mode, UpdatedBy: "alice"}
	if err := h.db.SetOverride(h.t.Context(), o); err != nil {
		h.t.Fatal(err)
	}
	h.rules.invalidate(org)
}

func TestQuestionsThatAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *gate.Config) { c.TakeWithin, c.AskWithin, c.MaxAsked = time.Hour, time.Hour, 1000 })
	link := action.Question{Key: "a", Method: "elicitation/create", Params: json.RawMessage(`{"mode":"url","url":"https://x.test"}`)}
	large := form("a")
	large.Params = json.RawMessage(`{"message":"` + strings.Repeat("x", 2000) + `"}`)
	for name, c := range map[string]struct {
		round []action.Question
		can   action.ClientFeatures
		want  string
	}{
		"the client shows no forms":    {[]action.Question{form("a")}, action.ClientElicitsURL | action.ClientSamples, "not_asked"},
		"the client says nothing":      {[]action.Question{form("a")}, 0, "not_asked"},
		"one of two":                   {[]action.Question{form("a"), {Key: "b", Method: "roots/list"}}, action.ClientElicitsForm, "not_asked"},
		"the kind is not allowed":      {[]action.Question{link}, action.ClientElicitsForm | action.ClientElicitsURL, "not_asked"},
		"sampling with tools":          {[]action.Question{{Key: "a", Method: "sampling/createMessage", Params: json.RawMessage(`{"tools":[{}]}`)}}, action.ClientSamples, "not_asked"},
		"no method of clients":         {[]action.Question{{Key: "a", Method: "tools/call"}}, ^action.ClientFeatures(0), "not_asked"},
		"two keys alike":               {[]action.Question{form("a"), form("a")}, ^action.ClientFeatures(0), "not_asked"},
		"no key":                       {[]action.Question{form("")}, ^action.ClientFeatures(0), "not_asked"},
		"a key that is none":           {[]action.Question{form("a\x00")}, ^action.ClientFeatures(0), "not_asked"},
		"no question":                  {[]action.Question{}, ^action.ClientFeatures(0), "not_asked"},
		"more than anybody would read": {[]action.Question{large}, ^action.ClientFeatures(0), "question_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newInquirer(c.round)
			h.catalog.put(q.tool("read", action.RiskRead, action.AskElicitation, action.AskSampling, action.AskRoots))
			call := h.askable("read")
			call.Features = c.can
			out := h.want(h.get(h.begin(t.Context(), call)), action.StatusCompleted)
			if got := heard(h, out); fmt.Sprint(got) != "["+c.want+"]" {
				t.Errorf("the source heard %q, want %s", got, c.want)
			}
			if outcomes, text := h.written(out.Invocation.ID); len(outcomes) > 0 {
				t.Errorf("a round was opened: %s", text)
			}
		})
	}
}

// forgetful are rows that cannot take down how a round ended.
type forgetful struct{ action.Ledger }

func (forgetful) CloseRound(context.Context, string, string, json.RawMessage, time.Time) error {
	return errors.New("the disk is full")
}

func TestReplyThatCannotBeWrittenDownIsNotUsed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *gate.Config) { c.Ledger = forgetful{c.Ledger} })
	q := newInquirer([]action.Question{form("a")})
	h.catalog.put(q.tool("read", action.RiskRead))
	r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
	h.reply(r, result(`"yes"`))
	out := h.want(h.get(h.wait(r.Invocation)), action.StatusCompleted)
	if got := heard(h, out); fmt.Sprint(got) != "[not_recorded]" {
		t.Errorf("the source heard %q", got)
	}
}

func TestFloodOfQuestions(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *gate.Config) { c.MaxRounds = 3 })
	var rounds [][]action.Question
	for i := range 6 {
		rounds = append(rounds, []action.Question{form(fmt.Sprint(i))})
	}
	q := newInquirer(rounds...)
	h.catalog.put(q.tool("read", action.RiskRead))
	r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
	for range 2 {
		h.reply(r, result(`"yes"`))
		r = h.asked(h.get(h.wait(r.Invocation)))
	}
	h.reply(r, result(`"yes"`))
	out := h.want(h.get(h.wait(r.Invocation)), action.StatusCompleted)
	if got := strings.Join(heard(h, out), " "); got != `"yes" "yes" "yes"`+strings.Repeat(" too_many_questions", 3) {
		t.Errorf("the source heard %s", got)
	}
}

// Two callers of one approved call: one of them is asked, both are answered.
func TestOneOfTwoCallersIsAsked(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		q := newInquirer([]action.Question{form("a")})
		h.catalog.put(q.tool("write", action.RiskWrite))
		first, second := h.begin(t.Context(), h.askable("write")), h.begin(t.Context(), h.askable("write"))
		inv := h.pending()
		h.eventually("both callers", func() bool { return h.gate.Callers(inv.ID) == 2 })
		h.approve(inv.ID)
		var r *action.Round
		other := first
		select {
		case a := <-first:
			r, other = h.asked(a), second
		case a := <-second:
			r = h.asked(a)
		}
		select {
		case a := <-other:
			t.Fatalf("the other was given %+v, %+v, %v", a.Invocation, a.Round, a.err)
		case <-time.After(100 * time.Millisecond):
		}
		h.reply(r, result(`"yes"`))
		for _, done := range []<-chan answer{other, h.wait(inv.ID)} {
			if got := heard(h, h.want(h.get(done), action.StatusCompleted)); fmt.Sprint(got) != `["yes"]` {
				t.Errorf("the source heard %q", got)
			}
		}
		if q.n.Load() != 1 {
			t.Errorf("%d effects", q.n.Load())
		}
	})
}

// Of callers who wait, only one who can is asked.
func TestCallerWhoCanIsAsked(t *testing.T) {
	t.Parallel()
	h, q := newHouse(t), newInquirer([]action.Question{form("a")})
	h.catalog.put(q.tool("write", action.RiskWrite))
	mute := h.begin(t.Context(), h.call("write", `{}`))
	able := h.begin(t.Context(), h.askable("write"))
	inv := h.pending()
	h.eventually("both callers", func() bool { return h.gate.Callers(inv.ID) == 2 })
	h.approve(inv.ID)
	h.reply(h.asked(h.get(able)), result(`"yes"`))
	h.want(h.get(mute), action.StatusCompleted)
}

func TestAskedCallerNeverComesBack(t *testing.T) {
	t.Parallel()
	var clock shifted
	for name, leave := range map[string]func(enough func()){
		"the question lapses":     func(func()) { clock.move(2 * time.Minute) },
		"the call has had enough": func(enough func()) { enough() },
	} {
		t.Run(name, func(t *testing.T) {
			h, q := newHouse(t, func(c *gate.Config) { c.Now, c.AskWithin = clock.now, time.Minute }), newInquirer([]action.Question{form("a")})
			act := q.tool("read", action.RiskRead)
			act.Timeout = time.Hour
			within, enough := context.WithCancel(t.Context())
			defer enough()
			act.Run = func(_ context.Context, params json.RawMessage, caller action.Caller) (action.Result, error) {
				return q.run(within, params, caller)
			}
			h.catalog.put(act)
			r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
			waits := h.wait(r.Invocation)
			h.eventually("the caller to wait", func() bool { return h.gate.Callers(r.Invocation) == 1 })
			leave(enough)
			if got := heard(h, h.want(h.get(waits), action.StatusCompleted)); fmt.Sprint(got) != "[not_answered]" {
				t.Errorf("the source heard %q", got)
			}
			if outcomes, _ := h.written(r.Invocation); len(outcomes) != 1 || !strings.Contains(outcomes[0], "Nobody answered") {
				t.Errorf("written down: %q", outcomes)
			}
			if _, err := h.gate.Reply(t.Context(), &h.session, r.ID, map[string]action.Reply{"a": result(`{}`)}, true); !errors.Is(err, action.ErrGone) {
				t.Errorf("a late reply: %v", err)
			}
		})
	}
}

// slow are rows whose first look at a round takes until then; only then is the
// round there to be taken.
type slow struct {
	action.Ledger
	looked, then chan struct{}
	first        *sync.Once
}

func (s slow) LoadRound(ctx context.Context, organization, id string) (action.AskedRound, error) {
	round, err := s.Ledger.LoadRound(ctx, organization, id)
	s.first.Do(func() {
		close(s.looked)
		<-s.then
	})
	return round, err
}

func (s slow) TakeRound(ctx context.Context, organization, invocation string, can action.ClientFeatures, lost, now time.Time) (*action.AskedRound, error) {
	<-s.looked
	return s.Ledger.TakeRound(ctx, organization, invocation, can, lost, now)
}

// Who took the question while the source's instance stood still has it.
func TestQuestionTakenDuringALookIsTaken(t *testing.T) {
	t.Parallel()
	var clock shifted
	rows := slow{looked: make(chan struct{}), then: make(chan struct{}), first: &sync.Once{}}
	h, q := newHouse(t, func(c *gate.Config) {
		rows.Ledger = c.Ledger
		c.Now, c.AskWithin, c.Ledger = clock.now, time.Hour, rows
	}), newInquirer([]action.Question{form("a")})
	act := q.tool("read", action.RiskRead)
	act.Timeout = time.Hour
	h.catalog.put(act)
	r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
	clock.move(time.Minute)
	close(rows.then)
	h.reply(r, result(`"yes"`))
	if got := heard(h, h.want(h.get(h.wait(r.Invocation)), action.StatusCompleted)); fmt.Sprint(got) != `["yes"]` {
		t.Errorf("the source heard %q", got)
	}
}

// A client whose question was lost on the way comes back and is asked again.
func TestLostQuestionIsAskedAgain(t *testing.T) {
	t.Parallel()
	h, q := newHouse(t), newInquirer([]action.Question{form("a")})
	h.catalog.put(q.tool("read", action.RiskRead))
	r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
	patient := h.wait(r.Invocation) // and has lost nothing
	h.eventually("the caller to wait", func() bool { return h.gate.Callers(r.Invocation) == 1 })
	back := askable()
	back.Resumes = true
	out, err := h.gate.Wait(t.Context(), &h.session, r.Invocation, back)
	if again := h.asked(answer{out, err}); again.ID != r.ID || len(again.Questions) != 1 {
		t.Errorf("asked %+v, then %+v", r, again)
	}
	h.reply(r, result(`"yes"`))
	if got := heard(h, h.want(h.get(patient), action.StatusCompleted)); fmt.Sprint(got) != `["yes"]` {
		t.Errorf("the source heard %q", got)
	}
}

func TestNobodyWhoIsAwayIsWaitedForAtTheEnd(t *testing.T) {
	t.Parallel()
	h, q := newHouse(t), newInquirer([]action.Question{form("a")})
	h.catalog.put(q.tool("read", action.RiskRead))
	r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
	if err := h.gate.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if row := h.row(r.Invocation); row.Status != action.StatusCompleted || !strings.Contains(string(row.Result), "not_asked") {
		t.Errorf("the call is %s: %s", row.Status, row.Result)
	}
}

func TestRepliesOneByOne(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, h *house) {
		q := newInquirer([]action.Question{form("a"), form("b"), form("c")})
		h.catalog.put(q.tool("read", action.RiskRead))
		r := h.asked(h.get(h.begin(t.Context(), h.askable("read"))))
		reply := func(s action.Session, key, text string, final bool) error {
			_, err := h.gate.Reply(t.Context(), &s, r.ID, map[string]action.Reply{key: result(text)}, final)
			return err
		}
		other := h.newSession(action.Interactive)
		for name, err := range map[string]error{
			"another session": reply(other, "a", `"mine"`, true),
			"a key not asked": reply(h.session, "z", `"mine"`, true),
		} {
			if !errors.Is(err, action.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := reply(h.session, "a", `{`, true); !errors.Is(err, action.ErrInvalid) {
			t.Errorf("what is not valid JSON: %v", err)
		}
		if err := reply(h.session, "a", `"`+strings.Repeat("x", 2<<20)+`"`, true); !errors.Is(err, action.ErrTooLarge) {
			t.Errorf("too large a reply: %v", err)
		}
		for _, text := range []string{`"first"`, `"second"`} { // sent again
			if err := reply(h.session, "a", text, false); err != nil {
				t.Fatal(err)
			}
		}
		waits := h.wait(r.Invocation)
		select {
		case a := <-waits:
			t.Fatalf("the source did not wait for the rest: %+v, %v", a.Round, a.err)
		case <-time.After(100 * time.Millisecond):
		}
		if err := reply(h.session, "c", `"last"`, true); err != nil {
			t.Fatal(err)
		}
		if got := heard(h, h.want(h.get(waits), action.StatusCompleted)); fmt.Sprint(got) != `["first" open "last"]` {
			t.Errorf("the source heard %q", got)
		}
	})
}
