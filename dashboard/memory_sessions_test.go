package dashboard_test

import (
	"context"
	"slices"
	"time"

	"sallyport/action"
)

func (m *memory) MakeSession(ctx context.Context, s action.Session, once action.Once) (action.Session, bool, error) {
	if earlier, found, err := m.SessionOnce(ctx, s.Organization, once); err != nil || found {
		return earlier, found, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if once.Key != "" {
		m.once[s.Organization+"/"+once.Key] = keyedSession{s.ID, once.Hash}
	}
	m.sessions = append(m.sessions, s)
	return s, false, nil
}

// keyedSession is which session a key made, of which wish.
type keyedSession struct{ id, hash string }

func (m *memory) SessionOnce(ctx context.Context, organization string, once action.Once) (action.Session, bool, error) {
	m.mu.Lock()
	made, found := m.once[organization+"/"+once.Key]
	m.mu.Unlock()
	switch {
	case !found || once.Key == "":
		return action.Session{}, false, nil
	case made.hash != once.Hash:
		return action.Session{}, false, action.Errorf(action.ErrConflict, "idempotency_key_reused", "Use a new key for a new session.")
	}
	s, err := m.Session(ctx, made.id)
	return s, true, err
}

// moveSession changes a session of the organization that has one of the
// statuses.
func (m *memory) moveSession(organization, id string, from []action.SessionStatus, change func(*action.Session)) (action.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := find("session", m.sessions, func(s action.Session) bool { return s.ID == id && s.Organization == organization })
	if err != nil {
		return action.Session{}, err
	}
	if !slices.Contains(from, s.Status) || s.Live(m.now()) != nil {
		return action.Session{}, action.Errorf(action.ErrConflict, "session_status", "The session is %s.", s.Status)
	}
	change(s)
	return *s, nil
}

var (
	runs  = []action.SessionStatus{action.SessionPending, action.SessionRunning}
	lives = append(runs[:2:2], action.SessionPaused)
)

func (m *memory) PauseSession(_ context.Context, organization, id string) (action.Session, error) {
	return m.moveSession(organization, id, runs, func(s *action.Session) { s.Status = action.SessionPaused })
}

func (m *memory) ResumeSession(_ context.Context, organization, id string) (action.Session, error) {
	return m.moveSession(organization, id, lives[2:], func(s *action.Session) { s.Status = action.SessionRunning })
}

func (m *memory) EndSession(ctx context.Context, organization, id string, as action.SessionStatus, note string) (action.Session, []action.Invocation, error) {
	_, err := m.moveSession(organization, id, lives, func(s *action.Session) { s.EndedNote = note })
	if err != nil {
		return action.Session{}, nil, err
	}
	withdrew, err := m.RevokeSession(ctx, organization, id)
	if err != nil {
		return action.Session{}, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := find("session", m.sessions, func(s action.Session) bool { return s.ID == id })
	s.Status = as
	return *s, withdrew, err
}

func (m *memory) ChangeSession(_ context.Context, organization, id string, title *string, idle *time.Duration) (action.Session, error) {
	return m.moveSession(organization, id, lives, func(s *action.Session) {
		if title != nil {
			s.Title = *title
		}
		if idle != nil {
			s.IdleTimeout = *idle
		}
	})
}
