package dashboard_test

import (
	"context"
	"slices"
	"time"

	"sallyport/action"
)

// peopleRows is what memory keeps of people beside their rows.
type peopleRows struct {
	removed     []action.User
	removedBy   map[string]string
	endedLogins map[string]action.LoginEnd // by hash of the cookie
	keyUses     map[string]time.Time
	usedLinks   []string
	said        map[string]time.Time // by organization, issuer and subject
}

func (m *memory) AdmitUser(_ context.Context, in action.Identity) (action.User, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	is := func(u action.User) bool {
		return u.Organization == in.Organization && u.Issuer == in.Issuer && u.Subject == in.Subject
	}
	if in.Organization != org && in.Organization != "org2" {
		return action.User{}, missing("organization")
	}
	if slices.ContainsFunc(m.removed, is) {
		return action.User{}, action.Errorf(action.ErrForbidden, "person_removed", "You were removed.")
	}
	u, err := find("user", m.users, is)
	if err != nil {
		made := action.User{
			ID: "u-" + in.Organization + "-" + in.Subject, Organization: in.Organization, Name: in.Name, Role: in.Role,
			Issuer: in.Issuer, Subject: in.Subject, CreatedAt: m.now(),
		}
		m.users = append(m.users, made)
		m.said[in.Organization+in.Issuer+in.Subject] = in.SaidAt
		return made, nil
	}
	said := in.Organization + in.Issuer + in.Subject
	if in.SaidAt.IsZero() || in.SaidAt.Before(m.said[said]) {
		return *u, nil
	}
	m.said[said] = in.SaidAt
	if u.Role == action.RoleOwner && in.Role != action.RoleOwner {
		if err := m.lastOwnerLocked(u.Organization, u.ID); err != nil {
			m.signOutLocked(u.Organization, u.ID, action.EndRole)
			return action.User{}, err
		}
	}
	u.Name, u.Role = in.Name, in.Role
	return *u, nil
}

func (m *memory) CutOffUser(_ context.Context, organization, issuer, subject string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u, err := find("user", m.users, func(u action.User) bool {
		return u.Organization == organization && u.Issuer == issuer && u.Subject == subject
	})
	if err != nil || m.signOutLocked(organization, u.ID, action.EndRole) == 0 {
		return "", nil
	}
	return u.ID, nil
}

func (m *memory) RemovedUsers(_ context.Context, organization string) (list []action.RemovedUser, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.removed {
		if u.Organization == organization {
			list = append(list, action.RemovedUser{ID: u.ID, Name: u.Name, Role: u.Role, Issuer: u.Issuer, RemovedBy: m.removedBy[u.ID], RemovedAt: m.now()})
		}
	}
	return list, nil
}

func (m *memory) ReadmitUser(_ context.Context, organization, id string, as action.Role, _ string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u, err := find("user", m.removed, func(u action.User) bool { return u.Organization == organization && u.ID == id }); err == nil && u.Role == action.RoleOwner && as != action.RoleOwner {
		return action.Errorf(action.ErrForbidden, "owner_required", "An owner lets this person in again.")
	}
	before := len(m.removed)
	m.removed = slices.DeleteFunc(m.removed, func(u action.User) bool { return u.Organization == organization && u.ID == id })
	if len(m.removed) == before {
		return missing("user")
	}
	return nil
}

func (m *memory) TouchAPIKey(_ context.Context, id string, used time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keyUses[id] = used
	return nil
}

func (m *memory) ListLogins(_ context.Context, organization, user string) (list []action.Login, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.logins {
		if l.Organization == organization && l.User == user {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b action.Login) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list, nil
}

func (m *memory) EndLogin(_ context.Context, organization, user, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for hash, l := range m.logins {
		if l.Organization == organization && l.User == user && l.ID == id {
			m.endedLogins[hash] = action.EndEverywhere
			delete(m.logins, hash)
			return nil
		}
	}
	return missing("login")
}

func (m *memory) EndLogins(_ context.Context, organization, user string, why action.LoginEnd) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.signOutLocked(organization, user, why), nil
}

func (m *memory) signOutLocked(organization, user string, why action.LoginEnd) (n int) {
	for hash, l := range m.logins {
		if l.Organization == organization && l.User == user {
			m.endedLogins[hash] = why
			delete(m.logins, hash)
			n++
		}
	}
	for code, l := range m.links {
		if l.Organization == organization && l.User == user {
			delete(m.links, code)
		}
	}
	return n
}

func (m *memory) LoginEnd(_ context.Context, cookieHash string) (action.LoginEnd, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endedLogins[cookieHash], nil
}

// usedLocked is a key with its last use.
func (m *memory) usedLocked(k action.APIKey) action.APIKey {
	if at, ok := m.keyUses[k.ID]; ok {
		k.UsedAt = &at
	}
	return k
}
