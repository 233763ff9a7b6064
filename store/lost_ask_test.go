package store_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"sallyport/action"
)

// lostAskCases are those of what sources ask, and of sign-ins. What must be
// there before is made first, and its commits are spared.
var lostAskCases = map[string]lostCase{
	"a round is opened": {
		cut: "INSERT INTO rounds", check: func(l *lostWorld) error {
			if asking, err := l.OpenRounds(l.ctx, []string{l.d.ID}); err != nil || len(asking) != 1 {
				return fmt.Errorf("asking: %v, %w", asking, err)
			}
			return nil
		},
		do: func(l *lostWorld) error { _, err := l.asks(); return err },
	},
	"its commit is cut": {
		cut: "commit\x00", check: roundIs(func(r action.AskedRound) bool { return r.TakenAt == nil }),
		do: func(l *lostWorld) error { _, err := l.asks(); return err },
	},
	"a round is taken": {
		cut: "commit\x00", spare: 1, check: roundIs(func(r action.AskedRound) bool { return r.TakenAt != nil }),
		do: func(l *lostWorld) error { _, err := l.taken(); return err },
	},
	"a round is answered": {
		cut: "commit\x00", spare: 2, check: roundIs(func(r action.AskedRound) bool { return r.AnsweredAt != nil && len(r.Replies) == 1 }),
		do: func(l *lostWorld) error { _, err := l.replied(); return err },
	},
	"a round is closed": {
		cut: "commit\x00", spare: 3,
		do: func(l *lostWorld) error {
			r, err := l.replied()
			if err == nil {
				err = l.CloseRound(l.ctx, l.s.Organization, r.ID, nil, time.Now())
			}
			return err
		},
		check: func(l *lostWorld) error {
			if list, err := l.Events(l.ctx, l.s.Organization, l.d.ID); err != nil || len(list) != 1 || list[0].Kind != action.SourceAsked {
				return fmt.Errorf("events %+v, %w", list, err)
			}
			return nil
		},
	},
	"a sign-in is ended": {
		cut: "commit\x00", spare: 2, check: func(*lostWorld) error { return nil },
		do: func(l *lostWorld) error {
			c, err := l.connector()
			if err != nil {
				return err
			}
			err = l.PutOAuthFlow(l.ctx, action.OAuthFlow{
				StateHash: c.ID, Organization: c.Organization, Connector: c.ID, By: "ann", ExpiresAt: time.Now().Add(time.Minute), Sealed: []byte("x"),
			})
			if err != nil {
				return err
			}
			f, err := l.TakeOAuthFlow(l.ctx, c.ID, time.Now())
			if err == nil && string(f.Sealed) != "x" {
				err = fmt.Errorf("the sign-in is %+v", f)
			}
			return err
		},
	},
	"tokens are written": {
		cut: "commit\x00", spare: 1,
		do: func(l *lostWorld) error {
			c, err := l.connector()
			if err != nil {
				return err
			}
			return l.PutOAuthGrant(l.ctx, action.OAuthGrant{
				Organization: c.Organization, Connector: c.ID, Issuer: "https://i", Status: action.OAuthConnected, By: "ann", Sealed: []byte("x"),
			})
		},
		check: func(l *lostWorld) error {
			if list, err := l.ListOAuthGrants(l.ctx, l.s.Organization); err != nil || len(list) != 1 || list[0].Version != 1 {
				return fmt.Errorf("tokens %+v, %w", list, err)
			}
			return grantsAndEvents(0, 2)(l)
		},
	},
}

// asks has the held call executed and its source ask something.
func (l *lostWorld) asks() (*action.AskedRound, error) {
	if err := errors.Join(l.approve(), l.claim()); err != nil {
		return nil, err
	}
	now := time.Now()
	r := &action.AskedRound{
		ID: l.d.ID, Organization: l.s.Organization, Invocation: l.d.ID, Session: l.s.ID, Needs: action.ClientSamples, Keys: []string{"a"},
		Sealed: []byte("x"), AskedAt: now, Until: now.Add(time.Minute),
	}
	return r, l.OpenRound(l.ctx, r)
}

// taken has this caller, and no other, get the question.
func (l *lostWorld) taken() (*action.AskedRound, error) {
	r, err := l.asks()
	if err != nil {
		return nil, err
	}
	r, err = l.TakeRound(l.ctx, r.Organization, r.Invocation, r.Needs, time.Time{}, time.Now())
	if err == nil && (r == nil || string(r.Sealed) != "x") {
		err = fmt.Errorf("what was taken is %+v", r)
	}
	return r, err
}

func (l *lostWorld) replied() (action.AskedRound, error) {
	r, err := l.taken()
	if err != nil {
		return action.AskedRound{}, err
	}
	got, err := l.ReplyRound(l.ctx, r.Organization, r.Session, r.ID, map[string][]byte{"a": []byte("y")}, false, time.Now())
	if err == nil && (got.AnsweredAt == nil || string(got.Replies["a"]) != "y") {
		err = fmt.Errorf("what was answered is %+v", got)
	}
	return got, err
}

func roundIs(right func(action.AskedRound) bool) func(*lostWorld) error {
	return func(l *lostWorld) error {
		r, err := l.LoadRound(l.ctx, l.s.Organization, l.d.ID)
		if err == nil && !right(r) {
			err = fmt.Errorf("the round is %+v", r)
		}
		return err
	}
}

func (l *lostWorld) connector() (action.Connector, error) {
	c := action.Connector{ID: uuid.NewString(), Organization: l.s.Organization, Name: "Git", Slug: "code", URL: "https://mcp.example.com"}
	return c, l.CreateConnector(l.ctx, c, nil, "ann")
}
