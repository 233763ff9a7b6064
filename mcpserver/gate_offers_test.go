package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/action"
)

// roundPrefix is what the ids of rounds have in common; the number of the
// invocation follows, of which a test has nine at most.
const roundPrefix = "01920000-0000-7000-8000-00000000000"

// askedRound is a round of questions of the gate in memory.
type askedRound struct {
	action.Round
	taken   bool
	over    bool
	replies map[string]action.Reply
	done    chan struct{} // closed when it is answered
}

// talk is what an action that runs says to its caller.
type talk struct {
	gate *gate
	r    *record
}

func (t *talk) log(params string) { t.say("log " + params) }

func (t *talk) say(params string) {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	t.r.reports = append(t.r.reports, params)
	t.r.wakeLocked()
}

// ask asks as the real Gate does, and returns the replies, by key, as JSON.
func (t *talk) ask(within time.Duration, questions ...action.Question) string {
	t.gate.mu.Lock()
	inv := &t.r.Invocation
	round := &askedRound{replies: map[string]action.Reply{}, done: make(chan struct{})}
	round.Round = action.Round{
		ID: roundPrefix + strings.TrimPrefix(inv.ID, "inv-"), Invocation: inv.ID, Source: inv.Source, SourceName: inv.SourceName,
		Questions: questions, Until: time.Now().Add(within),
	}
	t.r.round = round
	t.r.wakeLocked()
	t.gate.mu.Unlock()
	select {
	case <-round.done:
	case <-time.After(within):
	}
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	round.over = true
	text, err := json.Marshal(round.replies)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func (g *gate) take(r *record, can action.ClientFeatures) *action.Round {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.round == nil || r.round.taken || r.round.over {
		return nil
	}
	for i := range r.round.Questions {
		if _, f, ok := r.round.Questions[i].Needs(); !ok || !can.Has(f) {
			return nil
		}
	}
	r.round.taken = true
	return &r.round.Round
}

func (g *gate) Reply(_ context.Context, s *action.Session, id string, replies map[string]action.Reply, final bool) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.replyErrs > 0 {
		g.replyErrs--
		return "", g.replyErr
	}
	g.replied++
	r := g.records["inv-"+strings.TrimPrefix(id, roundPrefix)]
	if r == nil || r.round == nil || !r.round.taken || r.Invocation.Session != s.ID {
		return "", action.Errorf(action.ErrNotFound, "unknown_round", "no such round")
	}
	for key := range replies {
		if !slices.ContainsFunc(r.round.Questions, func(q action.Question) bool { return q.Key == key }) {
			return "", action.Errorf(action.ErrNotFound, "unknown_round", "no such question")
		}
	}
	select {
	case <-r.round.done:
		return r.Invocation.ID, nil
	default:
	}
	if r.round.over {
		return "", action.Errorf(action.ErrGone, "round_over", "the source waits no more")
	}
	for key, reply := range replies {
		if _, answered := r.round.replies[key]; !answered {
			r.round.replies[key] = reply
		}
	}
	if final || len(r.round.replies) == len(r.round.Questions) {
		close(r.round.done)
	}
	return r.Invocation.ID, nil
}

func (g *gate) Offerings(context.Context, *action.Session) (*action.Offerings, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	o := g.offered
	g.offerings++
	return &o, g.listErr
}

// found looks a name up among offerings.
func found(list []action.Offering, as string) (source, name string, err error) {
	for _, o := range list {
		if o.AgentName == as {
			return o.Source, o.Name, nil
		}
	}
	return "", "", action.Errorf(action.ErrNotFound, "unknown", "there is no such thing")
}

func (g *gate) ResolveResource(_ context.Context, _ *action.Session, uri string) (string, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if strings.HasPrefix(uri, "demo://t/") && !strings.Contains(uri, "{") {
		return "demo", uri, nil
	}
	if strings.HasPrefix(uri, "shut://") {
		return "shut", uri, nil
	}
	return found(slices.Concat(g.offered.Resources, g.offered.Templates), uri)
}

func (g *gate) ResolvePrompt(_ context.Context, _ *action.Session, name string) (string, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return found(g.offered.Prompts, name)
}

