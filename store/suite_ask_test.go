package store_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"sallyport/action"
)

// opens writes a round of questions of an executing call.
func (h *house) opens(invocation string, keys ...string) *action.AskedRound {
	h.Helper()
	r := h.question(invocation, keys...)
	h.ok(h.db.OpenRound(h.ctx, r))
	return r
}

// question is a round that nobody opened yet.
func (h *house) question(invocation string, keys ...string) *action.AskedRound {
	return &action.AskedRound{
		ID: newID(), Organization: h.org.ID, Invocation: invocation, Session: h.s.ID, Needs: action.ClientElicitsForm, Keys: keys,
		Sealed: []byte("sealed question"), AskedAt: h.now, Until: h.now.Add(time.Minute),
	}
}

// takes has a caller who offers forms and samples ask for a round.
func (h *house) takes(invocation string) *action.AskedRound {
	h.Helper()
	return must(h.db.TakeRound(h.ctx, h.org.ID, invocation, action.ClientElicitsForm|action.ClientSamples, time.Time{}, h.now))(h)
}

func (h *house) replies(id string, final bool, replies map[string][]byte) (action.AskedRound, error) {
	return h.db.ReplyRound(h.ctx, h.org.ID, h.s.ID, id, replies, final, h.now)
}

func (h *house) asking(invocations ...string) []string {
	h.Helper()
	return must(h.db.OpenRounds(h.ctx, invocations))(h)
}