// Complete tells what it was asked.
func (g *gate) Complete(_ context.Context, _ *action.Session, source, name string, params json.RawMessage) (action.Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.offered.SupportsCompletion {
		return action.Answer{}, action.Errorf(action.ErrNotFound, "no_completion", "Demo completes nothing.")
	}
	if strings.Contains(string(params), "refuse") {
		return action.Answer{Problem: json.RawMessage(`{"code":-32602,"message":"no","data":{"n":1.0}}`)}, nil
	}
	return action.Answer{Body: json.RawMessage(fmt.Sprintf(`{"completion":{"values":["%s %s"]},"asked":%s}`, source, name, params))}, nil
}

func (g *gate) Subscribe(ctx context.Context, _ *action.Session, source, uri string, on bool) error {
	if g.subscribing != nil {
		if err := g.subscribing(ctx, source, uri, on); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.subErr != nil {
		return g.subErr
	}
	if !g.offered.SupportsSubscriptions {
		return action.Errorf(action.ErrNotFound, "no_subscription", "Demo does not tell of changes of single resources.")
	}
	if g.subs == nil {
		g.subs = map[string]int{}
	}
	if on {
		g.subs[source+" "+uri]++
	} else if g.subs[source+" "+uri]--; g.subs[source+" "+uri] < 0 {
		panic("an end without a beginning: " + uri)
	}
	return nil
}

// CountRefusal records.
func (g *gate) CountRefusal(s *action.Session, kind action.RefusalKind, source, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusals = append(g.refusals, fmt.Sprintf("%s %s %s:%s", s.ID, kind, source, name))
}

// Admit counts.
func (g *gate) Admit(context.Context, *action.Session) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted++
	return g.admitErr
}

// subscribed returns what is subscribed to at sources, one line each.
func (g *gate) subscribed() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lines []string
	for name, n := range g.subs {
		if n > 0 {
			lines = append(lines, fmt.Sprintf("%s %d\n", name, n))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// form is a question that a person answers.
func form(key, message string) action.Question {
	return action.Question{Key: key, Method: "elicitation/create", Params: json.RawMessage(
		`{"mode":"form","message":` + message + `,"requestedSchema":{"type":"object","properties":{"n":{"type":"integer","default":1.0}}},"_meta":{"sallyport/source":"Bank","n":1.10},"vendor":9007199254740993}`)}
}

// offer has the gate offer something of each kind.
func (g *gate) offer() {
	g.mu.Lock()
	g.offered = action.Offerings{
		Resources: []action.Offering{
			{Source: "demo", SourceName: "Demo", Name: "demo://b", AgentName: "demo://b", Definition: json.RawMessage(`{"uri":"demo://b", "name":"b","size":12,"vendor":{"z":12345678901234567890,"a":null}}`)},
			{Source: "two", SourceName: "Two", Name: "demo://b", AgentName: "two+demo://b", Definition: json.RawMessage(`{"uri":"two+demo://b","name":"b"}`)},
			{Source: "held", SourceName: "Held", Name: "held://x", AgentName: "held://x", Definition: json.RawMessage(`{"uri":"held://x","name":"x"}`)},
		},
		Templates: []action.Offering{{Source: "demo", SourceName: "Demo", Name: "demo://t/{id}", AgentName: "demo://t/{id}", Definition: json.RawMessage(`{"uriTemplate":"demo://t/{id}","name":"t"}`)}},
		Prompts: []action.Offering{
			{Source: "two", SourceName: "Two", Name: "greet", AgentName: "two_greet", Definition: json.RawMessage(`{"name":"two_greet","arguments":[{"name":"who","required":true}],"vendor":1.10}`)},
			{Source: "demo", SourceName: "Demo", Name: "asks", AgentName: "asks", Definition: json.RawMessage(`{"name":"asks"}`)},
		},
		HasResources: true, HasPrompts: true, SupportsCompletion: true, SupportsLogs: true, SupportsSubscriptions: true,
		ResourcesVersion: "r1", PromptsVersion: "p1",
	}
	g.mu.Unlock()
	echo := func(_ context.Context, params json.RawMessage, _ func(string)) action.Outcome {
		return answer(`{"contents":[{"uri":"demo://b","text":"t","n":1.10}],"asked":` + string(params) + `}`)
	}
	act := func(source, name string) action.Action {
		return action.Action{Source: source, SourceName: strings.ToUpper(source[:1]) + source[1:], Name: name}
	}
	g.add(&served{Action: act("demo", action.ActionRead), run: echo})
	g.add(&served{Action: act("two", action.ActionRead), run: echo})
	g.add(&served{Action: act("shut", action.ActionRead), mode: action.ModeDeny, note: "Reads of Shut are not for this session"})
	g.add(&served{Action: act("held", action.ActionRead), mode: action.ModeRequireApproval, talk: func(c *talk) action.Outcome {
		time.Sleep(time.Second)
		c.say(`{"progress":1}`)
		c.log(`{"level":"info","data":"read"}`)
		return answer(`{"contents":[]}`)
	}})
	g.add(&served{Action: act("two", action.ActionPrompt), run: func(_ context.Context, params json.RawMessage, _ func(string)) action.Outcome {
		if strings.Contains(string(params), "refuse") {
			return action.Outcome{
				Answer:     action.Answer{Problem: json.RawMessage(`{"code":-32602,"message":"no","data":{"n":1.0}}`)},
				Invocation: action.Invocation{Status: action.StatusFailed, Error: &action.Failure{Code: action.FailedUpstream}},
			}
		}
		return answer(`{"messages":[],"asked":` + string(params) + `}`)
	}})
	g.add(&served{Action: act("demo", action.ActionPrompt), talk: func(c *talk) action.Outcome {
		return answer(`{"messages":[],"replies":` + c.ask(time.Minute, form("who", `"Who?"`)) + `}`)
	}})
	g.add(&served{Action: action.Action{Tool: "asks"}, talk: func(c *talk) action.Outcome {
		first := c.ask(time.Minute, form("a/b", `"How \u006dany?"`), action.Question{Key: "r", Method: "roots/list"})
		second := c.ask(time.Minute, action.Question{Key: "s", Method: "sampling/createMessage", Params: json.RawMessage(`{"messages":[],"maxTokens":100}`)})
		return answer(`{"content":[],"first":` + first + `,"second":` + second + `}`)
	}})
	g.add(&served{Action: action.Action{Tool: "asks_long"}, talk: func(c *talk) action.Outcome {
		return answer(`{"content":[],"replies":` + c.ask(time.Minute, form(strings.Repeat("k", 256<<10), `"Sure?"`)) + `}`)
	}})
	g.add(&served{Action: action.Action{Tool: "held_asks"}, mode: action.ModeRequireApproval, talk: func(c *talk) action.Outcome {
		return answer(`{"content":[],"replies":` + c.ask(time.Minute, form("q", `"Sure?"`)) + `}`)
	}})
	g.add(&served{Action: action.Action{Tool: "logs"}, talk: func(c *talk) action.Outcome {
		for _, level := range []string{"debug", "warning", "odd"} {
			c.log(`{"level":"` + level + `", "logger":"l","data":{"n":9007199254740993}}`)
		}
		time.Sleep(time.Millisecond)
		return answer(`{"content":[]}`)
	}})
}

// move changes the version of a list.
func (g *gate) move(kind string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch kind {
	case "resources":
		g.offered.ResourcesVersion += "+"
	case "prompts":
		g.offered.PromptsVersion += "+"
	}
}

// failReplies has the next replies fail.
func (g *gate) failReplies(err error, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.replyErr, g.replyErrs = err, n
}

// isAsked reports whether a caller was given a round of the invocation.
func (g *gate) isAsked(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.records[id]
	return r != nil && r.round != nil && r.round.taken
}

// body is what an invocation was answered.
func (g *gate) body(id string) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.records[id].Answer.Body
}

// askedForOfferings counts.
func (g *gate) askedForOfferings() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.offerings
}

// repliesHeard counts.
func (g *gate) repliesHeard() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.replied
}