var askStories = map[string]func(*house){
	"a round is opened, taken, answered and closed": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		r := h.opens(d.ID, "a", "b")
		h.equal(h.asking(newID(), d.ID), []string{d.ID}, "who is asking")

		h.later(time.Second)
		taken := h.takes(d.ID)
		want := *r
		want.TakenAt = new(h.now)
		h.equal(taken, &want, "what was taken")
		h.equal(len(h.asking(d.ID)), 0, "who is asking afterwards")
		h.equal(h.takes(d.ID), (*action.AskedRound)(nil), "what a second one takes")

		got := must(h.replies(r.ID, false, map[string][]byte{"a": []byte("first")}))(h)
		want.Replies = map[string][]byte{"a": []byte("first")}
		h.equal(got, want, "answered in part")
		h.later(time.Second)
		got = must(h.replies(r.ID, false, map[string][]byte{"a": []byte("second"), "b": []byte("b")}))(h)
		want.Replies["b"], want.AnsweredAt = []byte("b"), new(h.now)
		h.equal(got, want, "answered")
		h.equal(must(h.db.LoadRound(h.ctx, h.org.ID, r.ID))(h), want, "as it is stored")
		h.later(time.Second)
		h.equal(must(h.replies(r.ID, true, map[string][]byte{"b": []byte("late")}))(h), want, "answered once more")

		h.ok(h.db.CloseRound(h.ctx, h.org.ID, r.ID, json.RawMessage(`{"outcome":"answered"}`), h.now))
		h.later(time.Second)
		h.ok(h.db.CloseRound(h.ctx, h.org.ID, r.ID, json.RawMessage(`{"outcome":"again"}`), h.now))
		want.ClosedAt, want.Sealed, want.Replies = new(h.now.Add(-time.Second)), nil, map[string][]byte{}
		h.equal(must(h.db.LoadRound(h.ctx, h.org.ID, r.ID))(h), want, "closed")
		h.equal(must(h.replies(r.ID, true, nil))(h), want, "a reply that is repeated after the end")
		events := must(h.db.Events(h.ctx, h.org.ID, d.ID))(h)
		if len(events) != 1 || events[0].Kind != action.SourceAsked || string(events[0].Data) != `{"outcome":"answered"}` {
			h.Errorf("events %+v", events)
		}
	},
	"a round is taken only by a capable caller, before it expires": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		r := h.question(d.ID, "a")
		r.Needs = action.ClientSamples | action.ClientSamplesTools
		h.ok(h.db.OpenRound(h.ctx, r))
		take := func(organization string, can action.ClientFeatures) *action.AskedRound {
			return must(h.db.TakeRound(h.ctx, organization, d.ID, can, time.Time{}, h.now))(h)
		}
		for what, got := range map[string]*action.AskedRound{
			"who offers a part":      take(h.org.ID, action.ClientSamples|action.ClientElicitsForm),
			"who offers nothing":     take(h.org.ID, 0),
			"another organization's": take(newHouse(h.T, h.db).org.ID, r.Needs),
		} {
			if got != nil {
				h.Errorf("%s took it", what)
			}
		}
		h.later(time.Minute)
		if take(h.org.ID, r.Needs) != nil {
			h.Error("it was taken after its time")
		}
		h.later(-time.Microsecond)
		if take(h.org.ID, r.Needs) == nil {
			h.Error("nobody may take it")
		}
	},
	"a lost round can be taken again": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		r := h.question(d.ID, "a")
		h.ok(h.db.OpenRound(h.ctx, r))
		take := func(lost time.Time) *action.AskedRound {
			return must(h.db.TakeRound(h.ctx, h.org.ID, d.ID, r.Needs, lost, h.now))(h)
		}
		if take(h.now) == nil {
			h.Fatal("nobody may take it")
		}
		first := h.now
		if take(first) != nil {
			h.Error("it was given to two callers who were there at one time")
		}
		h.later(time.Second)
		if take(time.Time{}) != nil {
			h.Error("it was given to one who does not ask for what was lost")
		}
		if again := take(h.now); again == nil || again.ID != r.ID {
			h.Errorf("who came later got %+v", again)
		}
		must(h.replies(r.ID, true, nil))(h)
		h.later(time.Second)
		if take(h.now) != nil {
			h.Error("it was given away after it was answered")
		}
	},
	"only what executes asks": func(h *house) {
		d := h.held(`{"a":1}`)
		h.began(d)
		r := h.question(d.ID, "a")
		h.refused(h.db.OpenRound(h.ctx, r), action.ErrConflict, "not_executing")
		h.approve(d.ID)
		h.claim(d.ID)
		stranger := *r
		stranger.Session = h.session(action.Interactive).ID
		h.refused(h.db.OpenRound(h.ctx, &stranger), action.ErrConflict, "not_executing")
		h.ok(h.db.OpenRound(h.ctx, r))
		h.finish(h.done(d.ID))
		if h.takes(d.ID) != nil {
			h.Error("a question of a call that ended was taken")
		}
		h.refused(h.db.OpenRound(h.ctx, h.question(d.ID, "b")), action.ErrConflict, "not_executing")
	},
	"a read with a queued row can ask questions": func(h *house) {
		d := h.read(`{"a":1}`)
		h.began(d)
		h.opens(d.ID, "a")
		if h.takes(d.ID) == nil {
			h.Fatal("nobody was asked")
		}
		h.finish(h.done(d.ID))
		h.equal(string(h.load(d.ID).SealedResult), "sealed result", "what is kept of a call that joins nothing")
	},
	"only the asked session answers a round": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		r := h.opens(d.ID, "a")
		one := map[string][]byte{"a": []byte("x")}
		missing := func(_ action.AskedRound, err error) {
			h.Helper()
			h.refused(err, action.ErrNotFound, "round_not_found")
		}
		missing(h.replies(r.ID, true, one)) // nobody took it
		h.takes(d.ID)
		missing(h.replies(newID(), true, one))
		missing(h.replies(r.ID, true, map[string][]byte{"b": []byte("x")}))
		missing(h.db.ReplyRound(h.ctx, h.org.ID, h.session(action.Interactive).ID, r.ID, one, true, h.now))
		other := newHouse(h.T, h.db)
		missing(h.db.ReplyRound(h.ctx, other.org.ID, h.s.ID, r.ID, one, true, h.now))
		missing(h.db.LoadRound(h.ctx, other.org.ID, r.ID))
		h.refused(h.db.CloseRound(h.ctx, other.org.ID, r.ID, nil, h.now), action.ErrNotFound, "round_not_found")
		h.equal(len(must(h.db.LoadRound(h.ctx, h.org.ID, r.ID))(h).Replies), 0, "replies")
		got := must(h.replies(r.ID, true, nil))(h)
		h.equal(got.AnsweredAt, new(h.now), "when who left all open answered")
	},
	"a closed round accepts no replies": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		r := h.opens(d.ID, "a")
		h.takes(d.ID)
		h.later(time.Minute + time.Microsecond)
		_, err := h.replies(r.ID, true, map[string][]byte{"a": []byte("x")})
		h.refused(err, action.ErrGone, "round_over")
		h.later(-time.Second)
		h.ok(h.db.CloseRound(h.ctx, h.org.ID, r.ID, nil, h.now))
		_, err = h.replies(r.ID, true, map[string][]byte{"a": []byte("x")})
		h.refused(err, action.ErrGone, "round_over")
	},
	"of 64 callers one gets the question": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		h.opens(d.ID, "a")
		var taken atomic.Int64
		together(64, func(i int) {
			r, err := h.any(i).TakeRound(h.ctx, h.org.ID, d.ID, action.ClientElicitsForm, time.Time{}, h.now)
			if err != nil {
				h.Error(err)
			}
			if r != nil {
				taken.Add(1)
			}
		})
		h.equal(taken.Load(), int64(1), "callers who were asked")
	},
	"16 replies at once, the first one stays": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		r := h.opens(d.ID, "a", "b")
		h.takes(d.ID)
		var got [16]action.AskedRound
		together(len(got), func(i int) {
			var err error
			mine := map[string][]byte{"a": fmt.Append(nil, i), "b": fmt.Append(nil, i)}
			if got[i], err = h.any(i).ReplyRound(h.ctx, h.org.ID, h.s.ID, r.ID, mine, false, h.now); err != nil {
				h.Error(err)
			}
		})
		for i := range got {
			h.equal(got[i], got[0], "what the others were told")
		}
		h.equal(got[0].Replies["a"], got[0].Replies["b"], "the one reply")
	},
	"old rounds are swept": func(h *house) {
		d := h.allowed(`{"a":1}`)
		h.began(d)
		r := h.opens(d.ID, "a")
		h.ok(h.db.CloseRound(h.ctx, h.org.ID, r.ID, nil, h.now))
		r = h.opens(d.ID, "b") // whoever asks this died
		h.takes(d.ID)
		must(h.replies(r.ID, false, map[string][]byte{"b": []byte("x")}))(h)
		h.later(time.Minute + time.Hour)
		h.swept(h.rules())
		must(h.db.LoadRound(h.ctx, h.org.ID, r.ID))(h)
		h.later(time.Microsecond)
		h.swept(h.rules())
		_, err := h.db.LoadRound(h.ctx, h.org.ID, r.ID)
		h.refused(err, action.ErrNotFound, "round_not_found")
		h.swept(h.rules())
		events := must(h.db.Events(h.ctx, h.org.ID, d.ID))(h)
		want := fmt.Sprintf(`{"round":%q,"outcome":"the gateway that asked stopped"}`, r.ID)
		if len(events) != 2 || string(events[0].Data) != "{}" || events[1].Kind != action.SourceAsked || string(events[1].Data) != want || !events[1].At.Equal(h.now) {
			h.Errorf("events %+v", events)
		}
	},
}
